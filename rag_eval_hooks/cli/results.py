"""Results of the demo, by question and by metric."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcomes, Score

__all__ = [
    "FAITHFULNESS",
    "ResultCollector",
    "SampleResult",
    "Summary",
    "mean",
    "suites",
    "summaries",
    "worst",
]

FAITHFULNESS = "ragas.faithfulness"


@dataclass(frozen=True, slots=True)
class SampleResult:
    """One scored sample."""

    sample: Sample
    outcomes: Outcomes

    def score(self, metric: str) -> Score | None:
        """Return the metric's score, or None if it was not scored or not requested."""
        outcome = self.outcomes.get(metric)
        return outcome if isinstance(outcome, Score) else None

    def claims(self, metric: str = FAITHFULNESS) -> Sequence[Mapping[str, Any]]:
        """Return the claims of a score, each with `claim`, `supported`, `chunks` and `reason`."""
        score = self.score(metric)
        return () if score is None else tuple(score.explanation.get("claims", ()))

    @property
    def overall(self) -> float | None:
        """Mean of the normalised scores, 1 is best; `None` for no score."""
        return mean(o.normalised for o in self.outcomes.values() if isinstance(o, Score))


class ResultCollector:
    """Sink that stores results by question id; safe to read from other threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, SampleResult] = {}

    def __call__(self, sample: Sample, outcomes: Outcomes) -> None:
        """Store one scored sample, in the evaluator's thread."""
        with self._lock:
            self._by_id[sample.question_id or sample.sample_id] = SampleResult(
                sample, dict(outcomes)
            )

    def snapshot(self) -> dict[str, SampleResult]:
        """Return the results so far, by question id, in the order of arrival."""
        with self._lock:
            return dict(self._by_id)


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric over many samples.

    Attributes:
        metric: Its id.
        mean: Mean of the scores in the metric's native scale, or `None` for no score.
        scored: Number of samples with a score.
        absent: Number of samples without, by cause; they are in no mean.
        detail: The most frequent reason for an absence, in words.
    """

    metric: str
    mean: float | None
    scored: int
    absent: Mapping[Cause, int]
    detail: str


def summaries(results: Iterable[SampleResult]) -> list[Summary]:
    """Return a summary of each requested metric, in the metrics' order."""
    columns: dict[str, list[Score | NotScored]] = {}
    for result in results:
        for metric, outcome in result.outcomes.items():
            columns.setdefault(metric, []).append(outcome)
    return [_summary(metric, outcomes) for metric, outcomes in columns.items()]


def _summary(metric: str, outcomes: Sequence[Score | NotScored]) -> Summary:
    values = [outcome.value for outcome in outcomes if isinstance(outcome, Score)]
    absences = [outcome for outcome in outcomes if isinstance(outcome, NotScored)]
    absent = Counter(absence.cause for absence in absences)
    details = Counter(absence.detail for absence in absences).most_common(1)
    detail = details[0][0] if details else ""
    return Summary(metric, mean(values), len(values), dict(absent), detail)


def suites(results: Iterable[SampleResult]) -> dict[str, list[str]]:
    """Return metric ids with at least one score, by suite, in the metrics' order."""
    grouped: dict[str, list[str]] = {}
    for summary in summaries(results):
        if summary.scored:
            grouped.setdefault(summary.metric.partition(".")[0], []).append(summary.metric)
    return grouped


def worst(results: Iterable[SampleResult]) -> SampleResult | None:
    """Return the least faithful result; of equals, the one with the lower scores otherwise.

    If no result has a faithfulness, it is the one with the lowest scores; None for no scores.
    """
    ranked = [(_badness(result), result) for result in results if result.overall is not None]
    return min(ranked, key=lambda pair: pair[0], default=(None, None))[1]


def _badness(result: SampleResult) -> tuple[float, float]:
    faithfulness = result.score(FAITHFULNESS)
    # A refusal claims nothing, so that it has no faithfulness: it ranks after every number.
    first = 2.0 if faithfulness is None else faithfulness.normalised
    return first, result.overall or 0.0


def mean(values: Iterable[float]) -> float | None:
    """Return the arithmetic mean, or None for no values."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None
