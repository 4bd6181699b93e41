"""Outbox of one sink: accepts results at once, delivers them in threads of its own."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Mapping
from typing import Final

from rag_eval_hooks.delivery.backlog import FULL, Backlog, SinkCall
from rag_eval_hooks.delivery.destination import Destination, Limits, Queued, Store
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.suppress import suppressed

__all__ = ["Outbox"]

_POLL: Final = 0.05
"""Seconds between two looks at calls that may hang, while a flush waits."""
_RECOVERED: Final = 16
"""Results of the spool that are taken over at a time."""


class Outbox:
    """Accepts results at once and delivers them in threads of its own. Thread-safe.

    A result that fails is tried again after a growing pause, by itself; the others go on. After
    several failures in a row the sink counts as down and is probed by one result at a time.
    At every moment: taken = sent + lost + spooled + waiting.

    With a store, a result that cannot wait in memory is left in its row (`spooled`). Without one
    it is lost, counted with the reason, and a user's sink gets one try.
    """

    def __init__(
        self, sink: Destination, limits: Limits, incidents: Incidents, store: Store | None = None
    ) -> None:
        sink.counts.clear()
        if store is not None:
            sink.counts["spooled"] = 0
        self.sink = sink
        self._limits = limits
        self._incidents = incidents
        self._has_store = store is not None
        self._backlog = Backlog(sink, limits, incidents, store)
        self._lock = threading.RLock()
        self._queued = threading.Condition(self._lock)
        self._settled = threading.Condition(self._lock)
        self._numbers = itertools.count()
        self._workers: list[threading.Thread] = []
        self._idle = 0
        self._flushing = 0
        self._is_open = False
        self._closing: float | None = None
        self._broken: str | None = None

    def put(
        self,
        payload: Evaluation | Feedback,
        chars: int,
        *,
        entry: object | None = None,
        since: int | None = None,
        is_repeated: bool = False,
        age: float = 0.0,
    ) -> None:
        """Accept a result. Never waits.

        Args:
            payload: A result or a feedback.
            chars: Characters that it keeps in memory.
            entry: Its row in the spool, if it has one.
            since: Position of a resumable sink before the first delivery.
            is_repeated: Whether the sink may have the result already.
            age: Seconds since the sample was accepted.
        """
        now = time.monotonic()
        can_retry = self.sink.retries or entry is not None
        retry_until = now + self._limits.retry_for if can_retry else 0.0
        kept_until = 0.0 if entry is None else now + self._limits.keep_for - age
        with self._lock:
            item = Queued(
                due=now,
                number=next(self._numbers),
                payload=payload,
                chars=chars,
                queued_at=now,
                retry_until=retry_until,
                give_up_at=max(retry_until, kept_until),
                entry=entry,
                since=since,
                is_repeated=is_repeated,
            )
            self.sink.counts["taken"] += 1
            self._backlog.chars += chars
            reason = self._reason_against()
            if reason is not None:
                self._backlog.leave(item, reason)
                return
            heapq.heappush(self._backlog.waiting, item)
            if self._idle:
                self._queued.notify()

    def capacity(self) -> int:
        """Return how many results of the spool it can take over."""
        with self._lock:
            backlog = self._backlog
            if self._closing is not None or self._broken is not None or backlog.is_stuck:
                return 0
            is_empty = not backlog.waiting and not backlog.calls
            if backlog.is_down:
                return 1 if is_empty else 0
            return _RECOVERED if is_empty or 2 * backlog.chars < self._limits.queue_chars else 0

    def check(self) -> None:
        """Count calls that hang, and give up what has waited too long for a sink that is down."""
        now = time.monotonic()
        with self._lock:
            self._backlog.check_calls(now)
            if self._backlog.is_down:
                self._backlog.expire(now)

    def flush(self, timeout: float | None) -> bool:
        """Wait until everything accepted so far is sent, lost, or safe in the spool.

        What waits for another try is tried at once. A result in the spool is not waited for after
        its first try, nor while the sink is down or hangs.

        Args:
            timeout: Seconds, or None without limit.

        Returns:
            Whether nothing of it waits.
        """
        now = time.monotonic()
        deadline = None if timeout is None else now + timeout
        with self._lock:
            last = next(self._numbers)
            self._backlog.hasten(now)
            self._queued.notify_all()
            self._flushing += 1
            try:
                while self._backlog.is_any_before(last):
                    now = time.monotonic()
                    if deadline is not None and now >= deadline:
                        return False
                    # A call that hangs notifies nobody.
                    self._settled.wait(_POLL if deadline is None else min(_POLL, deadline - now))
                    self._backlog.check_calls(time.monotonic())
                return True
            finally:
                self._flushing -= 1

    def begin_close(self, timeout: float) -> None:
        """Accept nothing more; try what waits once more, for `timeout` seconds."""
        with self._lock:
            if self._closing is not None:
                return
            self._closing = time.monotonic() + timeout
            self._backlog.is_closing = True
            self._queued.notify_all()
            is_idle = not self._workers and self._start_worker() is not None
        if is_idle:
            self._close_sink()

    def end_close(self) -> None:
        """Wait for the end of `begin_close`; leave in the spool what was not sent, or lose it."""
        with self._lock:
            workers, deadline = list(self._workers), self._closing or 0.0
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            if self._workers and self.sink.is_watched:
                self._incidents.report(f"sink {self.sink.name} close", TimeoutError())
            self._backlog.give_up_all("shutdown")

    def _reason_against(self) -> str | None:
        """Return why a result cannot wait here, or None."""
        if self._closing is not None:
            return "closed"
        if self._broken is not None:
            return self._broken
        if self._backlog.is_full:
            return FULL
        return None if self._workers else self._start_worker()

    def _start_worker(self) -> str | None:
        """Start one more thread; return why there is none, or None."""
        name = f"rag-eval-hooks-{self.sink.name}"
        worker = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            worker.start()
        except RuntimeError:
            # The system has no thread left, or the interpreter is ending.
            return "no thread"
        self._workers.append(worker)
        return None

    def _run(self) -> None:
        with suppressed():
            is_open = self._open()
            call: SinkCall | None = None
            failures: Mapping[int, BaseException] = {}
            while is_open and (call := self._next(call, failures)) is not None:
                failures = self._send(call)
            self._end_worker()

    def _end_worker(self) -> None:
        """Leave the workers; the last one closes the sink first, while `end_close` waits for it."""
        with self._lock:
            is_last = len(self._workers) == 1
            if not is_last:
                self._workers.remove(threading.current_thread())
        if is_last:
            self._close_sink()
            with self._lock:
                self._workers.remove(threading.current_thread())

    def _open(self) -> bool:
        """Open the sink, once; return whether there is anything to send to it."""
        with self._lock:
            if self._is_open or not self._backlog.waiting:
                return self._is_open
        try:
            self.sink.open(self._limits.timeout)
        except Exception as error:  # noqa: BLE001 - the sink's edge: a client's own errors
            with self._lock:
                # Nothing can be sent in this process.
                self._broken = type(error).__name__
                self._backlog.give_up_all(self._broken)
                self._settled.notify_all()
            return False
        self._is_open = True
        return True

    def _close_sink(self) -> None:
        try:
            self.sink.close()
        except BaseException as error:  # noqa: BLE001 - the sink's edge
            self._incidents.report(f"sink {self.sink.name} close", error)

    def _send(self, call: SinkCall) -> Mapping[int, BaseException]:
        items = call.items
        last = self._closing is not None or any(item.is_last for item in items)
        try:
            return self.sink.send(items, last=last)
        except BaseException as error:  # noqa: BLE001 - the sink's edge: even an exit ends here
            call.is_whole = True
            return dict.fromkeys(range(call.size), error)

    def _next(
        self, done: SinkCall | None, failures: Mapping[int, BaseException]
    ) -> SinkCall | None:
        """Settle a call and return the next one as soon as it is due; None at the end."""
        with self._lock:
            now = time.monotonic()
            if done is not None:
                self._backlog.settle(done, failures, now)
                if self._flushing:
                    self._settled.notify_all()
            while not self._is_over(now):
                due = self._backlog.due_at()
                if due is not None and due <= now:
                    return self._begin(now)
                self._idle += 1
                self._queued.wait(None if due is None else due - now)
                self._idle -= 1
                now = time.monotonic()
            self._queued.notify_all()
            return None

    def _begin(self, now: float) -> SinkCall:
        call = self._backlog.begin(now)
        if self._backlog.waiting and self._idle:
            self._queued.notify()
        elif self._backlog.waiting and len(self._workers) < self.sink.workers:
            self._start_worker()
        return call

    def _is_over(self, now: float) -> bool:
        if self._closing is None:
            return False
        # A sink that is down is not tried again: what it lacks is safe in the spool.
        is_safe = self._has_store and self._backlog.is_down
        return not self._backlog.waiting or now >= self._closing or is_safe
