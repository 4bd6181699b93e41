"""Comparison of two runs: paired differences with intervals, and regressions by sample.

The interval of a mean paired difference is Student's t. Where no samples pair, that of the
difference of two means is recovered from theirs (Zou and Donner, MOVER, 2008).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.results.estimate import Estimate, t_quantile
from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.results.summary import By, MetricSummary, group_key, summarise

__all__ = [
    "Change",
    "Comparison",
    "Regression",
    "Trend",
    "compare",
    "identity_of",
]

_LEAST_DROP: Final = 0.1
"""Drop of a normalised score from which a sample is named as a regression."""


class Trend(StrEnum):
    """Direction of a difference, as far as the samples tell."""

    BETTER = "better"
    WORSE = "worse"
    UNCLEAR = "unclear"
    SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Difference of one metric, of all samples or of a group.

    Attributes:
        metric: Its id.
        group: The group, or None for all samples.
        base: Mean before, in [0, 1], where 1 is best.
        new: Mean after.
        difference: New less base; above 0 is better.
        low: Lower end of its 95 % interval; None for fewer than two values.
        high: Upper end, likewise.
        pairs: Samples that both runs scored; 0 where the means of different samples are compared.
    """

    metric: str
    group: str | None
    base: Estimate
    new: Estimate
    difference: float
    low: float | None
    high: float | None
    pairs: int

    @property
    def trend(self) -> Trend:
        """Better or worse where the interval is on one side of 0."""
        if self.low is None or self.high is None:
            return Trend.UNCLEAR
        if self.low == self.high == 0.0:
            return Trend.SAME
        return Trend.BETTER if self.low > 0 else Trend.WORSE if self.high < 0 else Trend.UNCLEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """One sample whose score has fallen.

    Attributes:
        metric: The metric.
        base: The row before.
        new: The row after.
        drop: Fall of the score in [0, 1].
    """

    metric: str
    base: ResultRow
    new: ResultRow
    drop: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs side by side.

    Attributes:
        changes: Differences of all samples, then of each group.
        regressions: Samples that became worse, the largest drop first.
        pairs: Samples that are in both runs.
        only_base: Samples that are in the base alone.
        only_new: Samples that are in the new run alone.
        new: Summary of the new run by metric.
    """

    changes: Sequence[Change]
    regressions: Sequence[Regression]
    pairs: int
    only_base: int
    only_new: int
    new: Mapping[str, MetricSummary]


def compare(
    base: Iterable[ResultRow],
    new: Iterable[ResultRow],
    *,
    by: By = None,
    allow_different_judges: bool = False,
) -> Comparison:
    """Return what changed from one run to another.

    Samples pair by `question_id`, else by their question; a question that was asked several times
    pairs in order.

    Args:
        base: Results before.
        new: Results after.
        by: Key of the groups that are compared besides all samples.
        allow_different_judges: Whether scores of different judges or prompts may be compared.

    Raises:
        ConfigError: A metric was judged by different judges or prompts.
    """
    before, after = list(base), list(new)
    if not allow_different_judges:
        _check_judges(before, after)
    pairs = list(_pairs(before, after))
    changes = [*_changes(before, after, pairs, None)]
    for key in dict.fromkeys(group_key(row, by) for row in after) if by is not None else ():
        members = [(old, row) for old, row in pairs if group_key(row, by) == key]
        own = [row for row in after if group_key(row, by) == key]
        earlier = [row for row in before if group_key(row, by) == key]
        changes += _changes(earlier, own, members, key or "(none)")
    return Comparison(
        changes=changes,
        regressions=sorted(_regressions(pairs), key=lambda one: -one.drop),
        pairs=len(pairs),
        only_base=len(before) - len(pairs),
        only_new=len(after) - len(pairs),
        new=summarise(after)[None].metrics if after else {},
    )


def _check_judges(before: Sequence[ResultRow], after: Sequence[ResultRow]) -> None:
    old, now = _judges(before), _judges(after)
    for metric in old.keys() & now.keys():
        if old[metric] != now[metric]:
            got = " and ".join(", ".join(sorted(each)) for each in (old[metric], now[metric]))
            wants = "one judge and one version of its prompts, or to be allowed to differ"
            raise ConfigError(f"compare: {metric}", got, wants)


def _judges(rows: Sequence[ResultRow]) -> dict[str, set[str]]:
    """Return judges and versions of prompts by metric; versions of the package may differ."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for metric in row.outcomes:
            if (score := row.score(metric)) is not None:
                prompts = score.version.partition("+")[2]
                name = f"{score.annotator or 'formula'} {prompts}".strip()
                found.setdefault(metric, set()).add(name)
    return found


def _pairs(
    before: Sequence[ResultRow], after: Sequence[ResultRow]
) -> Iterator[tuple[ResultRow, ResultRow]]:
    waiting: dict[str, list[ResultRow]] = {}
    for row in before:
        waiting.setdefault(identity_of(row), []).append(row)
    for row in after:
        if known := waiting.get(identity_of(row)):
            yield known.pop(0), row


def identity_of(row: ResultRow) -> str:
    """Return the name by which samples of two runs pair: their `question_id`, else the question."""
    identity = row.sample.question_id
    return f"id {identity}" if identity is not None else f"q {row.sample.question.strip()}"


def _changes(
    before: Sequence[ResultRow],
    after: Sequence[ResultRow],
    pairs: Sequence[tuple[ResultRow, ResultRow]],
    group: str | None,
) -> Iterator[Change]:
    old = summarise(before).get(None)
    now = summarise(after).get(None)
    if old is None or now is None:
        return
    for metric, summary in now.metrics.items():
        earlier = old.metrics.get(metric)
        if earlier is None or earlier.normalised is None or summary.normalised is None:
            continue
        scored = [(o.score(metric), n.score(metric)) for o, n in pairs]
        gains = [n.normalised - o.normalised for o, n in scored if o is not None and n is not None]
        base, new = earlier.normalised, summary.normalised
        difference, low, high = _paired(gains) if len(gains) > 1 else _unpaired(base, new)
        yield Change(
            metric=metric,
            group=group,
            base=base,
            new=new,
            difference=difference,
            low=low,
            high=high,
            pairs=len(gains) if len(gains) > 1 else 0,
        )


def _paired(gains: Sequence[float]) -> tuple[float, float, float]:
    n = len(gains)
    mean = math.fsum(gains) / n
    variance = math.fsum((gain - mean) ** 2 for gain in gains) / (n - 1) / n
    half = t_quantile(n - 1) * math.sqrt(variance)
    return mean, mean - half, mean + half


def _unpaired(base: Estimate, new: Estimate) -> tuple[float, float | None, float | None]:
    difference = new.mean - base.mean
    if base.low is None or base.high is None or new.low is None or new.high is None:
        return difference, None, None
    low = difference - math.hypot(new.mean - new.low, base.high - base.mean)
    high = difference + math.hypot(new.high - new.mean, base.mean - base.low)
    return difference, low, high


def _regressions(pairs: Iterable[tuple[ResultRow, ResultRow]]) -> Iterator[Regression]:
    for old, row in pairs:
        for metric in row.outcomes:
            before, after = old.score(metric), row.score(metric)
            if before is not None and after is not None:
                drop = before.normalised - after.normalised
                if drop >= _LEAST_DROP:
                    yield Regression(metric=metric, base=old, new=row, drop=drop)
