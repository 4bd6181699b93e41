"""The `nvidia` suite, 0 to 1: ratings by two independent templates each, averaged.

Source: Nvidia Metrics.
"""

from __future__ import annotations

from typing import Final

from rag_eval_hooks.findings import Finding, Findings, Pair, made
from rag_eval_hooks.metrics.formulas import mean_rating
from rag_eval_hooks.metrics.metric import Field, Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome

__all__ = ["METRICS"]

_ACCURACY: Final = (0, 2, 4)
_GROUNDING: Final = (0, 1, 2)


def _averaged(ratings: Pair, steps: tuple[int, ...]) -> Outcome:
    value = mean_rating(ratings, steps)
    if value is None:
        return NotScored(Cause.JUDGE_FAILED, "neither rating is valid")
    rows = [
        {"template": number, "rating": rating, "valid": rating in steps}
        for number, rating in enumerate(ratings, start=1)
    ]
    one_valid = not all(row["valid"] for row in rows)
    return UNIT.score(
        value,
        warnings=("only one of two ratings is valid",) if one_valid else (),
        explanation={"steps": list(steps), "ratings": rows},
    )


def _metric(
    name: str, steps: tuple[int, ...], needs: set[Field], finding: Finding, summary: str
) -> Metric:
    def score(_sample: Sample, findings: Findings) -> Outcome:
        return _averaged(made(getattr(findings, finding.value)), steps)

    return Metric(
        id=f"nvidia.{name}",
        score=score,
        needs=frozenset(needs),
        findings=frozenset({finding}),
        summary=summary,
        source=f"Nvidia Metrics, {name.replace('_', ' ').title()}",
    )


METRICS: tuple[Metric, ...] = (
    _metric(
        "answer_accuracy",
        _ACCURACY,
        {Field.QUESTION, Field.ANSWER, Field.REFERENCE},
        Finding.ACCURACY_RATINGS,
        "Agreement of answer and reference, rated twice, with their roles swapped.",
    ),
    _metric(
        "context_relevance",
        _GROUNDING,
        {Field.QUESTION, Field.CONTEXTS},
        Finding.CONTEXT_RATINGS,
        "How fully the contexts answer the question, rated twice.",
    ),
    _metric(
        "response_groundedness",
        _GROUNDING,
        {Field.ANSWER, Field.CONTEXTS},
        Finding.GROUNDEDNESS_RATINGS,
        "How fully the contexts ground the answer, rated twice.",
    ),
)
