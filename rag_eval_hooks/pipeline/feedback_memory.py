"""Ended interactions that a later feedback can join."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Decision
from rag_eval_hooks.sample import Sample

__all__ = ["Joinable", "Recent"]


@dataclass(slots=True, eq=False)
class Joinable:
    """What is kept of one interaction.

    Attributes:
        ids: By which it is found: trace id, sample id, run id.
        trace_id: Of its RAG span, or None.
        span_id: The same.
        decision: The sampler's, or None where it was never asked.
        build: Makes the sample; None where only the ids are kept.
        size: Characters that `build` keeps in memory.
        evaluated: Ids of the metrics that have an outcome other than `missing_input`.
        done: Set when its own evaluation is over; None where there is none.
        deadline: When it is forgotten, on the clock of its store.
    """

    ids: tuple[str, ...]
    trace_id: str | None = None
    span_id: str | None = None
    decision: Decision | None = None
    build: Callable[[], Sample] | None = None
    size: int = 0
    evaluated: frozenset[str] = frozenset()
    done: Future[None] | None = None
    deadline: float = field(default=0.0)

    def begin(self) -> None:
        """Its evaluation is to come."""
        self.done = Future()

    def finish(self) -> None:
        """Its evaluation is over, however it ended."""
        if self.done is not None and not self.done.done():
            self.done.set_result(None)


class Recent:
    """At most so many entries, with so much text, for so long. Thread-safe.

    The oldest leave first; where there is too much text, the oldest lose theirs and keep their ids.
    Of several entries with one id, as of two interactions in one trace, the latest is found.

    Args:
        size: Entries; 0 keeps none.
        chars: Characters of text in all of them.
        ttl: Seconds for each.
        clock: Monotonic seconds.
    """

    def __init__(
        self, size: int, chars: int, ttl: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._size = size
        self._chars = chars
        self._ttl = ttl
        self._clock = clock
        self._lock = threading.Lock()
        # In order of arrival, which is the order of their deadlines.
        self._entries: OrderedDict[Joinable, None] = OrderedDict()
        # Those of them with text, likewise.
        self._whole: OrderedDict[Joinable, None] = OrderedDict()
        self._by_id: dict[str, Joinable] = {}
        self._kept = 0

    @classmethod
    def of(cls, config: RagEvalConfig) -> Recent:
        """With the limits of the settings."""
        return cls(config.feedback_samples, limits.FEEDBACK_CHARS, limits.FEEDBACK_SECONDS)

    def __len__(self) -> int:
        """Entries kept."""
        return len(self._entries)

    @property
    def chars(self) -> int:
        """Characters kept."""
        return self._kept

    def add(self, entry: Joinable) -> None:
        """Keeps an entry; one with more text than there is room for is kept without it."""
        if not self._size:
            return
        if entry.size > self._chars:
            entry.build, entry.size = None, 0
        with self._lock:
            entry.deadline = self._clock() + self._ttl
            self._entries[entry] = None
            self._resize(entry, entry.build, entry.size, before=0)
            for name in entry.ids:
                self._by_id[name] = entry
            self._trim()

    def find(self, names: Iterable[str]) -> Joinable | None:
        """The latest entry with one of the ids, if it is still kept."""
        with self._lock:
            self._trim()
            found = (self._by_id.get(name) for name in names)
            return next((entry for entry in found if entry is not None), None)

    def update(
        self, entry: Joinable, sample: Sample, evaluated: Iterable[str], ids: Iterable[str] = ()
    ) -> None:
        """Notes what became of an entry's sample."""
        with self._lock:
            entry.evaluated |= frozenset(evaluated)
            if entry not in self._entries:
                return
            if sample.chars <= self._chars:
                self._resize(entry, lambda: sample, sample.chars, before=entry.size)
            else:
                self._resize(entry, None, 0, before=entry.size)
            self._name(entry, ids)
            self._trim()

    def strip(self, entry: Joinable, ids: Iterable[str] = ()) -> None:
        """Keeps no more than the ids of an entry."""
        with self._lock:
            if entry in self._entries:
                self._resize(entry, None, 0, before=entry.size)
                self._name(entry, ids)
            entry.build, entry.size = None, 0

    def _resize(
        self, entry: Joinable, build: Callable[[], Sample] | None, size: int, *, before: int
    ) -> None:
        self._kept += size - before
        entry.build, entry.size = build, size
        if size:
            self._whole[entry] = None
        else:
            self._whole.pop(entry, None)

    def _name(self, entry: Joinable, ids: Iterable[str]) -> None:
        for name in ids:
            if name not in entry.ids:
                entry.ids = (*entry.ids, name)
                self._by_id[name] = entry

    def _trim(self) -> None:
        now = self._clock()
        while self._entries:
            oldest = next(iter(self._entries))
            if len(self._entries) <= self._size and oldest.deadline > now:
                break
            self._forget(oldest)
        while self._kept > self._chars:
            oldest = next(iter(self._whole))
            self._resize(oldest, None, 0, before=oldest.size)

    def _forget(self, entry: Joinable) -> None:
        del self._entries[entry]
        self._kept -= entry.size
        self._whole.pop(entry, None)
        for name in entry.ids:
            if self._by_id.get(name) is entry:
                del self._by_id[name]
