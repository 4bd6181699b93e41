"""Gates for a build and alerts on live requests: statistical tests of conditions on means."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.compare import Change, Comparison
from rag_eval_hooks.results.estimate import ALPHA, Estimate, t_quantile
from rag_eval_hooks.results.read import without_texts
from rag_eval_hooks.results.summary import MetricSummary, group_key, summarise

T = TypeVar("T")
_CONDITION: Final = re.compile(r"\s*([\w.\-]+)\s*(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)\s*")
_SIGNS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def regressed(comparison: Comparison, margin: float) -> list[Change]:
    """Return the differences that fail a build.

    Holm's method tests all differences together: without a real change, at most one build in twenty
    fails.

    Args:
        comparison: The comparison.
        margin: Accepted fall of a mean, on a scale from 0 to 1.
    """
    tests = [
        _Test(-one.gain / one.deviation, one.freedom, one)
        for one in comparison.changes
        if one.deviation
    ]
    return [one for one in _shown(tests, 2 * ALPHA) if one.gain < -margin]


class _Test(NamedTuple, Generic[T]):
    """A hypothesis, its distance in standard errors, and degrees of freedom."""

    statistic: float
    freedom: float
    what: T


def _shown(tests: Sequence[_Test[T]], alpha: float) -> Iterator[T]:
    """Yield the hypotheses that Holm's method (1979) accepts, strongest first."""
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
        """Parse a condition.

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
    """Return the reasons to fail a build. A metric without a score is a reason.

    Holm's method tests all conditions together: if the true means meet none, at most one build in
    twenty fails. A single condition fails a build if the whole 95 % interval of the mean meets it.

    Args:
        conditions: Conditions that the samples must prove.
        metrics: Summaries of the new run.
        by_point: Conditions that the mean alone decides, without its interval.
        alpha: Error rate of the intervals, 0 to 1.

    Raises:
        ConfigError: A condition names a metric without results.
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


_MOST_ROWS: Final = 2_000
_MOST_GROUPS: Final = 100
_CHECKS: Final = 60
"""Checks per window, for any number of requests."""
_TIMEOUT_S: Final = 10.0


class AlertSink:
    """Posts to a webhook when the interval of a mean crosses a threshold within a window.

    ```python
    RagEval(sinks=[AlertSink(url, "ragas.faithfulness<0.8", by="workflow")])
    ```

    The body is JSON; Slack and Mattermost show its `text`. The next evaluation retries a failed
    post. A process watches only its own requests.

    Args:
        url: Address of the webhook.
        *conditions: Conditions on means, in the metrics' scales.
        by: Key of separately watched groups, as in `summarise`; the latest hundred.
        window: Length of the window in seconds; at most the latest 2,000 evaluations of a group.
        cooldown: Minimum seconds between two alerts of a group.
        samples: Minimum number of evaluations for an alert.
        confidence: Confidence of the intervals, below 1. A window is tested many times, so 95 %
            would be too low.

    Raises:
        ConfigError: The address or a condition is invalid.
    """

    def __init__(
        self,
        url: str,
        *conditions: str,
        by: str | None = None,
        window: float = 3600.0,
        cooldown: float = 3600.0,
        samples: int = 30,
        confidence: float = 0.999,
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ConfigError("url", url, "an address that starts with http:// or https://")
        if not conditions:
            raise ConfigError("conditions", (), "conditions such as 'ragas.faithfulness<0.8'")
        self._url, self._by, self._samples = url, by, samples
        self._conditions = [FailCondition.of(text) for text in conditions]
        self.metric_limits = [(one.metric, one.limit) for one in self._conditions]
        self._window, self._cooldown, self._alpha = window, cooldown, 1.0 - confidence
        self._groups: dict[str | None, _Group] = {}
        self._opener = build_opener(_NoRedirects)

    def deliver(self, evaluation: Evaluation) -> None:
        """Count one evaluation, and post if its group fell below a threshold.

        Raises:
            OSError: The webhook rejects the alert or is unreachable.
        """
        now = evaluation.end / 1e9
        row = without_texts(evaluation)
        key = group_key(row, self._by)
        group = self._groups.pop(key, None) or _Group()
        self._groups[key] = group
        if len(self._groups) > _MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
        group.add(now, row, self._window)
        if now < group.due or len(group.rows) < self._samples:
            return
        group.due = now + self._window / _CHECKS
        if reasons := self._reasons([row for _, row in group.rows.values()]):
            self._post(key, reasons, len(group.rows))
            group.due = now + self._cooldown

    def _reasons(self, rows: Sequence[Evaluation]) -> list[str]:
        metrics = summarise(rows)[None].metrics
        known = [
            one
            for one in self._conditions
            if one.metric in metrics and metrics[one.metric].scored >= self._samples
        ]
        return failed_conditions(known, metrics, alpha=self._alpha)

    def _post(self, key: str | None, reasons: Sequence[str], samples: int) -> None:
        of_group = f" of {self._by} {key}" if self._by else ""
        over = f"{samples} requests{of_group} in {self._window / 60:g} minutes"
        body: dict[str, Any] = {
            "text": f"RAG evaluation, {over}: {'; '.join(reasons)}",
            "alerts": list(reasons),
            "group": key,
            "samples": samples,
        }
        data = json.dumps(body).encode()
        request = Request(self._url, data, {"Content-Type": "application/json"})
        with self._opener.open(request, timeout=_TIMEOUT_S):
            pass

    def close(self) -> None:
        """Do nothing: an alert is posted at once."""


class _Group:
    """Evaluations of one group within the window, and the time of its next check."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[float, Evaluation]] = {}
        self.due = 0.0

    def add(self, now: float, row: Evaluation, window: float) -> None:
        # A repeated delivery from a spool counts once.
        self.rows.setdefault(row.sample.sample_id, (now, row))
        while len(self.rows) > _MOST_ROWS or next(iter(self.rows.values()))[0] <= now - window:
            del self.rows[next(iter(self.rows))]


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Treat a redirect as an error."""
