"""When a process that ended may be started again."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Restarts"]

_FIRST = 1.0
_LONGEST = 30.0
_LASTED = 60.0


class Restarts:
    """Backoff between starts: none after the first end, then 1 s, doubled up to 30 s.

    A process that lasted a minute clears the account of those before it.

    Args:
        now: Seconds of a clock that never goes back.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._starts = 0
        self._started = 0.0
        self._ended = 0.0

    def started(self) -> None:
        """Enters a start."""
        self._starts += 1
        self._started = self._now()

    def ended(self) -> None:
        """Enters an end."""
        self._ended = self._now()
        if self._ended - self._started >= _LASTED:
            self._starts = 1

    def wait(self) -> float:
        """Seconds from now until the next start."""
        if self._starts < 2:
            return 0.0
        # The exponent is bounded: a float cannot hold the power of a long history.
        pause = min(_LONGEST, _FIRST * 2.0 ** min(self._starts - 2, 10))
        return max(0.0, self._ended + pause - self._now())
