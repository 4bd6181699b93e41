"""Delivery to all sinks as an observer, with the spool as the store of what they lack."""

from __future__ import annotations

import threading

from rag_eval_hooks.delivery.delivery import Delivery
from rag_eval_hooks.ending import Ending, Evaluation
from rag_eval_hooks.pipeline.spooled import Spooled
from rag_eval_hooks.spool.entry import Entry
from rag_eval_hooks.work import Observer, Work

__all__ = ["Rows", "Sinks"]


class Rows:
    """Rows of the spool that sinks still lack. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lacking: dict[Entry, tuple[str, set[str]]] = {}
        self._left: dict[Entry, str] = {}
        self.spooled: Spooled | None = None

    def keep(self, entry: Entry, column: str, sinks: set[str]) -> None:
        """Keep a row until all these sinks have it."""
        with self._lock:
            self._lacking[entry] = column, sinks

    def delivered(self, entry: object, sink: str) -> None:
        """Remove the row once no sink lacks it."""
        assert isinstance(entry, Entry)
        with self._lock:
            column, sinks = self._lacking.get(entry, ("", {sink}))
            sinks.discard(sink)
            if sinks or self._lacking.pop(entry, None) is None:
                return
        if self.spooled is not None:
            self.spooled.let_go(entry, column)

    def leave(self, entry: object, sink: str) -> None:
        """Keep the row for when the sink has capacity."""
        assert isinstance(entry, Entry)
        entry.forget()
        with self._lock:
            if len(self._left) < 10_000:
                self._left[entry] = sink

    def take_up(self, delivery: Delivery) -> None:
        """Hand rows back to the spool, which recovers them, where sinks have capacity."""
        with self._lock:
            left = [entry for entry, sink in self._left.items() if delivery.capacity(sink)]
            for entry in left:
                del self._left[entry]
                self._lacking.pop(entry, None)
        for entry in left:
            if self.spooled is not None:
                self.spooled.give_up(entry)


class Sinks(Observer):
    """Hands evaluations to sinks.

    Args:
        delivery: Outboxes of the sinks.
        rows: Rows that they lack.
        spooled: The spool.
    """

    def __init__(self, delivery: Delivery, rows: Rows, spooled: Spooled) -> None:
        self._delivery = delivery
        self._rows = rows
        self._spooled = spooled
        rows.spooled = spooled

    async def evaluated(self, work: Work, evaluation: Evaluation) -> None:
        """Hand an evaluation to all sinks. Never waits for them."""
        sinks = self._delivery.lacking(evaluation)
        if work.is_recovered:
            # Whatever a resumable sink has of it may stand anywhere.
            sinks = dict.fromkeys(sinks, 0)
        entry = work.entry if self._spooled.holds(work) else None
        if entry is not None and sinks:
            self._spooled.redeliver(work)
            self._rows.keep(entry, Ending.of(evaluation).entry, set(sinks))
        self._delivery.put(
            evaluation,
            sinks,
            entry=entry,
            is_repeated=work.is_recovered,
            accepted_at=work.accepted_at,
        )

    def take_up(self) -> None:
        """Offer to sinks what they could not take before."""
        self._delivery.check()
        self._rows.take_up(self._delivery)
