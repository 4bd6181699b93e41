"""Maps that forget their oldest entries."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from typing import TypeVar

__all__ = ["EndedIds", "oldest", "remember"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_REMEMBERED_S = 60.0
"""Seconds for which late events of an ended run are recognized."""
_MOST_IDS = 200_000
"""Ids of ended runs; some tens of megabytes at most."""


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
