"""Rate limit on chosen samples, with an estimate of the share that it admits."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["RateLimit"]

_SECONDS: Final = {"second": 1.0, "minute": 60.0}
_ESTIMATED_OVER: Final = 60
"""Seconds over which the admitted share is estimated."""


class RateLimit:
    """Sliding-window limit. Thread-safe, O(1).

    The limit is exact: no interval of a window's length contains more samples than allowed. Under
    load it loses no more than the time between the expiry of one sample and the next request: at
    ten times the load, a limit of n admits n / (1 + 1 / 10n). Earlier samples are preferred; a
    limit for the minute alone may admit all of them in its first second.

    Common libraries count in fixed windows, which admit twice the limit across a window's edge,
    or read the wall clock, which may be set back.

    Args:
        limits: Samples at most by `second` and `minute`; empty for no limit.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self, limits: Mapping[str, int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._windows = [(_SECONDS[unit], deque[float](maxlen=n)) for unit, n in limits.items()]
        self._clock = clock
        self._lock = threading.Lock()
        self._share = _AdmittedShare()

    @property
    def active(self) -> bool:
        """True if there is a limit."""
        return bool(self._windows)

    def admit(self) -> float | None:
        """Admit a sample, if no window is full.

        Returns:
            Recently admitted share, in (0, 1], with this sample included; None if it is refused.
        """
        with self._lock:
            now = self._clock()
            admitted = all(_admits(times, now - span) for span, times in self._windows)
            if admitted:
                for _, times in self._windows:
                    times.append(now)
            self._share.count(int(now), admitted=admitted)
            return self._share.value if admitted else None


def _admits(times: deque[float], expired_until: float) -> bool:
    return len(times) != times.maxlen or times[0] <= expired_until


class _AdmittedShare:
    """Share of samples admitted over the last seconds, in steps of one second."""

    def __init__(self) -> None:
        self._steps: deque[list[int]] = deque()
        self._asked = self._admitted = 0

    @property
    def value(self) -> float:
        return self._admitted / self._asked

    def count(self, second: int, *, admitted: bool) -> None:
        if not self._steps or self._steps[-1][0] != second:
            self._steps.append([second, 0, 0])
            while self._steps[0][0] <= second - _ESTIMATED_OVER:
                _, asked, let_in = self._steps.popleft()
                self._asked -= asked
                self._admitted -= let_in
        self._steps[-1][1] += 1
        self._steps[-1][2] += admitted
        self._asked += 1
        self._admitted += admitted
