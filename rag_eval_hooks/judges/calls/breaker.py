"""When a judge is asked no more, and when again."""

from __future__ import annotations

import time
from collections.abc import Callable

from rag_eval_hooks.calls import BreakerState

__all__ = ["Breaker", "BreakerState"]

_LONGEST = 6
"""The pause doubles with each probe that fails, up to so many times its first length."""


class Breaker:
    """Opens after some failures in a row; after a pause lets one call through, as a probe.

    Any reply closes it, also that of a call from before it opened.

    Args:
        failures: In a row, that open it.
        pause: Seconds until the first probe.
        clock: Gives seconds.
    """

    def __init__(
        self, failures: int, pause: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = failures
        self._first_pause = pause
        self._clock = clock
        self._failures = 0
        self._pause = pause
        self._open_until: float | None = None
        self._probing = False

    @property
    def state(self) -> BreakerState:
        """As of now."""
        if self._open_until is None:
            return BreakerState.CLOSED
        due = self._probing or self._clock() >= self._open_until
        return BreakerState.HALF_OPEN if due else BreakerState.OPEN

    @property
    def is_closed(self) -> bool:
        """Whether calls may be made, any number."""
        return self._open_until is None

    def probe(self) -> bool:
        """Whether the caller may make the one call that is let through now."""
        if self._probing or self.state is not BreakerState.HALF_OPEN:
            return False
        self._probing = True
        return True

    def replied(self) -> None:
        """A call was answered."""
        self._failures = 0
        self._pause = self._first_pause
        self._open_until = None
        self._probing = False

    def failed(self, *, probe: bool) -> bool:
        """A call was not answered.

        Args:
            probe: Whether it was the probe.

        Returns:
            Whether this opened the breaker.
        """
        self._failures += 1
        if probe:
            self._probing = False
            self._pause = min(2 * self._pause, _LONGEST * self._first_pause)
        elif self._open_until is not None or self._failures < self._most:
            return False
        self._open_until = self._clock() + self._pause
        return not probe

    def gave_up(self) -> None:
        """The probe ended without telling anything: another may be made."""
        self._probing = False
