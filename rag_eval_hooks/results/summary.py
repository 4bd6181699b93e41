"""Summary of results by metric and group: estimates, labels, and the causes of missing scores.

Source of the tables: GraphRAG Evaluation Metrics (by method and question type; best, worst, mean;
distribution of grades; counts of classes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from rag_eval_hooks.metrics import build
from rag_eval_hooks.metrics.options import MetricOptions
from rag_eval_hooks.results.estimate import Estimate, mean_of, share_of
from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.score import Cause, NotScored, Outcome, Scale, Score

__all__ = [
    "SCREENING",
    "By",
    "MetricSummary",
    "ResultGroup",
    "band_of",
    "group_key",
    "scale_of_metric",
    "summarise",
]

By: TypeAlias = str | Callable[[ResultRow], object] | None
SCREENING: Final = "screening"
"""Label of all scores of a judge that is not calibrated: about the judge, not about a sample."""
_UNKNOWN_WEIGHT: Final = 1.0
_BANDS: Final[Mapping[str, tuple[tuple[float, str], ...]]] = {
    "graphrag.factual_accuracy_percentage": (
        (0.8, "excellent"),
        (0.6, "good"),
        (0.4, "moderate"),
        (0.2, "poor"),
        (0.0, "very poor"),
    ),
    "graphrag.semantic_similarity_percentage": (
        (0.995, "identical or nearly"),
        (0.9, "equivalent with minor variations"),
        (0.8, "core meaning in other words"),
        (0.0, "meaning differs"),
    ),
    "graphrag.bert_score_f1": (
        (0.99, "nearly identical"),
        (0.7, "very similar, few other words"),
        (0.3, "similar meaning, other phrasing"),
        (0.0, "very different: usual for creative and long answers"),
    ),
}
"""Words of a value in [0, 1], from the best: the bands of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """One metric over many samples.

    Attributes:
        metric: Its id.
        estimate: Mean over all traffic in the metric's scale; None for no score.
        normalised: Mean over all traffic in [0, 1], where 1 is best.
        best: The best score: the lowest where lower is better.
        worst: The worst score.
        labels: How many scores have each label, in order of first appearance.
        shares: Share of each label over all traffic, with its interval.
        absences: How many samples have no score, by cause.
        unweighted: Scores that no draw chose; they are in no estimate unless all are.
        is_estimated: Whether a rate limit or a full queue had a part in a probability.
    """

    metric: str
    estimate: Estimate | None
    normalised: Estimate | None
    best: float | None
    worst: float | None
    labels: Mapping[str, int]
    shares: Mapping[str, Estimate]
    absences: Mapping[Cause, int]
    unweighted: int = 0
    is_estimated: bool = False

    @property
    def scored(self) -> int:
        """Number of samples with a score."""
        return 0 if self.estimate is None else self.estimate.n + self.unweighted

    @classmethod
    def of(cls, metric: str, outcomes: Sequence[Outcome]) -> MetricSummary:
        """Return the summary of one metric's outcomes."""
        scores = [outcome for outcome in outcomes if isinstance(outcome, Score)]
        drawn = [score for score in scores if score.probability]
        # Scores of a dataset were drawn by nobody: each counts once.
        used = drawn or scores
        weights = [1.0 / (score.probability or _UNKNOWN_WEIGHT) for score in used]
        normalised = mean_of([score.normalised for score in used], weights)
        ranked = sorted(scores, key=lambda score: score.normalised)
        labels = Counter(score.label for score in scores if score.label not in (None, SCREENING))
        shares = {label: share_of([s.label == label for s in used], weights) for label in labels}
        return cls(
            metric=metric,
            estimate=None if normalised is None else normalised.scaled(*_scale_of(metric, ranked)),
            normalised=normalised,
            best=ranked[-1].value if ranked else None,
            worst=ranked[0].value if ranked else None,
            labels=dict(labels),
            shares={label: share for label, share in shares.items() if share is not None},
            absences=dict(Counter(o.cause for o in outcomes if isinstance(o, NotScored))),
            unweighted=len(scores) - len(used),
            is_estimated=any(score.probability_estimated for score in used),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultGroup:
    """Samples that share a key.

    Attributes:
        key: The key's value as text, or None for samples without one.
        rows: Their results.
        metrics: Summary by metric id, in the metrics' order.
    """

    key: str | None
    rows: Sequence[ResultRow]
    metrics: Mapping[str, MetricSummary]

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.rows)

    @property
    def passed(self) -> Estimate | None:
        """Share that passes its thresholds; None without thresholds."""
        known = [row for row in self.rows if row.passed is not None]
        weights = [1.0 / (row.probability or _UNKNOWN_WEIGHT) for row in known]
        return share_of([bool(row.passed) for row in known], weights)


def summarise(rows: Iterable[ResultRow], by: By = None) -> dict[str | None, ResultGroup]:
    """Return groups of rows, in order of first appearance.

    Args:
        rows: The rows.
        by: A key of the samples' metadata, `reason`, `workflow`, `user_id`, `session_id`, `day` or
            `version`, or a function that gives the key's value; None for one group of all.
    """
    grouped: dict[str | None, list[ResultRow]] = {}
    for row in rows:
        grouped.setdefault(group_key(row, by), []).append(row)
    return {key: _group(key, members) for key, members in grouped.items()}


def group_key(row: ResultRow, by: By) -> str | None:
    """Return the key of a row's group; None for a row without one."""
    if by is None:
        return None
    value = by(row) if callable(by) else _value(row, by)
    return None if value is None else str(value)


def _value(row: ResultRow, by: str) -> object:
    if by in row.sample.metadata:
        return row.sample.metadata[by]
    if by == "reason":
        return row.reason or None
    if by == "day":
        return row.when and row.when.date()
    if by == "version":
        return next((one.version for one in row.outcomes.values() if isinstance(one, Score)), None)
    return getattr(row.sample, by, None) if by in ("workflow", "user_id", "session_id") else None


def _group(key: str | None, members: Sequence[ResultRow]) -> ResultGroup:
    columns: dict[str, list[Outcome]] = {}
    for row in members:
        for metric, outcome in row.outcomes.items():
            columns.setdefault(metric, []).append(outcome)
    summaries = {metric: MetricSummary.of(metric, column) for metric, column in columns.items()}
    return ResultGroup(key=key, rows=members, metrics=summaries)


def band_of(metric: str, normalised: float) -> str | None:
    """Return the word for a value, where the metric's definition gives words."""
    return next((word for least, word in _BANDS.get(metric, ()) if normalised >= least), None)


def scale_of_metric(metric: str) -> Scale | None:
    """Return the scale of a metric by its id; None for one that is not ours."""
    return _scales().get(metric)


@cache
def _scales() -> Mapping[str, Scale]:
    return {metric.id: metric.scale for metric in build(MetricOptions())}


def _scale_of(metric: str, ranked: Sequence[Score]) -> tuple[float, float]:
    """Return slope and offset from normalised to native values.

    They are those of the metric; of one that is not ours, they are read off the extreme scores.
    """
    if (scale := scale_of_metric(metric)) is not None:
        span = scale.high - scale.low
        return (span, scale.low) if scale.higher_is_better else (-span, scale.high)
    first, last = ranked[0], ranked[-1]
    if last.normalised - first.normalised > 1e-9:
        slope = (last.value - first.value) / (last.normalised - first.normalised)
        return slope, first.value - slope * first.normalised
    # All are equal: an error rate, or a scale from 0 up.
    if abs(first.value - (1.0 - first.normalised)) < 1e-9:
        return -1.0, 1.0
    slope = first.value / first.normalised if first.normalised else 1.0
    return slope, first.value - slope * first.normalised
