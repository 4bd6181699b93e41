"""Summarizes results by metric and group: means, labels, and causes of missing scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Final, TypeAlias, TypeVar

from rag_eval_hooks.calls import Usage
from rag_eval_hooks.errors import ConfigError, check_type
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.estimate import Estimate, mean_of, predicted_mean, rare_variance
from rag_eval_hooks.score import NotScored, Outcome, Scale, Score
from rag_eval_hooks.text.folding import toml_of

D = TypeVar("D", bound=tuple[Evaluation, Evaluation | Score])
CLASS: Final = "graphrag.answer_class"
DATA: Final = toml_of("rules.toml", __package__ or "")
_OF_RESULT: Final[Mapping[str | None, Callable[[Evaluation], object]]] = {
    "reason": lambda row: row.reason or None,
    "day": lambda row: row.time and row.time.date(),
    "version": lambda row: next((score.version for score in row.scores.values()), None),
    **{name: attrgetter(f"sample.{name}") for name in ("workflow", "user_id", "session_id")},
}
Labels: TypeAlias = Mapping[tuple[str, str], float]
"""Normalized labels by sample and metric. The key of a sample is the id or `identity_of`."""
By: TypeAlias = str | Callable[[Evaluation], object] | None


class MetricSummary:
    def __init__(self, metric: str, column: Sequence[tuple[Evaluation, Outcome]]) -> None:
        scored = [(row, one) for row, one in column if isinstance(one, Score)]
        absent = [one for _, one in column if isinstance(one, NotScored)]
        drawn = [pair[1] for pair in in_sample(scored) if pair]
        ranked = sorted((one for _, one in scored), key=lambda one: one.normalized)
        scale = slope_of(metric, ranked)
        normalized = mean_over(scored, [one.normalized for _, one in scored])
        reasons = Counter((one.cause, one.detail) for one in absent).most_common()
        self.metric = metric
        # Mean over all traffic in the metric's scale, or None without a score.
        self.estimate = normalized and normalized.scaled(*scale)
        self.normalized = normalized  # mean from 0 (worst) to 1 (best)
        self.scale = scale  # slope and offset from normalized values to the metric's scale
        # Best and worst score. The best score is the lowest if lower is better.
        self.best = ranked[-1].value if ranked else None
        self.worst = ranked[0].value if ranked else None
        self.labels = Counter(one.label for one in ranked if one.label is not None)
        # Fraction of each label over all traffic.
        self.shares = {
            label: mean_over(scored, [float(one.label == label) for _, one in scored])
            for label in self.labels
        }
        self.not_scored = Counter(one.cause for one in absent)
        self.reasons = [(cause, detail, count) for (cause, detail), count in reasons]
        self.usage = sum((one.usage for _, one in column), start=Usage())
        self.undecided = sum(one.undecided for one in absent)  # the judge was unsure
        self.scored = len(scored)
        # A rate limit or a full queue changed an inclusion probability.
        self.is_estimated = any(one.probability_estimated for one in drawn)
        self.is_screening = any(one.screening for one in ranked)  # by an uncalibrated judge
        # Fewer than ten scores represent over a twentieth of the traffic.
        self.is_rare = rare_variance(list(map(weight_of, drawn))) > 0

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MetricSummary) and vars(self) == vars(other)

    @property
    def counts(self) -> dict[str, int]:
        names = DATA["counts"] if self.metric == CLASS else {}
        return {name: self.labels.get(label, 0) for name, label in names.items()}

    @property
    def word(self) -> str | None:
        """The metric's word for the mean, such as `good`. None if the metric defines no words."""
        return None if self.normalized is None else band_of(self.metric, self.normalized.mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultGroup:
    """The results of one group, with a summary of each metric."""

    rows: Sequence[Evaluation] = field(repr=False)
    metrics: Mapping[str, MetricSummary]  # in the order of the configured metrics

    @property
    def samples(self) -> int:
        return len(self.rows)

    @property
    def passed(self) -> Estimate | None:
        """Estimated fraction of requests that pass all thresholds. None if unknown."""
        known = [row for row in self.rows if row.passed is not None]
        return mean_over([(row, row) for row in known], [float(bool(row.passed)) for row in known])


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledMean:
    """A metric's mean, estimated from labels of some samples. 0 is worst and 1 is best."""

    metric: str
    labels: int  # number of samples with a label
    estimate: Estimate  # from labels and judge (prediction-powered)
    alone: Estimate | None  # from the labels alone
    judge: Estimate | None  # from the judge alone


def summarise(rows: Iterable[Evaluation], by: By = None) -> dict[str | None, ResultGroup]:
    """Group results by a key, in order of first appearance, and summarize each group.

    Args:
        rows: The results.
        by: `reason`, `workflow`, `user_id`, `session_id`, `day`, `version`, a metadata key, or a
            function that returns a result's group. None puts all results into one group.
    """
    grouped: dict[str | None, list[Evaluation]] = {None: []} if by is None else {}
    for row in checked_rows(rows):
        grouped.setdefault(group_key(row, by), []).append(row)
    return {key: _group(members) for key, members in grouped.items()}


def _group(rows: Sequence[Evaluation]) -> ResultGroup:
    columns: dict[str, list[tuple[Evaluation, Outcome]]] = {}
    for row in rows:
        for metric, outcome in row.outcomes.items():
            columns.setdefault(metric, []).append((row, outcome))
    metrics = {metric: MetricSummary(metric, column) for metric, column in columns.items()}
    return ResultGroup(rows=rows, metrics=metrics)


def group_key(row: Evaluation, by: By) -> str | None:
    value: object = None
    if callable(by):
        value = by(row)
    elif by is not None and by in row.sample.metadata:
        value = row.sample.metadata[by]
    elif by in _OF_RESULT:
        value = _OF_RESULT[by](row)
    return None if value is None else str(value)


def checked_rows(rows: Iterable[Evaluation]) -> list[Evaluation]:
    wanted = "results, such as the return value of read(path)"
    check_type("rows", rows, Iterable, wanted)
    found = list(rows)
    for row in found[:1]:
        check_type("rows", row, Evaluation, wanted)
    return found


def check_key(rows: Sequence[Evaluation], by: By, name: str = "by") -> None:
    if isinstance(by, str) and rows and all(group_key(row, by) is None for row in rows):
        known = {str(key) for row in rows for key in row.sample.metadata}
        raise ConfigError.unknown(name, by, {*map(str, _OF_RESULT), *known})


def in_sample(scored: Sequence[D | None]) -> list[D | None]:
    # Means use only scores with an inclusion probability. In results of a data set, no score has an
    # inclusion probability, so means use all scores.
    is_random = any(one and one[1].probability for one in scored)
    return [one if one and (one[1].probability or not is_random) else None for one in scored]


def mean_over(
    scored: Sequence[tuple[Evaluation, Evaluation | Score]], values: Sequence[float]
) -> Estimate | None:
    # The second element of each pair in `scored` has the inclusion probability of the value.
    used = [(*one, value) for one, value in zip(in_sample(scored), values, strict=True) if one]
    weights, rows = [weight_of(one) for _, one, _ in used], [row for row, _, _ in used]
    return mean_of([value for _, _, value in used], weights, sessions_of(rows))


def labelled_means(rows: Sequence[Evaluation], labels: Labels) -> list[LabelledMean]:
    found = (_labelled(metric, rows, labels) for metric in dict.fromkeys(m for _, m in labels))
    return list(filter(None, found))


def _labelled(metric: str, rows: Sequence[Evaluation], labels: Labels) -> LabelledMean | None:
    rest, known = list[tuple[float, float]](), list[tuple[float, float, float]]()
    scored = in_sample([(row, row.scores[metric]) for row in rows if metric in row.scores])
    for row, score in filter(None, scored):
        by_question = labels.get((identity_of(row), metric))
        label = labels.get((row.sample.sample_id, metric), by_question)
        judged = score.normalized, weight_of(score)
        if label is None:
            rest.append(judged)
        else:
            known.append((label, *judged))
    estimate = predicted_mean(known, rest)
    if estimate is None:
        return None
    values, weights = zip(*rest, *(judged for _, *judged in known), strict=True)
    return LabelledMean(
        metric=metric,
        labels=len(known),
        estimate=estimate,
        alone=mean_of([label for label, *_ in known], [weight for *_, weight in known]),
        judge=mean_of(values, weights),
    )


def sessions_of(rows: Sequence[Evaluation]) -> list[object] | None:
    sessions = [row.sample.session_id for row in rows]
    return [session or at for at, session in enumerate(sessions)] if any(sessions) else None


def weight_of(drawn: Evaluation | Score) -> float:
    return 1.0 / (drawn.probability or 1.0)


def identity_of(row: Evaluation) -> str:
    identity = row.sample.question_id
    return f"id {identity}" if identity is not None else f"q {row.sample.question.strip()}"


def band_of(metric: str, normalized: float) -> str | None:
    words = DATA["bands"].get(metric, {})
    return next((word for word, least in words.items() if normalized >= least), None)


@cache
def scale_of_metric(metric: str) -> Scale | None:
    return next((one.scale for one in ALL_METRICS if one.id == metric), None)


def slope_of(metric: str, ranked: Sequence[Score]) -> tuple[float, float]:
    """Return (slope, offset), which convert a normalized value to the metric's scale."""
    if (scale := scale_of_metric(metric)) is not None:
        span = scale.high - scale.low
        return (span, scale.low) if scale.higher_is_better else (-span, scale.high)
    if not ranked:
        return 1.0, 0.0
    first, last = ranked[0], ranked[-1]
    if last.normalized - first.normalized > 1e-9:
        slope = (last.value - first.value) / (last.normalized - first.normalized)
    elif abs(first.value - (1.0 - first.normalized)) < 1e-9 and first.value != first.normalized:
        slope = -1.0  # for example an error rate
    else:
        slope = first.value / first.normalized if first.normalized else 1.0
    return slope, first.value - slope * first.normalized
