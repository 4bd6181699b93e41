"""Results of the demo, by question and by metric."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcomes, Score

__all__ = ["FAITHFULNESS", "ResultCollector", "Summary", "suites", "summaries"]

FAITHFULNESS = "ragas.faithfulness"


class ResultCollector:
    """Sink that stores results by question id; safe to read from other threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, ResultRow] = {}

    def __call__(self, sample: Sample, outcomes: Outcomes) -> None:
        """Store one scored sample, in the evaluator's thread."""
        with self._lock:
            self._by_id[sample.question_id or sample.sample_id] = ResultRow(
                sample=sample, outcomes=dict(outcomes)
            )

    def snapshot(self) -> dict[str, ResultRow]:
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


def summaries(results: Iterable[ResultRow]) -> list[Summary]:
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
    return Summary(metric, fmean(values) if values else None, len(values), dict(absent), detail)


def suites(results: Iterable[ResultRow]) -> dict[str, list[str]]:
    """Return metric ids with at least one score, by suite, in the metrics' order."""
    grouped: dict[str, list[str]] = {}
    for summary in summaries(results):
        if summary.scored:
            grouped.setdefault(summary.metric.partition(".")[0], []).append(summary.metric)
    return grouped
