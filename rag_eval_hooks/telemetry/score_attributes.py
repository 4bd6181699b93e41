"""Converts scores, verdicts and causes of missing scores to span attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.config import limits
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.explanation import explain, one_line
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.request import Attributes
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import UNIT, NotScored, Scale, Score
from rag_eval_hooks.telemetry.span_limits import present

_REASON_CHARS: Final = 300
_GROUNDEDNESS: Final = ("faithfulness", "ragas_faithfulness", "response_groundedness")
_STYLE: Final = ("lexical.source_citation",)
_FIELDS: Final = ("score", "pass", "label", "screening", "normalized", "sample_rate", "reason")
"""Fields of each score on a span. At its attribute limit, a span omits the last fields."""


class Thresholds:
    def __init__(self, limits: Mapping[str, float], metrics: Iterable[Metric]) -> None:
        self.scales = {metric.id: metric.scale for metric in metrics}
        self._limits = dict(limits)
        for metric_id, limit in limits.items():
            check_limit("thresholds", metric_id, limit, self.scales)

    def reason(self, metric_id: str, score: Score, *, content: bool) -> str:
        value, limit = f"{score.value:.2f}", self._limits.get(metric_id)
        if limit is not None:
            least = "least" if self.scales[metric_id].higher_is_better else "most"
            value += f", at {least} {limit:.2f}"
        words = one_line(score.explanation, _REASON_CHARS, content=content)
        return f"{words or metric_id} ({value})"

    def missed_by(self, metric_id: str, score: Score) -> float:
        # The distance is a fraction of the scale. A positive distance misses the threshold.
        scale = self.scales[metric_id]
        distance = (self._limits[metric_id] - score.value) / (scale.high - scale.low)
        return distance if scale.higher_is_better else -distance

    def judged(self, evaluation: Evaluation) -> Evaluation:
        if not self._limits:
            return evaluation
        outcomes = {name: evaluation.outcomes.get(name) for name in self._limits}
        verdicts = {
            name: self.missed_by(name, outcome) <= 0.0
            for name, outcome in outcomes.items()
            if isinstance(outcome, Score)
        }
        missing = any(isinstance(one, NotScored) and one.is_missing for one in outcomes.values())
        passed = None if missing or not verdicts else True
        return replace(
            evaluation, verdicts=verdicts, passed=passed if all(verdicts.values()) else False
        )


def check_limit(setting: str, metric_id: str, limit: float, scales: Mapping[str, Scale]) -> None:
    if metric_id not in scales:
        measured = f"`metrics`: {', '.join(sorted(scales))}"
        raise ConfigError.unknown(setting, metric_id, scales, listed=measured)
    scale = scales[metric_id]
    if not scale.low <= limit <= scale.high:
        wants = f"a number from {scale.low:g} to {scale.high:g} for {metric_id}"
        raise ConfigError(setting, limit, wants)


class ScoreAttributes:
    def __init__(self, thresholds: Thresholds, *, content: bool) -> None:
        self._thresholds = thresholds
        self._content = content

    def of(self, evaluation: Evaluation) -> Attributes:
        # Most important first, because `fitting` omits the last attributes.
        name = self._first_to_read(evaluation)
        headline = {} if name is None else self._result(evaluation, name)
        return present({**_summary(evaluation), **headline, **self._by_metric(evaluation)})

    def event(self, evaluation: Evaluation, name: str) -> Attributes:
        about = self._result(evaluation, name)
        about[semconv.GEN_AI_RESPONSE_ID] = evaluation.sample.response_id
        if (score := evaluation.scores.get(name)) is not None:
            chars = limits.EXPLANATION_CHARS
            about |= {
                semconv.EVAL_PASS: evaluation.verdicts.get(name),
                semconv.EVAL_SCREENING: score.screening or None,
                semconv.EVAL_SAMPLE_RATE: score.probability,
                semconv.EVAL_SAMPLE_RATE_ESTIMATED: score.probability_estimated or None,
                semconv.EVAL_EXPLANATION: explain(score.explanation, chars, content=self._content),
            }
        return present(about)

    def _result(self, evaluation: Evaluation, name: str) -> dict[str, Any]:
        about = {semconv.GEN_AI_EVALUATION_NAME: name}
        if (score := evaluation.scores.get(name)) is not None:
            return about | {
                semconv.GEN_AI_EVALUATION_SCORE: score.value,
                semconv.GEN_AI_EVALUATION_LABEL: evaluation.label(name),
                semconv.GEN_AI_EVALUATION_EXPLANATION: self._reason(name, score),
            }
        failure = evaluation.unscored[name]
        if not failure.undecided:
            return about | {semconv.ERROR_TYPE: failure.cause.value}
        return about | {
            semconv.GEN_AI_EVALUATION_LABEL: "undecided",
            semconv.GEN_AI_EVALUATION_EXPLANATION: failure.detail,
        }

    def _first_to_read(self, evaluation: Evaluation) -> str | None:
        scores = evaluation.scores
        if failed := [name for name, passes in evaluation.verdicts.items() if not passes]:
            return max(failed, key=lambda name: self._thresholds.missed_by(name, scores[name]))
        undecided = [name for name, one in evaluation.unscored.items() if one.undecided]
        names = [*filter(_is_groundedness, undecided), *(() if scores else undecided)]
        names += [*filter(_is_groundedness, scores), *(one for one in scores if one not in _STYLE)]
        return next(iter(names), None)

    def _reason(self, name: str, score: Score) -> str:
        return self._thresholds.reason(name, score, content=self._content)

    def _by_metric(self, evaluation: Evaluation) -> dict[str, Any]:
        rows = {name: self._row(evaluation, name) for name in evaluation.scores}
        return {
            **{semconv.eval_key(name, f): row[f] for f in _FIELDS for name, row in rows.items()},
            **{
                semconv.eval_key(name, "reason"): failure.line[:_REASON_CHARS]
                for name, failure in evaluation.unscored.items()
            },
        }

    def _row(self, evaluation: Evaluation, name: str) -> Mapping[str, Any]:
        score, passes = evaluation.scores[name], evaluation.verdicts.get(name)
        is_rescaled = self._thresholds.scales.get(name, UNIT) != UNIT
        is_own_rate = score.probability != evaluation.probability
        return {
            "score": score.value,
            "pass": passes,
            "label": score.label,
            "screening": score.screening or None,
            "normalized": score.normalized if is_rescaled else None,
            "sample_rate": score.probability if is_own_rate else None,
            "reason": self._reason(name, score) if passes is False else None,
        }


def _is_groundedness(metric_id: str) -> bool:
    return metric_id.partition(".")[2] in _GROUNDEDNESS


def _summary(evaluation: Evaluation) -> dict[str, Any]:
    outcomes = evaluation.outcomes
    risks = [one.risk for name, one in outcomes.items() if _is_groundedness(name)]
    failed = [name for name, passes in evaluation.verdicts.items() if not passes]
    estimated = any(outcome.probability_estimated for outcome in outcomes.values())
    return {
        semconv.EVAL_STATUS: evaluation.status,
        semconv.EVAL_PASS: evaluation.passed,
        semconv.EVAL_FAILED: failed or None,
        semconv.EVAL_UNSCORED: list(evaluation.unscored) or None,
        semconv.EVAL_RISK: max((risk for risk in risks if risk is not None), default=None),
        semconv.EVAL_SAMPLED_BY: evaluation.reason or None,
        semconv.EVAL_SAMPLE_RATE: evaluation.probability,
        semconv.EVAL_SAMPLE_RATE_ESTIMATED: estimated or None,
        semconv.EVAL_CONTEXT_SOURCE: evaluation.sample.context_source,
        semconv.EVAL_QUESTION_SOURCE: evaluation.sample.question_source,
        semconv.EVAL_TRUNCATED: list(evaluation.sample.cut_parts) or None,
        semconv.EVAL_DURATION_MS: round(evaluation.seconds * 1000, 3),
        semconv.EVAL_VERSION: __version__,
    }
