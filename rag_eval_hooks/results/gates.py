"""Tests a metric's mean against a limit, to fail a build or to post an alert."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.compare import Change, Comparison
from rag_eval_hooks.results.estimate import ALPHA, t_quantile
from rag_eval_hooks.results.read import without_texts
from rag_eval_hooks.results.summary import MetricSummary, group_key, scale_of_metric, summarise

T = TypeVar("T")
_CONDITION: Final = re.compile(r"\s*([\w.\-]+)\s*(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)\s*")
_SIGNS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def regressed(comparison: Comparison, margin: float) -> list[Change]:
    """Return the changes in which a metric's normalized mean fell significantly.

    The mean must also fall by more than `margin`. Holm's method corrects the significance for the
    number of changes.
    """
    tests = [
        (-one.gain / one.deviation, one.freedom, one) for one in comparison.changes if one.deviation
    ]
    return [one for one in _shown(tests, 2 * ALPHA) if one.gain < -margin]


def _shown(tests: Sequence[tuple[float, float, T]], alpha: float) -> Iterator[T]:
    # Holm's method (1979) for multiple tests
    ranked = sorted(tests, key=lambda test: -test[0])
    for rank, (statistic, freedom, hypothesis) in enumerate(ranked):
        if statistic <= t_quantile(freedom, alpha / (len(tests) - rank)):
            return
        yield hypothesis


@dataclass(frozen=True, slots=True)
class FailCondition:
    """A condition on the mean of a metric. A build fails if its results meet the condition."""

    text: str
    metric: str
    sign: str
    limit: float

    @classmethod
    def of(cls, text: str) -> FailCondition:
        """Parse a condition such as `ragas.faithfulness<0.8`.

        Raises:
            ConfigError: The text is not a condition. Or good means meet the condition, as with
                `ragas.faithfulness>0.8`.
        """
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise ConfigError("fail-on", text, "a condition such as 'ragas.faithfulness<0.8'")
        metric, sign, limit = match.groups()
        scale = scale_of_metric(metric)
        if scale is not None and (sign[0] == ">") == scale.higher_is_better:
            wants = (
                f"a condition that is true for bad scores; write {metric}{_OPPOSITE[sign]}{limit}"
            )
            raise ConfigError("fail-on", text.strip(), wants)
        return cls(text.strip(), metric, sign, float(limit))

    def is_met_by(self, value: float) -> bool:
        return bool(_SIGNS[self.sign](value, self.limit))


def failed_conditions(
    conditions: Iterable[FailCondition],
    metrics: Mapping[str, MetricSummary],
    *,
    by_point: Iterable[FailCondition] = (),
    alpha: float = ALPHA,
) -> list[str]:
    """Return the reasons to fail a build. The list is empty if the build passes.

    A condition fails the build if the mean meets the condition at the significance level `alpha`.
    Holm's method corrects the level for the number of conditions. Without a confidence interval,
    the test uses only the mean. A metric without any score also fails the build.

    Args:
        conditions: The conditions to test.
        metrics: Summary of each metric by metric id.
        by_point: Conditions that fail the build if the mean meets them, significantly or not.
        alpha: Maximum probability that the significance tests fail a build only by chance.

    Raises:
        ConfigError: A condition names a metric without results.
    """
    given, points = [*conditions], [*by_point]
    asked = dict.fromkeys([*given, *points])
    for one in asked:
        if one.metric not in metrics:
            raise ConfigError("fail-on", one.metric, "one of " + ", ".join(metrics))
    tests = {one: _test(one, metrics[one.metric]) for one in given}
    failed = {*_shown([(*test, one) for one, test in tests.items() if test], alpha)}
    # A mean without an interval has no test.
    points += [one for one, test in tests.items() if test is None]
    reasons = []
    for one in asked:
        estimate = metrics[one.metric].estimate
        if estimate is None:
            reasons.append(f"{one.text}: no sample has a score for this metric")
        elif one in failed or (one in points and one.is_met_by(estimate.mean)):
            ends = "" if estimate.low is None else f" ({estimate.low:.3f} to {estimate.high:.3f})"
            reasons.append(f"{one.text}: the mean is {estimate.mean:.3f}{ends}")
    return reasons


def _test(condition: FailCondition, summary: MetricSummary) -> tuple[float, float] | None:
    normalized, estimate = summary.normalized, summary.estimate
    if normalized is None or estimate is None or normalized.basis is None:
        return None
    slope, offset = summary.scale
    limit = (condition.limit - offset) / slope
    if not 0.0 < limit < 1.0:
        distance = math.inf if condition.is_met_by(estimate.mean) else -math.inf
    else:
        is_below = (condition.sign[0] == "<") == (slope > 0)
        # If the mean is one quantile of this error from the limit, its interval ends at the limit.
        error = math.sqrt(limit * (1.0 - limit) / normalized.basis.number)
        distance = (limit - normalized.mean) / (error if is_below else -error)
    return distance, normalized.basis.freedom


_MOST_ROWS: Final = 2_000
_MOST_GROUPS: Final = 100
_CHECKS: Final = 60  # most checks per window
_TIMEOUT_S: Final = 10.0
_ALPHA: Final = 0.001  # 0.05 would raise false alerts, because the sink tests a window often


class AlertSink:
    """Posts an alert to a webhook when a metric's mean meets a condition.

    The mean covers the requests of a time window. The mean's entire 99.9 % confidence interval must
    meet the condition. With several conditions, the required interval is wider. The sink retries a
    failed post at the next check. Each process watches only its own requests.

    Args:
        url: URL of the webhook. Slack and Mattermost show the field `text` of the JSON body.
        *conditions: Conditions on means, such as `ragas.faithfulness<0.8`.
        by: Key that divides requests into groups, as in `summarise`. The sink watches each group
            separately, and forgets all but the hundred most recent groups.
        window: Length of the window in seconds. A group keeps at most its latest 2,000 evaluations.
        cooldown: Minimum number of seconds between two alerts of a group.
        samples: Minimum number of the metric's scores for an alert.
    """

    def __init__(
        self,
        url: str,
        *conditions: str,
        by: str | None = None,
        window: float = 3600.0,
        cooldown: float = 3600.0,
        samples: int = 30,
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ConfigError("url", url, "a URL that starts with http:// or https://")
        if not conditions:
            raise ConfigError("conditions", (), "conditions such as 'ragas.faithfulness<0.8'")
        self._url, self._by, self._samples = url, by, samples
        self._conditions = [FailCondition.of(text) for text in conditions]
        self.metric_limits = [
            ("AlertSink condition", one.metric, one.limit) for one in self._conditions
        ]
        self._window, self._cooldown = window, cooldown
        self._groups: dict[str | None, _Group] = {}
        self._opener = build_opener(_NoRedirects)

    def deliver(self, evaluation: Evaluation) -> None:
        now, row = evaluation.end / 1e9, without_texts(evaluation)
        key = group_key(row, self._by)
        # The most recent groups are last.
        group = self._groups[key] = self._groups.pop(key, _Group())
        if len(self._groups) > _MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
        rows = group.rows
        # A repeated delivery from a spool counts once.
        rows.setdefault(row.sample.sample_id, row)
        since = now - self._window
        while len(rows) > _MOST_ROWS or next(iter(rows.values()), row).end / 1e9 <= since:
            del rows[next(iter(rows))]
        if now >= group.due and len(rows) >= self._samples:
            group.due = now + self._window / _CHECKS
            if reasons := self._reasons(rows.values()):
                self._post(key, reasons, len(rows))
                group.due = now + self._cooldown

    def _reasons(self, rows: Iterable[Evaluation]) -> list[str]:
        metrics = summarise(rows)[None].metrics
        known = {name: one for name, one in metrics.items() if one.scored >= self._samples}
        conditions = [one for one in self._conditions if one.metric in known]
        return failed_conditions(conditions, known, alpha=_ALPHA)

    def _post(self, key: str | None, reasons: Sequence[str], samples: int) -> None:
        of_group = f" of {self._by} {key}" if self._by else ""
        over = f"{samples} requests{of_group} in {self._window / 60:g} minutes"
        text = f"RAG evaluation, {over}: {'; '.join(reasons)}"
        body = {"text": text, "alerts": reasons, "group": key, "samples": samples}
        headers = {"Content-Type": "application/json"}
        request = Request(self._url, json.dumps(body).encode(), headers)
        try:
            self._opener.open(request, timeout=_TIMEOUT_S).close()
        except HTTPError as error:
            error.close()
            raise

    def close(self) -> None:
        pass


@dataclass(slots=True)
class _Group:
    rows: dict[str, Evaluation] = field(default_factory=dict)
    due: float = 0.0


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        pass
