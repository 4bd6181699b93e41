"""`Criterion`: a metric defined by one sentence, which the configured judge checks."""

from __future__ import annotations

import re

from rag_eval_hooks.errors import ConfigError, check_type
from rag_eval_hooks.findings import Finding, Findings, made
from rag_eval_hooks.judges.base import Judge
from rag_eval_hooks.metrics import Field, Metric
from rag_eval_hooks.metrics.formulas import claim_rows, sure_ones, unsure
from rag_eval_hooks.sample import Context, Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome

_LONGEST_NAME = 40


class Criterion(Metric):
    """A property that answers should have. The score is 1 if an answer has the property, else 0.

    ```python RagEval(metrics=["ragas", Criterion("mentions the notice period",
    name="notice_period")]) ```

    A separate judge call checks the criterion against the answer, so the score does not depend on
    other metrics. A criterion needs a language model as the judge; the heuristic judge gives no
    score.

    Args:
        text: A predicate such as `mentions the notice period`, or a sentence that starts with a
            capital letter. The subject of the predicate is the answer.
        name: The metric's id is `criterion.<name>`. The default comes from the text.

    Raises:
        ConfigError: The text is blank.
    """

    def __init__(self, text: str, *, name: str | None = None) -> None:
        check_type("criterion", text, str, "a predicate, such as 'mentions the price'")
        stated = " ".join(text.split()).rstrip(".")
        if not stated:
            raise ConfigError("criterion", text, "a predicate, such as 'mentions the price'")
        words = re.sub(r"\W+", "_", stated.casefold()).strip("_")
        super().__init__(
            id=f"criterion.{name or words[:_LONGEST_NAME]}",
            score=_met,
            needs=frozenset({Field.QUESTION, Field.ANSWER}),
            findings=frozenset({Finding.ANSWER_SUPPORT}),
            summary=f"Whether the answer meets: {stated}.",
            source="rag-eval-hooks",
        )
        claim = f"The answer {stated}." if stated[0].islower() else f"{stated}."
        object.__setattr__(self, "claim", claim)

    claim: str

    def absent(self, sample: Sample, judge: Judge) -> NotScored | None:
        """Return why the judge cannot check a sample, or None."""
        if not (sample.answer or "").strip():
            return NotScored(Cause.UNDEFINED, "the answer is blank")
        if getattr(judge, "screening", False):
            return NotScored(Cause.UNDEFINED, "the judge cannot tell", undecided=True)
        return None

    def judged(self, sample: Sample) -> tuple[Sample, Findings]:
        """Return the judge's input: the answer as the only context, the criterion as the claim."""
        text = f"The answer to the question is:\n{sample.answer}"
        cut = ("contexts",) if Field.ANSWER in sample.cut_parts else ()
        about = Sample(
            question=sample.question,
            contexts=(Context(text=text),),
            answer=self.claim,
            truncated=cut,
        )
        return about, Findings(answer_claims=(self.claim,))


def _met(_sample: Sample, findings: Findings) -> Outcome:
    support = made(findings.answer_support)
    explanation = {"claims": claim_rows(made(findings.answer_claims), support)}
    (found,) = sure_ones(support, explanation)
    label = "met" if found.supported else "not met"
    return UNIT.score(
        float(found.supported), label=label, explanation=explanation, warnings=unsure(support)
    )
