"""At most so many samples in any second and in any minute, and the share that this lets through."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["RateLimit"]

_SECONDS: Final = {"second": 1.0, "minute": 60.0}
_REMEMBERED: Final = 60
"""Seconds over which the admitted share is estimated."""


class RateLimit:
    """Lets through at most so many in any window of time. Thread-safe, O(1).

    Exact: the window slides, so no stretch of its length holds more than the limit. Under load it
    lacks no more than the time between a place's becoming free and the next request: at ten times
    the load, a limit of n admits n / (1 + 1 / 10n). The first to come are let through; a limit
    for the minute alone may let all of them through in its first second.

    Libraries for this count by fixed windows, which let twice the limit through at their border,
    or read the wall clock, which may be set back.

    Args:
        limits: Samples by `second` and `minute`; none means no limit.
        clock: Monotonic seconds.
    """

    def __init__(
        self, limits: Mapping[str, int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._windows = [(_SECONDS[unit], deque[float](maxlen=n)) for unit, n in limits.items()]
        self._clock = clock
        self._lock = threading.Lock()
        self._share = _Share()

    @property
    def active(self) -> bool:
        """Whether there is a limit."""
        return bool(self._windows)

    def admit(self) -> float | None:
        """Asks to be let through.

        Returns:
            The share that was let through of late, this one included, in (0, 1]; None for no.
        """
        with self._lock:
            now = self._clock()
            admitted = all(_has_room(log, now - span) for span, log in self._windows)
            if admitted:
                for _, log in self._windows:
                    log.append(now)
            self._share.count(int(now), admitted=admitted)
            return self._share.value if admitted else None


def _has_room(log: deque[float], before: float) -> bool:
    return len(log) != log.maxlen or log[0] <= before


class _Share:
    """The admitted share over the last seconds, in steps of a second."""

    def __init__(self) -> None:
        self._steps: deque[list[int]] = deque()
        self._asked = self._admitted = 0

    @property
    def value(self) -> float:
        return self._admitted / self._asked

    def count(self, second: int, *, admitted: bool) -> None:
        if not self._steps or self._steps[-1][0] != second:
            self._steps.append([second, 0, 0])
            while self._steps[0][0] <= second - _REMEMBERED:
                _, asked, let_in = self._steps.popleft()
                self._asked -= asked
                self._admitted -= let_in
        self._steps[-1][1] += 1
        self._steps[-1][2] += admitted
        self._asked += 1
        self._admitted += admitted
