"""Alerts: a sink that posts to a webhook when the requests of a window show a fall."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.gates import FailCondition, failed_conditions
from rag_eval_hooks.results.read import without_texts
from rag_eval_hooks.results.summary import group_key, summarise

_MOST_ROWS: Final = 2_000
_MOST_GROUPS: Final = 100
_CHECKS: Final = 60
"""Checks in the time of one window, however many requests come."""
_TIMEOUT_S: Final = 10.0


class AlertSink:
    """Posts to a webhook when a bound of a mean's interval crosses a threshold within a window.

    ```python
    RagEval(sinks=[AlertSink(url, "ragas.faithfulness<0.8", by="workflow")])
    ```

    The body is JSON; its `text` is what Slack and Mattermost show. A post that fails is tried again
    with the next evaluation. Each process watches the requests that it delivers itself.

    Args:
        url: Address of the webhook.
        *conditions: Conditions on means, in the metrics' scales.
        by: Key of groups that are watched apart, as of `summarise`; the hundred latest ones.
        window: Seconds whose evaluations count, the latest 2,000 of a group.
        cooldown: Seconds without another alert of a group.
        samples: Evaluations of a group below which it is silent.
        confidence: Confidence of the intervals, below 1. A window is looked at many times, so that
            95 % would be too little.

    Raises:
        ConfigError: The address or a condition cannot be used.
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
            raise ConfigError("url", url, "an address that begins with http:// or https://")
        if not conditions:
            raise ConfigError("conditions", (), "conditions such as 'ragas.faithfulness<0.8'")
        self._url, self._by, self._samples = url, by, samples
        self._conditions = [FailCondition.of(text) for text in conditions]
        self._window, self._cooldown, self._alpha = window, cooldown, 1.0 - confidence
        self._groups: dict[str | None, _Group] = {}
        self._opener = build_opener(_NoRedirects)

    def deliver(self, evaluation: Evaluation) -> None:
        """Count one evaluation, and post if its group has become worse than a threshold.

        Raises:
            OSError: The webhook refuses the alert or cannot be reached.
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
        # An evaluation that a spool delivers again counts once.
        self.rows.setdefault(row.sample.sample_id, (now, row))
        while len(self.rows) > _MOST_ROWS or next(iter(self.rows.values()))[0] <= now - window:
            del self.rows[next(iter(self.rows))]


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Leave the redirect as the error that it is."""
