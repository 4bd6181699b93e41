"""Gates for a build: regressions that the samples show, and conditions on means."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.results.compare import Change, Comparison
from rag_eval_hooks.results.estimate import t_quantile
from rag_eval_hooks.results.summary import MetricSummary

__all__ = ["FailCondition", "failed_conditions", "regressed"]

_ALPHA: Final = 0.05
_CONDITION: Final = re.compile(r"\s*([\w.\-]+)\s*(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)\s*")
_SIGNS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def regressed(comparison: Comparison, margin: float) -> list[Change]:
    """Return the differences that fail a build.

    All differences are tested together by Holm's method (1979): where nothing has changed, at most
    one build in twenty has any.

    Args:
        comparison: The comparison.
        margin: Fall of a mean that is accepted, on a scale from 0 to 1.
    """
    tests = [(-one.gain / one.deviation, one) for one in comparison.changes if one.deviation]
    worse = []
    for rank, (statistic, one) in enumerate(sorted(tests, key=lambda each: -each[0])):
        if statistic <= t_quantile(one.freedom, 2 * _ALPHA / (len(tests) - rank)):
            break
        worse.append(one)
    return [one for one in worse if one.gain < -margin]


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
    by_point: bool = False,
) -> list[str]:
    """Return the reasons to fail a build; a metric without a score fails it, too.

    Args:
        conditions: The conditions.
        metrics: Summaries of the new run.
        by_point: Whether the mean alone decides. By default the whole 95 % interval must meet the
            condition, so that the samples show that it holds.

    Raises:
        ConfigError: A condition names a metric that was not measured.
    """
    found = []
    for one in conditions:
        if one.metric not in metrics:
            raise ConfigError("fail-on", one.metric, "one of " + ", ".join(metrics))
        estimate = metrics[one.metric].estimate
        if estimate is None:
            found.append(f"{one.text}: no sample has a score")
            continue
        end = estimate.high if one.sign[0] == "<" else estimate.low
        if one.is_met_by(estimate.mean if by_point or end is None else end):
            interval = "" if end is None else f" ({estimate.low:.3f} to {estimate.high:.3f})"
            found.append(f"{one.text}: the mean is {estimate.mean:.3f}{interval}")
    return found
