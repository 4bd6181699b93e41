"""Backlog of one sink: the queue, and the consequences of failures; knows no threads."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rag_eval_hooks.backoff import Backoff, pause_after
from rag_eval_hooks.delivery.destination import (
    Destination,
    Limits,
    Queued,
    Rejected,
    RetryLater,
    SendError,
    SpanUnknown,
    Store,
)
from rag_eval_hooks.incidents import Incidents

__all__ = ["FULL", "RETRY", "Backlog", "SinkCall"]

RETRY: Final = "Retry"
"""Suffix of the count of failed tries that are repeated, and so are not losses."""
FULL: Final = "outbox full"
"""Reason of a result that the limit of memory does not allow to wait."""
_LONGEST_ASKED: Final = 60.0
"""Seconds of a `Retry-After` that are honoured at most."""
_FIRST_LOOK: Final = 0.5
_LONGEST_LOOK: Final = 5.0
"""Seconds between two tries of a result whose span is unknown."""
_MOST_DOUBLINGS: Final = 10
_DOWN: Final = 5
"""Failures in a row after which the sink counts as down and is probed by one result at a time."""
_GRACE: Final = 0.1
"""Seconds beyond the time limit, in which a cancelled awaitable may still return."""


@dataclass(slots=True, eq=False)
class SinkCall:
    """A call of the sink that is in flight.

    Attributes:
        items: Results that it delivers; empty once they are accounted for without its return.
        began: Time of its start, in seconds of the monotonic clock.
        size: Number of items at its start.
        is_overdue: Whether it has taken longer than it may.
        is_whole: Whether its failure was raised for all items together.
    """

    items: Sequence[Queued]
    began: float
    size: int
    is_overdue: bool = False
    is_whole: bool = False


class Backlog:
    """Results that wait for a sink or are in flight to it. The caller holds a lock.

    Attributes:
        waiting: Heap of what waits, by the time of the next try.
        calls: Calls in flight.
        chars: Characters of both.
        is_closing: Whether every try is the last one.
    """

    def __init__(
        self, sink: Destination, limits: Limits, incidents: Incidents, store: Store | None
    ) -> None:
        self.waiting: list[Queued] = []
        self.calls: list[SinkCall] = []
        self.chars = 0
        self.is_closing = False
        self._sink = sink
        self._limits = limits
        self._incidents = incidents
        self._store = store
        self._origin = f"sink {sink.name}"
        self._failures = 0
        self._backoff = Backoff()
        self._paused_until = 0.0
        self._last_reason = ""

    @property
    def is_down(self) -> bool:
        """True after several failures in a row."""
        return self._backoff.is_failing

    @property
    def is_stuck(self) -> bool:
        """True while a call hangs."""
        return any(call.is_overdue for call in self.calls)

    @property
    def is_full(self) -> bool:
        """True if more waits than may; a single result may be of any size."""
        return self.chars > self._limits.queue_chars and bool(self.waiting or self.calls)

    def due_at(self) -> float | None:
        """Return the time of the next call, or None while nothing can be called."""
        if not self.waiting:
            return None
        if self.is_closing:
            return 0.0
        if self.is_down and self.calls:
            return None
        return max(self.waiting[0].due, self._paused_until)

    def begin(self, now: float) -> SinkCall:
        """Take what is due for one call; something must wait."""
        items = [heapq.heappop(self.waiting)]
        most = 1 if self.is_down or items[0].is_alone else self._sink.batch_size
        while self.waiting and len(items) < most:
            following = self.waiting[0]
            if following.due > now or following.is_alone or following.is_last != items[0].is_last:
                break
            items.append(heapq.heappop(self.waiting))
        call = SinkCall(items, now, len(items))
        self.calls.append(call)
        return call

    def hasten(self, now: float) -> None:
        """Make everything due that waits for another try."""
        for item in self.waiting:
            item.due = min(item.due, now)
        heapq.heapify(self.waiting)

    def settle(self, call: SinkCall, failures: Mapping[int, BaseException], now: float) -> None:
        """Account for a call that has returned."""
        self.calls.remove(call)
        for index, item in enumerate(call.items):
            error = failures.get(index)
            if error is None:
                self._finish(item)
                self._sink.counts["sent"] += 1
            else:
                self._fail(item, error, call, now)
        self._note_outage(failures, call.size, now)

    def _note_outage(self, failures: Mapping[int, BaseException], size: int, now: float) -> None:
        """Pause after failures in a row; a call that the sink answered ends the row."""
        if len(failures) < size or not all(map(_is_outage, failures.values())):
            self._failures = 0
            self._backoff.succeeded()
            return
        self._failures += 1
        can_wait = self._sink.retries or self._store is not None
        # Calls that were in flight together fail together: one pause for all of them.
        if can_wait and self._failures >= _DOWN and now >= self._paused_until:
            self._paused_until = now + self._backoff.failed()

    def _fail(self, item: Queued, error: BaseException, call: SinkCall, now: float) -> None:
        """Decide what follows from the failure of an item."""
        is_shared = call.is_whole and call.size > 1
        if is_shared and isinstance(error, SendError) and not error.is_for_all:
            # Another item of the request may be the cause.
            item.is_alone = True
            self._try_again(item, now)
        elif isinstance(error, SpanUnknown):
            self._await_span(item, error, now)
        elif isinstance(error, Rejected):
            self._lose(item, error.reason)
        elif isinstance(error, RetryLater):
            self._incidents.count(f"{self._origin}, {error.reason}: {RETRY}")
            asked = now + min(error.wait or 0.0, _LONGEST_ASKED)
            self._paused_until = max(self._paused_until, asked)
            self._retry(item, error.reason, now)
        else:
            if not call.is_overdue:
                self._incidents.report(self._origin, error)
            self._retry(item, "", now)

    def _retry(self, item: Queued, reason: str, now: float) -> None:
        item.tries += 1
        item.reason = self._last_reason = reason
        if self.is_closing and item.give_up_at:
            self.leave(item, reason)
        elif now >= item.give_up_at:
            self._give_up(item)
        else:
            self._try_again(item, now + pause_after(item.tries))

    def _await_span(self, item: Queued, error: SpanUnknown, now: float) -> None:
        if self.is_closing:
            self.leave(item, error.reason)
        elif item.is_last:
            self._lose(item, error.reason)
        else:
            pause = min(_FIRST_LOOK * 2 ** min(item.looks, _MOST_DOUBLINGS), _LONGEST_LOOK)
            item.looks += 1
            item.is_alone = False
            item.is_last = now + pause >= item.retry_until
            self._try_again(item, now + pause)

    def _try_again(self, item: Queued, due: float) -> None:
        item.due = due
        item.is_repeated = True
        heapq.heappush(self.waiting, item)

    def check_calls(self, now: float) -> None:
        """Count calls that have taken too long, and what waits behind them in vain."""
        if not self._sink.is_watched:
            return
        longest = self._limits.timeout + _GRACE
        for call in self.calls:
            if now - call.began > longest and not call.is_overdue:
                call.is_overdue = True
                for item in call.items:
                    self._miss(item)
                call.items = [item for item in call.items if item.entry is not None]
        if self.is_stuck:
            self._drop_waiting(
                lambda item: item.entry is None and now - item.queued_at > longest, self._miss
            )

    def _miss(self, item: Queued) -> None:
        """Count a time limit; without a row on disk, the result is lost."""
        self._incidents.report(self._origin, TimeoutError())
        if item.entry is None:
            self._lose(item, "")

    def expire(self, now: float) -> None:
        """Give up what has waited longer than it may."""
        self._drop_waiting(lambda item: 0 < item.give_up_at <= now, self._give_up)

    def _drop_waiting(
        self, is_over: Callable[[Queued], bool], end: Callable[[Queued], None]
    ) -> None:
        over = [item for item in self.waiting if is_over(item)]
        if over:
            self.waiting = [item for item in self.waiting if not is_over(item)]
            heapq.heapify(self.waiting)
        for item in over:
            end(item)

    def is_any_before(self, number: int) -> bool:
        """Return whether a flush waits for anything that came before."""
        is_settling = not (self.is_down or self.is_stuck)
        flying = (item for call in self.calls if not call.is_overdue for item in call.items)
        return any(
            item.number < number
            and (item.entry is None or (is_settling and not item.tries and not item.looks))
            for item in itertools.chain(flying, self.waiting)
        )

    def give_up_all(self, reason: str) -> None:
        """Leave or lose everything that waits or is in flight."""
        items = [*self.waiting, *(item for call in self.calls for item in call.items)]
        self.waiting = []
        for call in self.calls:
            call.items = ()
        for item in items:
            self.leave(item, reason)

    def leave(self, item: Queued, reason: str) -> None:
        """Leave a result to its row in the spool; without one it is lost."""
        if item.entry is None or self._store is None:
            self._lose(item, reason)
            return
        if not self._store.leave(item.entry, self._sink.key):
            self._lose(item, reason or "spool lost")
            return
        self.chars -= item.chars
        self._sink.counts["spooled"] += 1
        if reason == FULL:
            self._incidents.count(f"{self._origin}: left in the spool")

    def _give_up(self, item: Queued) -> None:
        # What was never tried is lost for the reason that the others failed for.
        reason = item.reason or self._last_reason
        self._lose(item, "kept too long" if item.entry is not None else reason)

    def _lose(self, item: Queued, reason: str) -> None:
        """Count a loss; the failures of a user's sink are counted by themselves."""
        self._finish(item)
        self._sink.counts["lost"] += 1
        if reason:
            self._incidents.count(f"{self._origin}, {reason}: Lost")

    def _finish(self, item: Queued) -> None:
        self.chars -= item.chars
        if item.entry is not None and self._store is not None:
            self._store.delivered(item.entry, self._sink.key)


def _is_outage(error: BaseException) -> bool:
    """Return whether a failure may concern the whole sink, rather than one result."""
    return isinstance(error, RetryLater) or not isinstance(error, SendError)
