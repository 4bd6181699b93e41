"""Summaries of results by metric and group: estimates, labels, and causes of missing scores.

Source of the tables: GraphRAG Evaluation Metrics (by method and question type; best, worst, mean;
distribution of grades; counts of classes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypeAlias

from rag_eval_hooks.metrics import build
from rag_eval_hooks.metrics.options import MetricOptions
from rag_eval_hooks.results.estimate import Estimate, mean_of
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
    "sessions_of",
    "summarise",
]

By: TypeAlias = str | Callable[[ResultRow], object] | None
SCREENING: Final = "screening"
"""Label of all scores of a judge that is not calibrated: about the judge, not about a sample."""
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
_COUNT_NAMES: Final = {
    ("graphrag.answer_class", "CORRECT"): "correct_answers_count",
    ("graphrag.answer_class", "WRONG"): "wrong_answers_count",
    ("graphrag.answer_class", "DON'T KNOW"): "dont_know_answers_count",
}
"""Names of the source for counts of labels."""
_RARE: Final = 10
"""Scores of one inclusion probability below which their part of an interval is unreliable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """One metric over many samples.

    Attributes:
        metric: Its id.
        estimate: Mean over all traffic in the metric's scale; None for no score.
        normalised: Mean over all traffic in [0, 1], where 1 is best.
        scale: Slope and offset from normalized values to the metric's scale.
        best: The best score: the lowest where lower is better.
        worst: The worst score.
        labels: How many scores have each label, in order of first appearance.
        shares: Share of each label over all traffic, with its interval.
        absences: How many samples have no score, by cause.
        scored: Samples with a score.
        is_estimated: Whether a rate limit or a full queue had a part in a probability.
        is_screening: Whether a score is of a judge that is not calibrated.
        is_rare: Whether fewer than ten scores stand for over a twentieth of the traffic, so that
            the interval may be too narrow.
    """

    metric: str
    estimate: Estimate | None
    normalised: Estimate | None
    scale: tuple[float, float]
    best: float | None
    worst: float | None
    labels: Mapping[str, int]
    shares: Mapping[str, Estimate]
    absences: Mapping[Cause, int]
    scored: int
    is_estimated: bool
    is_screening: bool
    is_rare: bool

    @property
    def undefined_share(self) -> float:
        """Part of the samples for which the metric is undefined."""
        return self.absences.get(Cause.UNDEFINED, 0) / (self.scored + sum(self.absences.values()))

    @property
    def counts(self) -> dict[str, int]:
        """Counts of labels under the names that their source gives them."""
        return {
            name: self.labels.get(label, 0)
            for (metric, label), name in _COUNT_NAMES.items()
            if metric == self.metric
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultGroup:
    """Samples that share a key.

    Attributes:
        key: The key's value as text, or None for samples without one.
        rows: Their results.
        metrics: Summary by metric id, in the metrics' order.
    """

    key: str | None
    rows: Sequence[ResultRow] = field(repr=False)
    metrics: Mapping[str, MetricSummary]

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.rows)

    @property
    def passed(self) -> Estimate | None:
        """Share of the traffic that passes its thresholds; None without thresholds."""
        known = [row for row in self.rows if row.passed is not None]
        weights = [1.0 / (row.probability or 1.0) for row in known]
        return mean_of([float(bool(row.passed)) for row in known], weights, sessions_of(known))


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
    columns: dict[str, list[tuple[ResultRow, Outcome]]] = {}
    for row in members:
        for metric, outcome in row.outcomes.items():
            columns.setdefault(metric, []).append((row, outcome))
    summaries = {metric: _summary(metric, column) for metric, column in columns.items()}
    return ResultGroup(key=key, rows=members, metrics=summaries)


def _summary(metric: str, column: Sequence[tuple[ResultRow, Outcome]]) -> MetricSummary:
    scored = [(row, one) for row, one in column if isinstance(one, Score)]
    # Scores that no draw chose are in no estimate of traffic; of a data set, each counts once.
    used = [(row, one) for row, one in scored if one.probability] or scored
    scores, sessions = [one for _, one in used], sessions_of([row for row, _ in used])
    weights = [1.0 / (one.probability or 1.0) for one in scores]
    normalised = mean_of([one.normalised for one in scores], weights, sessions)
    ranked = sorted((one for _, one in scored), key=lambda one: one.normalised)
    labels = Counter(one.label for one in ranked if one.label not in (None, SCREENING))
    scale = _scale_of(metric, ranked)
    shares = {
        label: mean_of([float(one.label == label) for one in scores], weights, sessions)
        for label in labels
    }
    return MetricSummary(
        metric=metric,
        estimate=None if normalised is None else normalised.scaled(*scale),
        normalised=normalised,
        scale=scale,
        best=ranked[-1].value if ranked else None,
        worst=ranked[0].value if ranked else None,
        labels={str(label): count for label, count in labels.items()},
        shares={str(label): share for label, share in shares.items() if share is not None},
        absences=dict(Counter(one.cause for _, one in column if isinstance(one, NotScored))),
        scored=len(scored),
        is_estimated=any(one.probability_estimated for one in scores),
        is_screening=any(one.label == SCREENING for one in ranked),
        is_rare=_has_rare_stratum(weights),
    )


def sessions_of(rows: Sequence[ResultRow]) -> list[object] | None:
    """Return the clusters of rows: their sessions, or each its own; None without a session."""
    sessions = [row.sample.session_id for row in rows]
    if not any(sessions):
        return None
    return [session or number for number, session in enumerate(sessions)]


def _has_rare_stratum(weights: Sequence[float]) -> bool:
    strata, total = Counter(round(weight, 6) for weight in weights), sum(weights)
    return len(strata) > 1 and any(
        count < _RARE and count * weight > total / 20 for weight, count in strata.items()
    )


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
    """Return slope and offset from normalized to native values.

    They are those of the metric; of one that is not ours, they are read off the extreme scores.
    """
    if (scale := scale_of_metric(metric)) is not None:
        span = scale.high - scale.low
        return (span, scale.low) if scale.higher_is_better else (-span, scale.high)
    if not ranked:
        return 1.0, 0.0
    first, last = ranked[0], ranked[-1]
    if last.normalised - first.normalised > 1e-9:
        slope = (last.value - first.value) / (last.normalised - first.normalised)
        return slope, first.value - slope * first.normalised
    # All are equal: an error rate, or a scale from 0 up.
    if abs(first.value - (1.0 - first.normalised)) < 1e-9:
        return -1.0, 1.0
    slope = first.value / first.normalised if first.normalised else 1.0
    return slope, first.value - slope * first.normalised
