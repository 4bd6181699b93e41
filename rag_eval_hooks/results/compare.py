"""Compares two runs: how much each mean score changed, and which samples have a lower score.

Samples that both runs contain form pairs. The change of a mean combines two estimates, weighted by
inverse variance. The first estimate is the mean difference of the pairs. The second estimate is the
difference between the two means of all unpaired samples. The variance of the second estimate
follows from the confidence intervals of the two means (Zou and Donner, MOVER, 2008).
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import pvariance
from typing import Final, TypeAlias

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.estimate import Estimate, Moments, t_quantile
from rag_eval_hooks.results.read import without_texts
from rag_eval_hooks.results.summary import (
    By,
    MetricSummary,
    check_key,
    checked_rows,
    group_key,
    identity_of,
    in_sample,
    mean_over,
    sessions_of,
    summarise,
    weight_of,
)
from rag_eval_hooks.score import Score

_LEAST_DROP: Final = 0.1  # minimum drop of a normalized score that counts as a regression
_LEAST_PAIRS: Final = 5
_Pair: TypeAlias = tuple[Evaluation | None, Evaluation | None]
_Scored: TypeAlias = tuple[Evaluation, Score]
_Difference: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change of a metric's mean from one run to another, for all samples or for one group."""

    metric: str
    group: str | None  # None means all samples
    base: Estimate  # mean of the base run, in the metric's scale
    new: Estimate
    difference: float  # mean of the new run minus mean of the base run
    low: float | None  # ends of the 95 % interval of `difference`; None for too few samples
    high: float | None
    gain: float  # difference of the normalized means, from -1 to 1; positive is better
    deviation: float | None  # standard error of `gain`; None for too few samples
    freedom: float  # degrees of freedom of `deviation`
    pairs: int  # number of pairs: samples that both runs scored
    trend: str  # `better` or `worse`; `unclear` if the interval includes 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A sample with a lower score in the new run. The normalized score fell by `drop`."""

    metric: str
    base: Evaluation
    new: Evaluation
    drop: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    changes: Sequence[Change]  # of all samples, then of each group
    regressions: Sequence[Regression] = field(repr=False)  # the largest drop is first
    pairs: int  # samples that are in both runs
    only_base: int
    only_new: int
    new: Mapping[str, MetricSummary]  # metrics of the new run
    unscored: Sequence[str]  # metrics without a score in at least one of the runs


def compare(
    base: Iterable[Evaluation],
    new: Iterable[Evaluation],
    *,
    by: By = None,
    allow_different_judges: bool = False,
) -> Comparison:
    """Compare a new run with a base run, for all samples and for each group of samples.

    Samples with the same value of the key `by` form a group. `compare` pairs samples of the two
    runs by `question_id`. Without an id, `compare` pairs samples with the same question, in order
    of appearance. If a metric has fewer than five pairs, all its samples count as unpaired.

    For live requests, the means contain only samples that random sampling chose. Samples that were
    evaluated because of feedback do not count.

    Raises:
        ConfigError: No sample has the key `by`, or the runs used different judges or prompts for a
            metric. `allow_different_judges=True` permits different judges and prompts.
    """
    before, after = (list(map(without_texts, checked_rows(rows))) for rows in (base, new))
    check_key([*before, *after], by)
    if not allow_different_judges:
        _check_judges(before, after)
    pairs = list(_pairs(before, after))
    groups: dict[str | None, list[_Pair]] = {None: pairs}
    for pair in pairs if by is not None else ():
        row = pair[1] or pair[0]
        groups.setdefault((row and group_key(row, by)) or "(none)", []).append(pair)
    old, now = (summarise(each)[None].metrics for each in (before, after))
    scored = [{name for name, one in each.items() if one.scored} for each in (old, now)]
    changes = (
        _change(metric, group, members, summary.scale)
        for group, members in groups.items()
        for metric, summary in now.items()
    )
    both = [(row, other) for row, other in pairs if row and other]
    return Comparison(
        changes=list(filter(None, changes)),
        regressions=sorted(_regressions(both), key=lambda one: (-one.drop, one.metric)),
        pairs=len(both),
        only_base=len(before) - len(both),
        only_new=len(after) - len(both),
        new=now,
        unscored=sorted({*old, *now} - (scored[0] & scored[1])),
    )


def _check_judges(*runs: Iterable[Evaluation]) -> None:
    base, new = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for names, rows in zip((base, new), runs, strict=True):
        for metric, score in (item for row in rows for item in row.scores.items()):
            # Only a new version of the prompts, not of the package, counts as another judge.
            made_by = (score.annotator or "formula", score.version.partition("+")[2])
            names[metric].add(" ".join(made_by).strip())
    for metric in (name for name, judges in base.items() if new.get(name, judges) != judges):
        got = " and ".join(", ".join(sorted(each[metric])) for each in (base, new))
        wants = "the same judge and prompt version, unless you set allow_different_judges"
        raise ConfigError(f"compare: {metric}", got, wants)


def _pairs(before: Iterable[Evaluation], after: Iterable[Evaluation]) -> Iterator[_Pair]:
    waiting = defaultdict[str, deque[Evaluation]](deque)
    for row in before:
        waiting[identity_of(row)].append(row)
    for row in after:
        known = waiting[identity_of(row)]
        yield known.popleft() if known else None, row
    for rest in waiting.values():
        yield from ((row, None) for row in rest)


def _change(
    metric: str, group: str | None, pairs: Iterable[_Pair], scale: tuple[float, float]
) -> Change | None:
    runs = (in_sample([_scored(row, metric) for row in run]) for run in zip(*pairs, strict=True))
    scored = list(zip(*runs, strict=True))
    base, now = _mean(old for old, _ in scored), _mean(new for _, new in scored)
    if base is None or now is None:
        return None
    both = [(old, new) for old, new in scored if old and new]
    both = both if len(both) >= _LEAST_PAIRS else []
    rest = [pair for pair in scored if not both or None in pair]
    apart = _mean(old for old, _ in rest), _mean(new for _, new in rest)
    gain, variance, freedom = _combined(_paired(both, alone=None in apart), _unpaired(*apart))
    is_known, half = math.isfinite(variance), t_quantile(freedom) * math.sqrt(variance)
    below, above = (None if both else _reach(*apart)) or (half, half)
    low, high = sorted(end * scale[0] + 0.0 for end in (gain - below, gain + above))
    return Change(
        metric=metric,
        group=group,
        base=base.scaled(*scale),
        new=now.scaled(*scale),
        difference=gain * scale[0] + 0.0,
        low=low if is_known else None,
        high=high if is_known else None,
        gain=gain,
        deviation=math.sqrt(variance) if is_known else None,
        freedom=freedom,
        pairs=len(both),
        trend="better" if gain > below else "worse" if -gain > above else "unclear",
    )


def _scored(row: Evaluation | None, metric: str) -> _Scored | None:
    return None if row is None or metric not in row.scores else (row, row.scores[metric])


def _mean(scored: Iterable[_Scored | None]) -> Estimate | None:
    known = [one for one in scored if one is not None]
    return mean_over(known, [score.normalized for _, score in known])


def _paired(both: Sequence[tuple[_Scored, _Scored]], *, alone: bool) -> _Difference | None:
    if not both:
        return None
    gains = [new.normalized - old.normalized for (_, old), (_, new) in both]
    weights = [weight_of(old) * weight_of(new) for (_, old), (_, new) in both]
    moments = Moments(len(both), weights, sessions_of([row for _, (row, _) in both]))
    variance = moments.covariance(gains, gains)
    if any(gains) or not alone:
        # A few equal gains have variance 0, but other samples may differ (rule of three).
        values = [one.normalized for pair in both for _, one in pair]
        variance = max(variance, 3 * pvariance(values) / len(both) ** 2)
    return moments.mean(gains), variance, moments.effective_clusters - 1


def _unpaired(base: Estimate | None, new: Estimate | None) -> _Difference | None:
    if base is None or new is None:
        return None
    reach = _reach(base, new)
    deviation = math.inf if reach is None else math.fsum(reach) / 2 / t_quantile(math.inf)
    return new.mean - base.mean, deviation**2, math.inf


def _reach(base: Estimate | None, new: Estimate | None) -> tuple[float, float] | None:
    # Distances from the difference of the means to both ends of its confidence interval.
    if not (base and base.basis and new and new.basis):
        return None
    least, most = base.basis.interval(base.mean)
    low, high = new.basis.interval(new.mean)
    below = math.hypot(new.mean - low, most - base.mean)
    return below, math.hypot(high - new.mean, base.mean - least)


def _combined(*parts: _Difference | None) -> _Difference:
    given = [one for one in parts if one is not None]
    known = [one for one in given if math.isfinite(one[1])]
    if len(known) < 2:
        return (known or given)[0]
    precisions = [1.0 / max(variance, 1e-12) for _, variance, _ in known]
    shares = [precision / math.fsum(precisions) for precision in precisions]
    mean = math.fsum(share * one[0] for share, one in zip(shares, known, strict=True))
    # Satterthwaite's formula: each estimate contributes its share of the variance.
    freedom = 1.0 / max(1e-9, sum(s**2 / one[2] for s, one in zip(shares, known, strict=True)))
    return mean, 1.0 / math.fsum(precisions), freedom


def _regressions(pairs: Iterable[tuple[Evaluation, Evaluation]]) -> Iterator[Regression]:
    for old, new in pairs:
        for metric in old.scores.keys() & new.scores.keys():
            drop = old.scores[metric].normalized - new.scores[metric].normalized
            if drop >= _LEAST_DROP:
                yield Regression(metric=metric, base=old, new=new, drop=drop)
