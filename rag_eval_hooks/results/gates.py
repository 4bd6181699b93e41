"""Gates for a build: regressions that the samples show, and conditions on means."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.results.compare import Change, Comparison
from rag_eval_hooks.results.estimate import ALPHA, Estimate, t_quantile
from rag_eval_hooks.results.summary import MetricSummary

T = TypeVar("T")
_CONDITION: Final = re.compile(r"\s*([\w.\-]+)\s*(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)\s*")
_SIGNS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def regressed(comparison: Comparison, margin: float) -> list[Change]:
    """Return the differences that fail a build.

    All differences are tested together by Holm's method: where nothing has changed, at most one
    build in twenty has any.

    Args:
        comparison: The comparison.
        margin: Fall of a mean that is accepted, on a scale from 0 to 1.
    """
    tests = [
        _Test(-one.gain / one.deviation, one.freedom, one)
        for one in comparison.changes
        if one.deviation
    ]
    return [one for one in _shown(tests, 2 * ALPHA) if one.gain < -margin]


class _Test(NamedTuple, Generic[T]):
    """Something to show, by how many standard errors it is shown, and their freedom."""

    statistic: float
    freedom: float
    what: T


def _shown(tests: Sequence[_Test[T]], alpha: float) -> Iterator[T]:
    """Yield what Holm's method (1979) accepts, the strongest first."""
    for rank, test in enumerate(sorted(tests, key=lambda each: -each.statistic)):
        if test.statistic <= t_quantile(test.freedom, alpha / (len(tests) - rank)):
            return
        yield test.what


@dataclass(frozen=True, slots=True)
class FailCondition:
    """Condition on the new mean that fails a build, such as `ragas.faithfulness<0.8`."""

    text: str
    metric: str
    sign: str
    limit: float

    @classmethod
    def of(cls, text: str) -> FailCondition:
        """Return the condition that a text names.

        Raises:
            ConfigError: The text is not a condition.
        """
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise ConfigError("fail-on", text, "a condition such as 'ragas.faithfulness<0.8'")
        return cls(text.strip(), match[1], match[2], float(match[3]))

    def is_met_by(self, value: float) -> bool:
        """Return whether a value meets the condition."""
        return bool(_SIGNS[self.sign](value, self.limit))


def failed_conditions(
    conditions: Iterable[FailCondition],
    metrics: Mapping[str, MetricSummary],
    *,
    by_point: Iterable[FailCondition] = (),
    alpha: float = ALPHA,
) -> list[str]:
    """Return the reasons to fail a build; a metric without a score fails it, too.

    All conditions are tested together by Holm's method: where the true means meet none, at most one
    build in twenty fails. A single one fails if the whole 95 % interval of the mean meets it.

    Args:
        conditions: Conditions that the samples must show to be met.
        metrics: Summaries of the new run.
        by_point: Conditions that the mean alone decides, whatever its interval.
        alpha: Share of the intervals that miss the true mean, 0 to 1.

    Raises:
        ConfigError: A condition names a metric that was not measured.
    """
    given, points = [*conditions], [*by_point]
    for one in (*given, *points):
        if one.metric not in metrics:
            raise ConfigError("fail-on", one.metric, "one of " + ", ".join(metrics))
    tests = {one: _test(one, metrics[one.metric]) for one in given}
    points += [one for one, test in tests.items() if test is None]
    failed = [*_shown([test for test in tests.values() if test], alpha)]
    for one in points:
        estimate = metrics[one.metric].estimate
        if estimate is None or one.is_met_by(estimate.mean):
            failed.append(one)
    return [_reason(one, metrics[one.metric].estimate) for one in failed]


def _test(condition: FailCondition, summary: MetricSummary) -> _Test[FailCondition] | None:
    """Return the test of a condition; None without an interval."""
    normalized, estimate = summary.normalized, summary.estimate
    if normalized is None or estimate is None or normalized.basis is None:
        return None
    slope, offset = summary.scale
    limit = (condition.limit - offset) / slope
    if not 0.0 < limit < 1.0:
        statistic = math.inf if condition.is_met_by(estimate.mean) else -math.inf
    else:
        is_below = (condition.sign[0] == "<") == (slope > 0)
        statistic = normalized.basis.distance(normalized.mean, limit) * (1 if is_below else -1)
    return _Test(statistic, normalized.basis.freedom, condition)


def _reason(condition: FailCondition, estimate: Estimate | None) -> str:
    if estimate is None:
        return f"{condition.text}: no sample has a score"
    interval = "" if estimate.low is None else f" ({estimate.low:.3f} to {estimate.high:.3f})"
    return f"{condition.text}: the mean is {estimate.mean:.3f}{interval}"
