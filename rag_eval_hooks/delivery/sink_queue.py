"""The queue and thread of one sink."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from rag_eval_hooks.backoff import pause_after
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery.outbox import Outbox
from rag_eval_hooks.delivery.outbox_file import Job, State
from rag_eval_hooks.delivery.sink import (
    Destination,
    Rejected,
    RetryLater,
    SendError,
    SpanUnknown,
    TooSlowError,
)
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.suppress import suppressed
from rag_eval_hooks.threads import Loop

_FULL: Final = "outbox full"
_LONGEST_ASKED: Final = 60.0  # maximum seconds to wait for a `Retry-After` header
_LONGEST_LOOK: Final = 5.0  # maximum seconds between two attempts if the span is missing
_DOWN: Final = 5  # number of consecutive failures after which the sink counts as down
_GRACE: Final = 0.1  # seconds in which a cancelled awaitable can finish
_RECOVERED: Final = 64  # maximum number of results to claim from the spool at once
_LONGEST_SLEEP: Final = 3600.0
_POLL: Final = 0.05  # seconds between two checks for a hanging call
_ALONE: Final = SendError("one of several failed")


class SinkQueue:
    """A sink's queue, which delivers results on its own thread. Thread-safe.

    The queue retries a failed result with backoff and meanwhile delivers other results. If the sink
    is down, the queue sends one result at a time. If no spool is set, the queue drops results above
    the memory limit. It then also calls a user's sink only once per result.

    The counts satisfy taken = sent + lost + spooled + waiting.
    """

    def __init__(self, sink: Destination, incidents: Incidents, outbox: Outbox) -> None:
        sink.counts.clear()
        if outbox.is_durable:
            sink.counts["spooled"] = 0
        self.sink = sink
        self._incidents = incidents
        self._outbox = outbox
        self._timeout = limits.SINK_SECONDS
        self._retry_for = limits.SINK_RETRY_SECONDS
        self._keep_for = limits.SINK_KEEP_SECONDS
        self._most_chars = limits.SINK_QUEUE_CHARS
        self._origin = f"sink {sink.name}"
        self._lock = threading.Lock()
        self._loop = Loop(f"rag-eval-hooks-{sink.name}", self._step, self._report)
        # A heap of due time, number and job. Jobs in flight are not in the heap.
        self._waiting: list[tuple[float, int, Job]] = []
        self._numbers = itertools.count()
        self._flying: list[Job] = []
        self._called_at = self._paused_until = 0.0
        self._is_overdue = self._is_open = False
        self._chars = self._failures = 0
        self._last_reason = ""
        self._closing: float | None = None

    def put(self, job: Job, chars: int) -> None:
        now = time.monotonic()
        job.chars, job.queued_at = chars, now
        # Feedback has no `encode`, because the spool cannot store feedback.
        if self.sink.retries or (job.encode is not None and self._outbox.is_durable):
            job.give_up_at = now + self._retry_for
        if job.is_stored:
            kept_until = now + self._keep_for - (time.time() - job.accepted)
            job.give_up_at = max(job.give_up_at, kept_until)
        with self._lock:
            self.sink.counts["taken"] += 1
            self._chars += chars
            if self._closing is not None:
                self._leave(job, "closed")
            elif self._chars > self._most_chars and (self._waiting or self._flying):
                # The limit does not apply to a single result.
                self._leave(job, _FULL)
            elif self._loop.start():
                self._queue(job, now)
            else:
                self._leave(job, "no thread")

    def capacity(self) -> int:
        with self._lock:
            is_empty = not self._waiting and not self._flying
            if self._closing is not None:
                return 0
            if self._is_down or self._is_overdue:
                return int(is_empty)
            return _RECOVERED if is_empty or 2 * self._chars < self._most_chars else 0

    def check(self) -> None:
        """Report a hanging call. If the sink is down, drop expired results.

        The results of the hanging call and the results queued behind it are lost, unless the spool
        has them.
        """
        now, longest = time.monotonic(), self._timeout + _GRACE
        with self._lock:
            if self._flying and self.sink.is_watched and now - self._called_at > longest:
                late = [] if self._is_overdue else self._flying
                self._is_overdue = True
                behind = self._take(lambda job: not job.is_stored and now - job.queued_at > longest)
                self._note_slow(len(late) + len(behind))
                for job in (*late, *behind):
                    if not job.is_stored:
                        self._end(job, "lost")
            if self._is_down:
                for job in self._take(lambda job: 0 < job.give_up_at <= now):
                    self._give_up(job)

    def flush(self, timeout: float) -> bool:
        """Retry waiting results immediately. Return False on timeout.

        Wait until each result is sent or lost. For a result in the spool, one attempt suffices. If
        the sink is down, do not wait for results that are in the spool.
        """
        now = time.monotonic()
        with self._lock:
            self._waiting = [(min(due, now), number, job) for due, number, job in self._waiting]
            heapq.heapify(self._waiting)
            jobs = [*self._flying, *(job for *_, job in self._waiting)]
        while True:
            with self._lock:
                is_down, jobs = self._is_down, [job for job in jobs if job.state is State.HELD]
                if all(job.is_stored and (is_down or job.sends) for job in jobs):
                    return True
            if (left := now + timeout - time.monotonic()) <= 0:
                return False
            # Poll, because a hanging call blocks the thread.
            self._loop.ask(min(_POLL, left))
            self.check()

    def begin_close(self, timeout: float) -> None:
        """Reject new results. Retry each waiting result once, for at most `timeout` seconds."""
        with self._lock:
            if self._closing is not None:
                return
            self._closing = time.monotonic() + timeout
            is_started = self._loop.start()
        self._loop.wake()
        if not is_started:
            self._close_sink()

    def end_close(self) -> None:
        """Wait for the last retries. Results without a success stay in the spool or are lost."""
        self._loop.join((self._closing or 0.0) - time.monotonic())
        with self._lock:
            if self._loop.is_running and self.sink.is_watched:
                self._incidents.count(
                    f"{self._origin}: close() did not return in time", detail=self.sink.place
                )
            for job in (*self._take(lambda _: True), *self._flying):
                if job.state is State.HELD:
                    self._leave(job, "shutdown")

    # The methods below run on the sink's thread.

    def _step(self) -> float | None:
        with self._lock:
            now = time.monotonic()
            pause = self._pause(now)
            if pause == 0.0:
                self._flying, self._called_at = self._batch(now), now
        with suppressed(self._incidents):
            if pause is None:
                self._close_sink()
            elif self._flying:
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
        jobs = self._flying
        last = self._closing is not None or jobs[0].is_last
        for job in jobs:
            job.is_last = last
        try:
            if not self._is_open:
                self.sink.open(self._timeout)
                self._is_open = True
            return self.sink.send([job.payload for job in jobs], last=last)
        except BaseException as raised:  # noqa: BLE001 - a sink may even call `sys.exit`
            error = raised
            if not self._is_open:
                error = RetryLater(type(error).__name__)
            elif self.sink.retries and not isinstance(error, SendError):
                # Do not retry, because the client itself raised the error.
                error = Rejected(type(error).__name__, is_for_all=False)
            is_shared = len(jobs) > 1 and isinstance(error, SendError) and not error.is_for_all
            return dict.fromkeys(range(len(jobs)), _ALONE if is_shared else error)

    # Callers of the methods below hold the lock.

    def _pause(self, now: float) -> float | None:
        if self._closing is not None:
            # If the sink is down, results in the spool do not need another attempt.
            is_safe = self._outbox.is_durable and self._is_down
            is_over = not self._waiting or now >= self._closing or is_safe
            return None if is_over else 0.0
        if not self._waiting:
            return _LONGEST_SLEEP
        due = max(self._waiting[0][0], self._paused_until)
        return min(max(0.0, due - now), _LONGEST_SLEEP)

    def _batch(self, now: float) -> list[Job]:
        jobs = [heapq.heappop(self._waiting)[2]]
        most = 1 if self._is_down or jobs[0].is_alone else self.sink.batch_size
        while self._waiting and len(jobs) < most:
            due, _, following = self._waiting[0]
            if due > now or following.is_alone or following.is_last != jobs[0].is_last:
                break
            jobs.append(heapq.heappop(self._waiting)[2])
        return jobs

    def _settle(self, failures: Mapping[int, BaseException], now: float) -> None:
        for index, job in enumerate(self._flying):
            if job.state is State.HELD:
                if (error := failures.get(index)) is None:
                    self._end(job, "sent")
                else:
                    self._fail(job, error, now)
        classified = [one for one in failures.values() if isinstance(one, SendError)]
        outages = len(failures) - sum(not isinstance(one, RetryLater) for one in classified)
        self._failures = self._failures + 1 if outages == len(self._flying) else 0
        self._flying, self._is_overdue = [], False
        if self._is_down:
            pause = pause_after(self._failures - _DOWN + 1)
            self._paused_until = max(self._paused_until, now + pause)

    def _fail(self, job: Job, error: BaseException, now: float) -> None:
        if error is _ALONE:
            job.is_alone = True
            self._queue(job, now)
            return
        job.sends += 1
        job.reason = self._last_reason = error.reason if isinstance(error, SendError) else ""
        if isinstance(error, Rejected):
            self._end(job, "lost", job.reason)
        elif isinstance(error, SpanUnknown):
            self._await_span(job, now)
        else:
            self._note_failure(error, now)
            if self._closing is not None:
                self._leave(job, job.reason)
            elif now >= job.give_up_at:
                self._give_up(job)
            else:
                self._queue(job, now + pause_after(job.sends))

    def _report(self, error: BaseException) -> None:
        self._incidents.report(self._origin, error)

    def _note_failure(self, error: BaseException, now: float) -> None:
        if isinstance(error, RetryLater):
            self._incidents.count(f"{self._origin}, {error.reason}: Retry")
            asked = now + min(error.wait or 0.0, _LONGEST_ASKED)
            self._paused_until = max(self._paused_until, asked)
        elif isinstance(error, TooSlowError):
            self._note_slow(1)
        elif not self._is_overdue:
            self._report(error)

    def _await_span(self, job: Job, now: float) -> None:
        job.is_alone = False
        if job.is_last and self._closing is None:
            self._end(job, "lost", job.reason)
        elif job.is_last:
            self._leave(job, job.reason)
        elif self._closing is not None:
            self._queue(job, now)
        else:
            pause = min(pause_after(job.sends), _LONGEST_LOOK)
            job.is_last = now + pause >= job.queued_at + self._retry_for
            self._queue(job, now + pause)

    @property
    def _is_down(self) -> bool:
        return self._failures >= _DOWN and (self.sink.retries or self._outbox.is_durable)

    def _note_slow(self, times: int) -> None:
        told = f"{self._origin}: a call took more than {self._timeout:g} s"
        advice = f"The result may be lost. Let the sink return sooner.{self.sink.place}"
        self._incidents.count(told, times, detail=advice)

    def _queue(self, job: Job, due: float) -> None:
        heapq.heappush(self._waiting, (due, next(self._numbers), job))
        self._loop.wake()

    def _take(self, is_taken: Callable[[Job], bool]) -> list[Job]:
        taken = {job: None for *_, job in self._waiting if is_taken(job)}
        self._waiting = [entry for entry in self._waiting if entry[2] not in taken]
        heapq.heapify(self._waiting)
        return list(taken)

    def _leave(self, job: Job, reason: str) -> None:
        self._end(job, "spooled" if self._outbox.release(job) else "lost", reason)

    def _give_up(self, job: Job) -> None:
        # A result that was never sent has no reason, so use the last failure's reason.
        reason = job.reason or self._last_reason
        self._end(job, "lost", "kept too long" if job.is_stored else reason)

    def _end(self, job: Job, column: str, reason: str = "") -> None:
        self._chars -= job.chars
        self.sink.counts[column] += 1
        if column != "spooled":
            self._outbox.done(job)
        if column == "lost" and reason:
            self._incidents.count(f"{self._origin}: results are lost ({reason})")
        elif column == "spooled" and reason == _FULL:
            self._incidents.count(f"{self._origin}: undelivered results stay in the spool")
