"""Maps that evict their oldest entries, and detection of requests that never finish."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Hashable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from rag_eval_hooks.capture.records import Interaction, RunKind

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_REMEMBERED_S = 60.0
"""Seconds for which the recorder keeps a finished run's id, to recognize late events."""
_MOST_IDS = 200_000
"""Maximum number of remembered ids of finished runs. The ids take tens of megabytes."""
_MAX_CHARS = 400_000_000
"""Maximum number of characters in all open requests."""


def remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    known[key] = value
    while len(known) > most and (first := _first(known)) is not None:
        known.pop(first[0], None)


def oldest(known: Mapping[K, V]) -> V | None:
    first = _first(known)
    return None if first is None else first[1]


def _first(known: Mapping[K, V]) -> tuple[K, V] | None:
    try:
        return next(iter(known.items()), None)
    except RuntimeError:
        # Another thread is changing the map and keeps it small.
        return None


class EndedIds:
    """Remembers ids of recently finished runs, to recognize late events. Lock-free."""

    def __init__(self) -> None:
        self._times: dict[Hashable, tuple[float, bool]] = {}

    def add(self, run_id: Hashable, *, is_root: bool = False) -> None:
        now = time.monotonic()
        remember(self._times, run_id, (now, is_root), _MOST_IDS)
        # Two per new entry, so that no entry stays forever.
        for _ in range(2):
            first = _first(self._times)
            if first is not None and now - first[1][0] >= _REMEMBERED_S:
                self._times.pop(first[0], None)

    def forget(self, run_id: Hashable) -> None:
        self._times.pop(run_id, None)

    def is_root(self, run_id: Hashable) -> bool:
        return self._times.get(run_id, (0.0, False))[1]

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._times


class OpenInteractions(dict[Hashable, Interaction]):
    def old(self, oldest_allowed: int) -> Iterator[Interaction]:
        while (first := oldest(self)) is not None and first.opened <= oldest_allowed:
            yield first

    def beyond(self, most: int) -> Iterator[Interaction]:
        while len(self) >= most and (first := oldest(self)) is not None:
            yield first

    def large(self) -> Iterator[Interaction]:
        held = [(one, one.chars) for one in list(self.values())]
        excess = sum(chars for _, chars in held) - _MAX_CHARS
        for interaction, chars in held:
            if excess <= 0:
                return
            excess -= chars
            yield interaction

    def left(self, most: int | None = None) -> Iterator[Interaction]:
        opened: list[Interaction] = []
        with contextlib.suppress(RuntimeError):
            opened = list(islice(self.values(), most))
        yield from filter(_is_left, opened)


def _is_left(interaction: Interaction) -> bool:
    """Return whether the task that started an open request can no longer finish the request."""
    held = interaction.task
    if held is None:
        return False
    if not isinstance(held, asyncio.AbstractEventLoop):
        if not held.done():
            return False
        if held.cancelled() or interaction.root.kind is RunKind.MODEL:
            return True
        # The call's result may be the reporting object.
        interaction.task = held = held.get_loop()
    return held.is_closed() or (interaction.id is not None and interaction.id() is None)
