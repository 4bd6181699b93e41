"""Counts requests by outcome, and remembers the outcomes of recent requests."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rag_eval_hooks.explanation import Explanation
from rag_eval_hooks.request import Column, Ending, Observer, Request

_POLL_S: Final = 0.005
_PER_ID: Final = 8  # maximum number of explanations per id
_BY_REASON: Final = (Column.DROPPED, Column.FAILED)
_NOTES: Final = ("decisions", "failures", "feedback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Request counts since start-up, by outcome.

    Attributes:
        offered: Captured requests, submitted samples, samples recovered from the spool, and
            evaluations that feedback caused. `offered` is the sum of the counts from `scored` to
            `pending`.
        scored: Requests with at least one score. `failed` counts `partial` requests instead.
        sampled_out: Requests that the sample rate, a metric's rate or a rule excluded.
        dropped: Requests that the evaluator dropped without a score, by reason, such as
            `queue_full` or `budget`.
        failed: Evaluated requests without a score, by cause. The first failed metric gives the
            cause. If no metric failed, the first metric without a score gives the cause.
            `partial` counts requests whose judge failed, but whose other metrics have scores.
        shipped: Requests sent to Celery workers. The workers count the outcome.
        pending: Requests in the queue or in evaluation.
        incidents: Number of incidents by kind: mistakes of the application, and failures of
            callbacks, metrics, judges and sinks.
        recovered: Requests in `offered` that earlier processes left in the spool.
        undurable: Requests in `offered` that the spool could not store.
        without_retrieval: Requests in which a model answered but capture saw no retrieved text.
        decisions: Sampling decisions by reason: `ratio`, `rule:<name>`, `tail:<name>`,
            `sampled_out`, `sampled_out:rule:<name>`, `feedback:<name>` or `reference`. `rate_limit`
            counts sampled requests that the rate limit rejected.
        failures: Missing scores by metric and failure cause, such as `ragas.faithfulness:
            judge_failed`.
        feedback: Calls of `RagEval.feedback` by result. `joined`: this process remembers the
            request. `passed_on`: other processes get the feedback through the spool. `alone`: only
            sinks get the feedback. Any other key is the reason for a rejection.
    """

    offered: int = 0
    scored: int = 0
    sampled_out: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    shipped: int = 0
    pending: int = 0
    incidents: Mapping[str, int] = field(default_factory=dict)
    recovered: int = 0
    undurable: int = 0
    without_retrieval: int = field(default=0, compare=False)
    decisions: Mapping[str, int] = field(default_factory=dict, compare=False)
    failures: Mapping[str, int] = field(default_factory=dict, compare=False)
    feedback: Mapping[str, int] = field(default_factory=dict, compare=False)


class Books(Observer):
    """Counts requests by outcome, and remembers recent requests for `explain`. Thread-safe."""

    def __init__(self, explained: int = 10_000) -> None:
        self._explained = explained
        self._lock = threading.Lock()
        # Accepted items and their sequence numbers, ascending.
        self._pending: dict[object, int] = {}
        self._numbered = 0
        self._counts: Counter[tuple[Column, str]] = Counter()
        self._notes: dict[str, Counter[str]] = {name: Counter() for name in _NOTES}
        # Remembered requests and their ids, by sequence number.
        self._entries: OrderedDict[int, tuple[Explanation, set[str]]] = OrderedDict()

    def note(self, column: str, reason: str) -> None:
        with self._lock:
            self._notes[column][reason] += 1

    def accepted(self, request: Request) -> None:
        with self._lock:
            if request.is_counted:
                # This process counted the request as `spooled`, and has claimed it again.
                request.is_counted = False
                self._counts[Column.DROPPED, "spooled"] -= 1
            self._explain(
                self._begin(request), request, Explanation(key=request.key, outcome="pending")
            )

    def settled(self, request: Request, ending: Ending) -> None:
        missing, evaluation = ending.missing, ending.evaluation
        explanation = Explanation(
            key=request.key,
            outcome=ending.column.value,
            reason=ending.reason,
            absent={name: one.line for name, one in missing.items()},
            probability=ending.probability,
            sample_id=None if evaluation is None else evaluation.sample.sample_id,
        )
        with self._lock:
            number = self._pending.get(request) or self._begin(request)
            self._explain(number, request, explanation)
            if not request.is_counted:
                for name, one in missing.items():
                    if one.cause.is_failure:
                        self._notes["failures"][f"{name}: {one.cause.value}"] += 1
                key = ending.column, ending.reason if ending.column in _BY_REASON else ""
                # Use one statement, because a signal handler may run between two statements.
                self._counts[key], request.is_counted = self._counts[key] + 1, True
            self._pending.pop(request, None)

    def begin(self, feedback: object) -> None:
        with self._lock:
            self._begin(feedback)

    def end(self, feedback: object) -> None:
        with self._lock:
            self._pending.pop(feedback, None)

    def explain(self, name: str) -> tuple[Explanation, ...]:
        with self._lock:
            return tuple(one for one, ids in self._entries.values() if name in ids)[-_PER_ID:]

    def wait(self, timeout: float) -> bool:
        until, last = time.monotonic() + timeout, self._numbered
        while True:
            with self._lock:
                if next(iter(self._pending.values()), math.inf) > last:
                    return True
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_S)

    def snapshot(self, incidents: Mapping[str, int], recovered: int, undurable: int) -> Stats:
        with self._lock:
            counts = +self._counts
            pending = sum(isinstance(one, Request) for one in self._pending)
            notes: dict[str, Any] = {name: dict(+counts) for name, counts in self._notes.items()}
        columns: dict[str, Any] = {column.value: counts[column, ""] for column in Column}
        for column in _BY_REASON:
            columns[column.value] = {why: n for (one, why), n in counts.items() if one is column}
        return Stats(
            offered=pending + counts.total(),
            pending=pending,
            incidents=incidents,
            recovered=recovered,
            undurable=undurable,
            **columns,
            **notes,
        )

    def _begin(self, item: object) -> int:
        number = self._pending[item] = self._numbered = self._numbered + 1
        return number

    def _explain(self, number: int, request: Request, explanation: Explanation) -> None:
        if request.key:
            self._entries[number] = explanation, {request.key, *request.ids}
        if len(self._entries) > self._explained:
            self._entries.popitem(last=False)
