"""A rate limit on sampled requests."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

_SECONDS: Final = {"second": 1.0, "minute": 60.0}
_REMEMBERED: Final = 60.0  # seconds until a rejected request is forgotten
_PAID: Final = 0.1  # fraction of unrepresented rejections that an admitted request represents
_NOTHING: Final = 0.01


class RateLimit:
    """A sliding-window limit. Thread-safe."""

    def __init__(
        self, limits: Mapping[str, int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._windows = [(_SECONDS[unit], deque[float](maxlen=n)) for unit, n in limits.items()]
        self.active = bool(limits)
        self._clock = clock
        self._lock = threading.Lock()
        self._share = AdmittedShare(clock)

    def admit(self) -> float | None:
        """Return the estimated fraction of admitted samples, or None for a rejection."""
        with self._lock:
            now = self._clock()
            admitted = all(
                len(times) != times.maxlen or times[0] <= now - span
                for span, times in self._windows
            )
            for _, times in self._windows if admitted else ():
                times.append(now)
        return self._share.count(admitted=admitted)


class AdmittedShare:
    """Estimates the fraction of admitted requests. Thread-safe.

    If each admitted request has the weight 1 / fraction, the weights add up to all requests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._owed = self._since = 0.0

    def count(self, *, admitted: bool) -> float | None:
        with self._lock:
            now = self._clock()
            if self._owed < _NOTHING or now - self._since > _REMEMBERED:
                self._owed = 0.0
            if not admitted:
                self._owed, self._since = self._owed + 1.0, now
                return None
            paid = self._owed * _PAID
            self._owed -= paid
            return 1.0 / (1.0 + paid)
