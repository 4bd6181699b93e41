"""A bounded outbox: one thread sends reports to a platform, again where it must."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rag_eval_hooks.backoff import Backoff
from rag_eval_hooks.delivery.platforms.platform import (
    Connect,
    Connection,
    Kept,
    Later,
    Refused,
    Report,
    Store,
    Unknown,
    report_from_text,
    report_to_text,
)
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.suppress import quiet

__all__ = ["RETRY", "Limits", "Outbox"]

RETRY: Final = "Retry"
"""How the count of failed tries ends; what is tried again is not lost."""
_LONGEST_ASKED: Final = 60.0
"""Seconds for which a platform may ask to be left alone."""
_FIRST_LOOK: Final = 0.5
_LONGEST_WAIT: Final = 5.0
"""Seconds between two looks for a span."""
_CHUNK: Final = 16
"""Reports of the store taken over at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What sending may take.

    Attributes:
        timeout: Seconds of one request.
        retry_for: Seconds for which a report is tried again.
        queue_chars: Characters of reports that may wait.
    """

    timeout: float
    retry_for: float
    queue_chars: int


@dataclass(order=True, slots=True)
class _Parcel:
    due: float
    number: int
    report: Report = field(compare=False)
    deadline: float = field(compare=False)
    kept: Kept | None = field(compare=False, default=None)
    looks: int = field(compare=False, default=0)
    last: bool = field(compare=False, default=False)


class Outbox:
    """Takes reports at once and sends them in a thread of its own. Thread-safe.

    A platform that fails is left alone for a while, ever longer, and nothing else is sent
    meanwhile. A report whose span is not there yet waits by itself. What is not sent within the
    limits is lost, and counted with its reason: taken = sent + lost + waiting, always.

    With a store, a report is kept there until it is sent or refused. What the limits do not allow
    to wait any longer is left there (taken = sent + lost + waiting + spooled), and taken again
    from there, by this outbox or another, as soon as the platform answers.

    Args:
        name: The platform.
        connect: Makes the connection, in the thread that uses it.
        limits: See there.
        incidents: Where losses and failed tries are counted.
        store: Where reports are kept, or None.
        place: The platform's name there.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        limits: Limits,
        incidents: Incidents,
        *,
        store: Store | None = None,
        place: str = "",
    ) -> None:
        self._name = name
        self._connect = connect
        self._limits = limits
        self._incidents = incidents
        self._store = store
        self._place = place
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._waiting: list[_Parcel] = []
        self._sending: _Parcel | None = None
        self._leaving = 0
        self._known: set[str] = set()
        self._chars = 0
        self._backoff = Backoff()
        self._paused_until = 0.0
        self._closing: float | None = None
        self._broken: str | None = None
        self._thread: threading.Thread | None = None
        self._counts: Counter[str] = Counter()

    def put(self, report: Report, report_id: str = "") -> bool:
        """Takes a report; never waits.

        Args:
            report: It.
            report_id: The same for an equal report, by which a store knows it.

        Returns:
            False where it cannot wait here: too much does already, or the outbox is closed.
        """
        kept = None
        if self._store is not None:
            kept = Kept(self._place, report_id, report_to_text(report))
        with self._changed:
            if kept is not None and kept.id in self._known:
                # Taken over from the store, and found by evaluating its sample once more.
                return True
            if kept is not None and self._store is not None:
                self._store.keep(kept)
            return self._enter(report, kept)

    def take(self, kept: Kept) -> None:
        """Takes over a report of the store."""
        with self._changed:
            try:
                report = report_from_text(kept.text)
            except Exception as error:  # noqa: BLE001 - the file's edge: who knows what wrote it
                self._counts["taken"] += 1
                self._lose(type(error).__name__, kept)
                return
            kept.text = ""
            if kept.id not in self._known:
                self._enter(report, kept)

    def room(self) -> int:
        """How many more reports of the store it can take over: one at a time while it fails."""
        with self._changed:
            idle = not self._waiting and self._sending is None
            if self._closing is not None or self._broken is not None:
                return 0
            if self._backoff.is_failing:
                return 1 if idle else 0
            return _CHUNK if idle or self._chars < self._limits.queue_chars // 2 else 0

    def books(self) -> Mapping[str, int]:
        """Reports taken, sent, lost and waiting; with a store also those left there."""
        with self._changed:
            waiting = len(self._waiting) + (self._sending is not None) + self._leaving
            told = ("taken", "sent", "lost", *(() if self._store is None else ("spooled",)))
            return {**{k: self._counts[k] for k in told}, "waiting": waiting}

    def flush(self, timeout: float | None) -> bool:
        """Waits until what was taken so far is sent or lost.

        Looks at once for spans that were not there yet.

        Args:
            timeout: Seconds, or None without limit.

        Returns:
            Whether nothing of it waits.
        """
        with self._changed:
            last = next(self._numbers)
            for parcel in self._waiting:
                parcel.due = min(parcel.due, time.monotonic())
            heapq.heapify(self._waiting)
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._any_before(last), timeout)

    def close(self, timeout: float) -> None:
        """Tries all once more, for `timeout` seconds; what is not sent is left, or lost."""
        with self._changed:
            self._closing = time.monotonic() + timeout
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout)
        with self._changed:
            self._give_up_waiting("shutdown", float("inf"))
            if self._sending is not None:
                self._give_up(self._sending, "shutdown")

    def _enter(self, report: Report, kept: Kept | None) -> bool:
        self._counts["taken"] += 1
        if (reason := self._reason_against(report)) is not None:
            self._leave(kept, reason)
            return False
        now = time.monotonic()
        due = now + self._limits.retry_for
        heapq.heappush(self._waiting, _Parcel(now, next(self._numbers), report, due, kept))
        self._chars += report.chars
        if kept is not None:
            self._known.add(kept.id)
        self._changed.notify_all()
        return True

    def _any_before(self, number: int) -> bool:
        if self._sending is not None and self._sending.number < number:
            return True
        return any(parcel.number < number for parcel in self._waiting)

    def _reason_against(self, report: Report) -> str | None:
        """Why a report is not taken, or None."""
        if self._closing is not None:
            return "closed"
        if self._broken is not None:
            return self._broken
        if self._chars and self._chars + report.chars > self._limits.queue_chars:
            return "outbox full"
        return self._start()

    def _start(self) -> str | None:
        if self._thread is None:
            name = f"rag-eval-hooks-{self._name}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # The system has no thread left for us, or the interpreter is ending.
                return "no thread"
            self._thread = thread
        return None

    def _run(self) -> None:
        with quiet():
            try:
                connection = self._connect(self._limits.timeout)
            except Exception as error:  # noqa: BLE001 - the sink's edge: a client's own errors
                self._break(type(error).__name__)
                return
            try:
                while (parcel := self._next()) is not None:
                    self._send(connection, parcel)
            finally:
                connection.close()

    def _break(self, reason: str) -> None:
        """Nothing can be sent in this process: loses what waits, and what comes."""
        with self._changed:
            self._broken = reason
            self._give_up_waiting(reason, float("inf"))
            self._changed.notify_all()

    def _next(self) -> _Parcel | None:
        """The next report that is due; None at the end."""
        with self._changed:
            while True:
                now = time.monotonic()
                if self._closing is not None and (not self._waiting or now > self._closing):
                    return None
                due = max(self._waiting[0].due, self._paused_until) if self._waiting else None
                if due is not None and (due <= now or self._closing is not None):
                    self._sending = heapq.heappop(self._waiting)
                    return self._sending
                self._changed.wait(None if due is None else due - now)

    def _send(self, connection: Connection, parcel: _Parcel) -> None:
        last = parcel.last or self._closing is not None
        error: Exception | None = None
        try:
            connection.send(parcel.report, last=last)
        except (Later, Unknown, Refused) as known:
            error = known
        except Exception as unforeseen:  # noqa: BLE001 - the sink's edge: a client's own errors
            error = Refused(type(unforeseen).__name__)
        with self._changed:
            if self._sending is parcel:
                self._settle(parcel, error, last)
            self._changed.notify_all()

    def _settle(self, parcel: _Parcel, error: Exception | None, last: bool) -> None:
        now = time.monotonic()
        if isinstance(error, Later):
            self._pause(error, now)
            if not last and now < parcel.deadline:
                self._again(parcel, now)
                return
        else:
            self._backoff.succeeded()
        if isinstance(error, Unknown) and not last:
            wait = min(_FIRST_LOOK * 2**parcel.looks, _LONGEST_WAIT)
            parcel.looks += 1
            parcel.last = now + wait >= parcel.deadline
            self._again(parcel, now + wait)
        elif isinstance(error, Later) or (isinstance(error, Unknown) and self._closing is not None):
            self._give_up(parcel, error.reason)
        elif isinstance(error, Unknown | Refused):
            self._forget(parcel)
            self._lose(error.reason, parcel.kept)
        else:
            self._forget(parcel)
            self._drop(parcel.kept)
            self._counts["sent"] += 1

    def _pause(self, error: Later, now: float) -> None:
        self._incidents.count(f"sink {self._name}, {error.reason}: {RETRY}")
        asked = min(error.wait or 0.0, _LONGEST_ASKED)
        self._paused_until = now + max(self._backoff.failed(), asked)
        self._give_up_waiting(error.reason, now)

    def _again(self, parcel: _Parcel, due: float) -> None:
        parcel.due = due
        self._sending = None
        heapq.heappush(self._waiting, parcel)

    def _give_up_waiting(self, reason: str, now: float) -> None:
        """Gives up what waits longer than it may."""
        late = [parcel for parcel in self._waiting if parcel.deadline <= now]
        if late:
            self._waiting = [parcel for parcel in self._waiting if parcel.deadline > now]
            heapq.heapify(self._waiting)
        for parcel in late:
            self._give_up(parcel, reason)

    def _give_up(self, parcel: _Parcel, reason: str) -> None:
        self._forget(parcel)
        self._leave(parcel.kept, reason)

    def _leave(self, kept: Kept | None, reason: str) -> None:
        """Leaves a report in the store; one that is not there is lost."""
        if kept is None or self._store is None:
            self._lose(reason)
            return

        def told(on_disk: bool) -> None:
            with self._changed:
                self._leaving -= 1
                if on_disk:
                    self._counts["spooled"] += 1
                else:
                    self._lose(reason)

        self._leaving += 1
        self._store.leave(kept, told)

    def _drop(self, kept: Kept | None) -> None:
        if kept is not None and self._store is not None:
            self._store.drop(kept)

    def _forget(self, parcel: _Parcel) -> None:
        if parcel.kept is not None:
            self._known.discard(parcel.kept.id)
        self._chars -= parcel.report.chars
        if self._sending is parcel:
            self._sending = None

    def _lose(self, reason: str, kept: Kept | None = None) -> None:
        self._drop(kept)
        self._counts["lost"] += 1
        self._incidents.count(f"sink {self._name}, {reason}: Lost")
