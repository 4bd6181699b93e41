"""The queue and thread of one sink."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery.outbox import Outbox
from rag_eval_hooks.delivery.outbox_file import Job
from rag_eval_hooks.delivery.sink import (
    Destination,
    Rejected,
    RetryLater,
    SendError,
    SpanUnknown,
    TooSlowError,
    pause_after,
)
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.own_requests import suppressed
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.threads import Loop

_FULL: Final = "outbox full"
_LONGEST_ASKED: Final = 60.0  # maximum seconds that a `Retry-After` header can request
_LONGEST_LOOK: Final = 5.0  # maximum seconds between two attempts if the span is missing
_DOWN: Final = 5  # number of consecutive failures after which the sink counts as down
_GRACE: Final = 0.1  # seconds in which a cancelled awaitable can finish
_RECOVERED: Final = 64  # maximum number of results to claim from the spool at once
_POLL: Final = 0.05  # seconds between two checks for a hanging call
_ALONE: Final = SendError("the sink rejected the batch, so the queue sends each result alone")


@dataclass(slots=True, eq=False)
class _Delivery:
    payload: Evaluation | Feedback
    chars: int
    job: Job | None  # None for feedback, because the spool stores no feedback for sinks
    # in seconds of the monotonic clock
    queued_at: float
    give_up_at: float
    sends: int = 0
    is_alone: bool = False
    is_last: bool = False
    is_over: bool = False

    @property
    def is_stored(self) -> bool:
        return self.job is not None and self.job.is_stored


class SinkQueue:
    """Passes results and feedback to one sink, on the queue's own thread. Thread-safe."""

    def __init__(self, sink: Destination, incidents: Incidents, outbox: Outbox) -> None:
        self.sink = sink
        self._incidents, self._outbox = incidents, outbox
        self._timeout, self._most_chars = limits.SINK_SECONDS, limits.SINK_QUEUE_CHARS
        self._retry_for, self._keep_for = limits.SINK_RETRY_SECONDS, limits.SINK_KEEP_SECONDS
        # A sink without retries never counts as down.
        self._most_failures = _DOWN if sink.retries or outbox.is_durable else math.inf
        self._origin, self._lock = f"sink {sink.name}", threading.Lock()
        report = partial(incidents.report, self._origin)
        self._loop = Loop(f"rag-eval-hooks-{sink.name}", self._step, report)
        # A heap of due time, number and delivery. Deliveries in flight are not in the heap.
        self._waiting: list[tuple[float, int, _Delivery]] = []
        self._numbers = itertools.count()
        self._flying: list[_Delivery] = []
        self._called_at = self._paused_until = 0.0
        self._is_overdue = self._is_open = self._is_down = False
        self._chars, self._failures, self._reason = 0, 0, ""  # the reason of the last failure
        self._closing: float | None = None

    def put(self, payload: Evaluation | Feedback, chars: int, job: Job | None = None) -> None:
        now = time.monotonic()
        give_up_at = now + self._retry_for if self.sink.retries or job is not None else 0.0
        if job is not None and job.is_stored:
            give_up_at = max(give_up_at, now + self._keep_for - (time.time() - job.accepted))
        one = _Delivery(payload, chars, job, now, give_up_at)
        with self._lock:
            self._chars += chars
            if self._closing is not None:
                self._end(one, "closed", leaves=True)
            elif self._chars > self._most_chars and (self._waiting or self._flying):
                # The limit does not apply to a single result.
                self._end(one, _FULL, leaves=True)
            elif self._loop.start():
                self._queue(one, now)
            else:
                self._end(one, "no thread", leaves=True)

    def capacity(self) -> int:
        with self._lock:
            if self._closing is not None:
                return 0
            is_full = 2 * self._chars >= self._most_chars
            if is_full or self._is_down or self._is_overdue:
                return int(not self._waiting and not self._flying)
            return _RECOVERED

    def check(self) -> None:
        now = time.monotonic()
        with self._lock:
            if self._flying and not (self.sink.retries or self._is_overdue):
                self._is_overdue = now - self._called_at > self._timeout + _GRACE
                if self._is_overdue:
                    self._note_slow()
            if self._is_down:
                for *_, one in self._waiting:
                    if 0 < one.give_up_at <= now:
                        self._give_up(one)
                self._waiting = sorted(entry for entry in self._waiting if not entry[2].is_over)

    def flush(self, timeout: float) -> bool:
        until = time.monotonic() + timeout
        with self._lock:
            # A sorted list is a heap.
            self._waiting = sorted((0.0, number, one) for _, number, one in self._waiting)
            left = [*self._flying, *(one for *_, one in self._waiting)]
        while True:
            with self._lock:
                left = [one for one in left if not one.is_over]
                # A stored result can stay in the spool after one attempt, or if the sink is down.
                if all(one.is_stored and (self._is_down or one.sends) for one in left):
                    return True
            if (seconds := until - time.monotonic()) <= 0:
                return False
            # Poll, because a hanging call blocks the thread.
            self._loop.ask(min(_POLL, seconds))
            self.check()

    def begin_close(self, timeout: float) -> None:
        with self._lock:
            if self._closing is not None:
                return
            self._closing = time.monotonic() + timeout
            is_started = self._loop.start()
        self._loop.wake()
        if not is_started:
            self._close_sink()

    def end_close(self) -> None:
        self._loop.join((self._closing or 0.0) - time.monotonic())
        with self._lock:
            if self._loop.is_running and not self.sink.retries:
                told = f"{self._origin}: close() did not return in time"
                self._incidents.count(told, detail=self.sink.place)
            left = [*self._flying, *(one for *_, one in self._waiting)]
            self._waiting.clear()
            for one in left:
                if not one.is_over:
                    self._end(one, "shutdown", leaves=True)

    # The methods below run on the sink's thread.

    def _step(self) -> float | None:
        with self._lock:
            now = time.monotonic()
            pause = self._pause(now)
            if pause == 0.0:
                self._flying, self._called_at = self._batch(now), now
        if pause is None:
            with suppressed(self._incidents):
                self._close_sink()
        elif self._flying:
            with suppressed(self._incidents):
                failures = self._send()
            with self._lock:
                self._settle(failures, time.monotonic())
        return pause

    def _close_sink(self) -> None:
        try:
            self.sink.close()
        except BaseException as error:  # noqa: BLE001 - a sink may raise anything
            self._incidents.report(f"{self._origin} close", error)

    def _send(self) -> Mapping[int, BaseException]:
        batch = self._flying
        last = self._closing is not None or batch[0].is_last
        for one in batch:
            one.is_last = last
        try:
            if not self._is_open:
                self.sink.open(self._timeout)
                self._is_open = True
            return self.sink.send([one.payload for one in batch], last=last)
        except BaseException as raised:  # noqa: BLE001 - a sink may even call `sys.exit`
            error = raised
            if not self._is_open:
                error = RetryLater(type(error).__name__)
            elif self.sink.retries and not isinstance(error, SendError):
                # The sink's own code failed, so a retry would fail, too.
                error = Rejected(type(error).__name__, is_for_all=False)
            is_shared = len(batch) > 1 and isinstance(error, SendError) and not error.is_for_all
            return dict.fromkeys(range(len(batch)), _ALONE if is_shared else error)

    # Callers of the methods below hold the lock.

    def _pause(self, now: float) -> float | None:
        if self._closing is not None:
            # If the sink is down, results in the spool do not need another attempt.
            is_safe = self._outbox.is_durable and self._is_down
            is_over = not self._waiting or now >= self._closing or is_safe
            return None if is_over else 0.0
        due = max(self._waiting[0][0], self._paused_until) if self._waiting else math.inf
        return min(max(0.0, due - now), threading.TIMEOUT_MAX)

    def _batch(self, now: float) -> list[_Delivery]:
        batch = [heapq.heappop(self._waiting)[2]]
        most = 1 if self._is_down or batch[0].is_alone else self.sink.batch_size
        while self._waiting and len(batch) < most:
            due, _, following = self._waiting[0]
            if due > now or following.is_alone or following.is_last != batch[0].is_last:
                break
            batch.append(heapq.heappop(self._waiting)[2])
        return batch

    def _settle(self, failures: Mapping[int, BaseException], now: float) -> None:
        for index, one in enumerate(self._flying):
            if not one.is_over:
                if (error := failures.get(index)) is None:
                    self._end(one)
                else:
                    self._fail(one, error, now)
        outages = sum(getattr(error, "is_outage", True) for error in failures.values())
        self._failures = self._failures + 1 if outages == len(self._flying) else 0
        self._is_down = self._failures >= self._most_failures
        self._flying, self._is_overdue = [], False
        if self._is_down:
            pause = pause_after(self._failures - _DOWN + 1)
            self._paused_until = max(self._paused_until, now + pause)

    def _fail(self, one: _Delivery, error: BaseException, now: float) -> None:
        if error is _ALONE:
            one.is_alone = True
            self._queue(one, now)
            return
        one.sends += 1
        self._reason = error.reason if isinstance(error, SendError) else ""
        if isinstance(error, Rejected):
            self._end(one, self._reason)
        elif isinstance(error, SpanUnknown):
            self._await_span(one, now)
        else:
            self._note_failure(error, now)
            if self._closing is not None:
                self._end(one, self._reason, leaves=True)
            elif now >= one.give_up_at:
                self._give_up(one)
            else:
                self._queue(one, now + pause_after(one.sends))

    def _note_failure(self, error: BaseException, now: float) -> None:
        if isinstance(error, RetryLater):
            self._incidents.count(f"{self._origin}, {error.reason}: the queue retries")
            asked = now + min(error.wait or 0.0, _LONGEST_ASKED)
            self._paused_until = max(self._paused_until, asked)
        elif isinstance(error, TooSlowError):
            self._note_slow()
        elif not self._is_overdue:
            self._incidents.report(self._origin, error)

    def _await_span(self, one: _Delivery, now: float) -> None:
        one.is_alone = False
        if one.is_last:
            self._end(one, self._reason, leaves=self._closing is not None)
        else:
            due = now + min(pause_after(one.sends), _LONGEST_LOOK)
            one.is_last = due >= one.queued_at + self._retry_for
            self._queue(one, due)

    def _note_slow(self) -> None:
        told = f"{self._origin}: a call took more than {self._timeout:g} s"
        advice = f"Further results wait for this call. Let the sink return sooner.{self.sink.place}"
        self._incidents.count(told, detail=advice)

    def _queue(self, one: _Delivery, due: float) -> None:
        heapq.heappush(self._waiting, (due, next(self._numbers), one))
        self._loop.wake()

    def _give_up(self, one: _Delivery) -> None:
        self._end(one, "kept too long" if one.is_stored else self._reason)

    def _end(self, one: _Delivery, reason: str = "", *, leaves: bool = False) -> None:
        one.is_over, is_left = True, False
        self._chars -= one.chars
        if one.job is not None:
            is_left = leaves and self._outbox.leave(one.job, self.sink.key)
            if not is_left:
                self._outbox.end(one.job, self.sink.key)
        if reason and not is_left:
            self._incidents.count(f"{self._origin}: results are lost ({reason})")
        elif reason == _FULL:
            self._incidents.count(f"{self._origin}: undelivered results stay in the spool")
