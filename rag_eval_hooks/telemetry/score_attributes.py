"""Scores as attributes of a span: the headline, verdicts, values, and reasons of failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Score
from rag_eval_hooks.telemetry.attribute_limits import Attributes, present
from rag_eval_hooks.telemetry.thresholds import REASON_CHARS, Thresholds

__all__ = ["ScoreAttributes"]

_GROUNDEDNESS: Final = ("faithfulness", "ragas_faithfulness", "response_groundedness")
_STYLE: Final = ("lexical.source_citation",)
"""Metrics of the answer's style, which say nothing of whether it is right."""
_Value = str | float | bool


class ScoreAttributes:
    """Attributes of RAG spans and of evaluation spans for an evaluation."""

    def __init__(self, thresholds: Thresholds, *, content: bool) -> None:
        self._thresholds = thresholds
        self._content = content

    def of(self, evaluation: Evaluation) -> Attributes:
        """Return the attributes, the most important first: a full span omits the last ones."""
        return {
            **_summary(evaluation),
            **self._headline(evaluation),
            **dict(self._by_metric(evaluation)),
        }

    def _headline(self, evaluation: Evaluation) -> dict[str, _Value]:
        undecided = _undecided(evaluation)
        if undecided is not None and all(evaluation.verdicts.values()):
            return {
                semconv.GEN_AI_EVALUATION_NAME: undecided,
                semconv.GEN_AI_EVALUATION_LABEL: "undecided",
                semconv.GEN_AI_EVALUATION_EXPLANATION: evaluation.unscored[undecided].detail,
            }
        name = self._first_to_read(evaluation)
        if name is None:
            return {}
        score, passes = evaluation.scores[name], evaluation.verdicts.get(name)
        label = score.label if passes is None else "pass" if passes else "fail"
        return present(
            {
                semconv.GEN_AI_EVALUATION_NAME: name,
                semconv.GEN_AI_EVALUATION_SCORE: score.value,
                semconv.GEN_AI_EVALUATION_LABEL: label,
                semconv.GEN_AI_EVALUATION_EXPLANATION: self._reason(name, score),
            }
        )

    def _first_to_read(self, evaluation: Evaluation) -> str | None:
        """Return the worst failure, else the groundedness, else the first score of the list."""
        scores = evaluation.scores
        if failed := [name for name, passes in evaluation.verdicts.items() if not passes]:
            return max(failed, key=lambda name: self._thresholds.missed_by(name, scores[name]))
        grounded = [name for name in scores if name.partition(".")[2] in _GROUNDEDNESS]
        return next(iter([*grounded, *(name for name in scores if name not in _STYLE)]), None)

    def _reason(self, name: str, score: Score) -> str:
        return self._thresholds.reason(name, score, content=self._content)

    def _by_metric(self, evaluation: Evaluation) -> Iterator[tuple[str, _Value]]:
        """Yield values of one kind after the other; reasons come last."""
        verdicts = evaluation.verdicts
        fields: Mapping[str, Callable[[str, Score], _Value | None]] = {
            "score": lambda _, score: score.value,
            "pass": lambda name, _: verdicts.get(name),
            "label": lambda _, score: score.label,
            "screening": lambda _, score: score.screening or None,
            "normalized": lambda name, score: (
                score.normalized if self._thresholds.is_rescaled(name) else None
            ),
            "sample_rate": lambda _, score: (
                score.probability if score.probability != evaluation.probability else None
            ),
            "reason": lambda name, score: (
                None if verdicts.get(name, True) else self._reason(name, score)
            ),
        }
        for field, value_of in fields.items():
            for name, score in evaluation.scores.items():
                if (value := value_of(name, score)) is not None:
                    yield semconv.eval_key(name, field), value
        for name, failure in evaluation.unscored.items():
            yield semconv.eval_key(name, "reason"), failure.line[:REASON_CHARS]


def _undecided(evaluation: Evaluation) -> str | None:
    """Return the groundedness that the judge left undecided; without any score, any such metric."""
    names = [name for name, outcome in evaluation.unscored.items() if outcome.undecided]
    grounded = [name for name in names if name.partition(".")[2] in _GROUNDEDNESS]
    return next(iter(grounded if evaluation.scores else [*grounded, *names]), None)


def _summary(evaluation: Evaluation) -> Attributes:
    estimated = any(outcome.probability_estimated for outcome in evaluation.outcomes.values())
    risks = [
        outcome.risk
        for name, outcome in evaluation.outcomes.items()
        if name.partition(".")[2] in _GROUNDEDNESS and outcome.risk is not None
    ]
    failed = [name for name, passes in evaluation.verdicts.items() if not passes]
    return present(
        {
            semconv.EVAL_STATUS: evaluation.status.value,
            semconv.EVAL_PASS: evaluation.passed,
            semconv.EVAL_FAILED: failed or None,
            semconv.EVAL_UNSCORED: list(evaluation.unscored) or None,
            semconv.EVAL_RISK: max(risks, default=None),
            semconv.EVAL_SAMPLED_BY: evaluation.reason or None,
            semconv.EVAL_SAMPLE_RATE: evaluation.probability,
            semconv.EVAL_SAMPLE_RATE_ESTIMATED: True if estimated else None,
            semconv.EVAL_CONTEXT_SOURCE: evaluation.sample.context_source,
            semconv.EVAL_QUESTION_SOURCE: evaluation.sample.question_source,
            semconv.EVAL_TRUNCATED: list(evaluation.sample.cut_parts) or None,
            semconv.EVAL_DURATION_MS: round(evaluation.seconds * 1000, 3),
            semconv.EVAL_VERSION: __version__,
        }
    )
