"""Maps that forget their oldest entries, and interactions whose end never comes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Hashable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from rag_eval_hooks.capture.records import Interaction, RunKind

__all__ = ["EndedIds", "OpenInteractions", "oldest", "remember"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_REMEMBERED_S = 60.0
"""Seconds for which late events of an ended run are recognized."""
_MOST_IDS = 200_000
"""Ids of ended runs; some tens of megabytes at most."""
_MAX_CHARS = 400_000_000
"""Characters of text that all open interactions may hold together."""


def remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    """Set an entry of a map of at most `most`; the oldest entries are forgotten."""
    known[key] = value
    while len(known) > most:
        try:
            known.pop(next(iter(known)), None)
        except (StopIteration, RuntimeError):
            # Another thread changes the map at this moment, and keeps it small.
            return


def oldest(known: Mapping[K, V]) -> V | None:
    """Return the first value in order of arrival.

    Returns:
        None for a mapping without it, or while another thread changes the mapping.
    """
    try:
        return next(iter(known.values()))
    except (StopIteration, RuntimeError):
        return None


class EndedIds:
    """Ids of ended runs, for a time: later events of these runs are late. Takes no lock."""

    def __init__(self) -> None:
        self._times: dict[Hashable, tuple[float, bool]] = {}

    def add(self, run_id: Hashable, *, is_root: bool = False) -> None:
        """Add an id, and forget those whose time is over."""
        now = time.monotonic()
        remember(self._times, run_id, (now, is_root), _MOST_IDS)
        # Two for each new entry, so that no entry stays.
        for _ in range(2):
            try:
                first, (ended, _) = next(iter(self._times.items()))
            except (StopIteration, RuntimeError):
                return
            if now - ended < _REMEMBERED_S:
                return
            self._times.pop(first, None)

    def forget(self, run_id: Hashable) -> None:
        """Remove an id: its name is used again."""
        self._times.pop(run_id, None)

    def is_root(self, run_id: Hashable) -> bool:
        """Return whether an id is that of a root."""
        return self._times.get(run_id, (0.0, False))[1]

    def __contains__(self, run_id: object) -> bool:
        """Return whether a run is known to have ended."""
        return run_id in self._times


class OpenInteractions(dict[Hashable, Interaction]):
    """Open interactions by the id of their root, in order of start. Takes no lock.

    Whoever takes one out reports it: a root's end and a sweep may race.
    """

    def old(self, oldest_allowed: int) -> Iterator[Interaction]:
        """Yield interactions that started too long ago, each until it is taken out."""
        while (first := oldest(self)) is not None and first.opened <= oldest_allowed:
            yield first

    def beyond(self, most: int) -> Iterator[Interaction]:
        """Yield the oldest interactions while there are too many, each until it is taken out."""
        while len(self) >= most and (first := oldest(self)) is not None:
            yield first

    def large(self) -> Iterator[Interaction]:
        """Yield the oldest interactions while all together hold too much text."""
        held = [(one, one.chars) for one in list(self.values())]
        excess = sum(chars for _, chars in held) - _MAX_CHARS
        for interaction, chars in held:
            if excess <= 0:
                return
            excess -= chars
            yield interaction

    def left(self, most: int | None = None) -> Iterator[Interaction]:
        """Yield interactions that were cancelled without an event, among the first ones."""
        opened: list[Interaction] = []
        with contextlib.suppress(RuntimeError):
            opened = list(islice(self.values(), most))
        yield from filter(_is_left, opened)


def _is_left(interaction: Interaction) -> bool:
    """Return whether the task that began an open interaction will never end it.

    A stream may be read on by another task. A model's call by itself is never a sample, so that
    any end of its task is its end. A batch reports its beginning in a task of its own, which shows
    no cancellation: it goes on while somebody holds what its end is reported by.
    """
    held = interaction.task
    if held is None:
        return False
    if not isinstance(held, asyncio.AbstractEventLoop):
        if not held.done():
            return False
        if held.cancelled() or interaction.root.kind is RunKind.MODEL:
            return True
        # What it returned may be what the end is reported by.
        interaction.task = held = held.get_loop()
    return held.is_closed() or (interaction.id is not None and interaction.id() is None)
