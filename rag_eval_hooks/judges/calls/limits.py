"""Limits on the calls to one model: how many at once, and none while it is down."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from rag_eval_hooks.calls import BreakerState, GateState
from rag_eval_hooks.errors import ConfigError, JudgeUnavailable
from rag_eval_hooks.judges.calls.failures import JudgeHealth, health_of, requested_pause

__all__ = ["Breaker", "CallLimits", "Gate"]

_logger = logging.getLogger("rag_eval_hooks")

_LONGEST_PAUSE: Final = 6
"""Bound of the breaker's pause, in multiples of its first length."""
_UNAVAILABLE: Final = "the judge failed too often in a row; it is asked again after a pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Limits of calls to a model.

    Attributes:
        timeout: Seconds for one try of a call.
        retries: Further tries that the client makes after a 429, a 5xx or a timeout.
        concurrency: Most calls in flight at once; fewer while the endpoint is overloaded.
        breaker_failures: Failures in a row after which no call is made for a while.
        breaker_pause: Seconds of that while; doubles up to six times as long.

    Raises:
        ConfigError: A limit is out of range.
    """

    timeout: float = 60.0
    retries: int = 0
    concurrency: int = 16
    # Above the default concurrency: one bad moment of all calls in flight does not open it.
    breaker_failures: int = 20
    breaker_pause: float = 10.0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        for name in ("timeout", "breaker_pause"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(name, getattr(self, name), "seconds, above 0")
        for name, least in (("retries", 0), ("concurrency", 1), ("breaker_failures", 1)):
            if getattr(self, name) < least:
                raise ConfigError(name, getattr(self, name), f"a whole number, {least} or more")

    @classmethod
    def taken_from(cls, keywords: dict[str, Any]) -> Self:
        """Make limits of the keywords that are fields, and remove these; None is the default."""
        given = {f.name: keywords.pop(f.name) for f in fields(cls) if f.name in keywords}
        return cls(**{name: value for name, value in given.items() if value is not None})


class Breaker:
    """Circuit breaker: opens after failures in a row, then lets one probe through at a time.

    Any reply closes it, even the reply to a call that was sent before it opened.

    Args:
        failures: Failures in a row that open it.
        pause: Seconds until the first probe; each failed probe doubles it, up to six times.
        clock: Returns seconds.
    """

    def __init__(
        self, failures: int, pause: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_failures = failures
        self._first_pause = self._pause = pause
        self._clock = clock
        self._failures = 0
        self._open_until: float | None = None
        self._probing = False

    @property
    def state(self) -> BreakerState:
        """Present state."""
        if self._open_until is None:
            return BreakerState.CLOSED
        due = self._probing or self._clock() >= self._open_until
        return BreakerState.HALF_OPEN if due else BreakerState.OPEN

    @property
    def is_closed(self) -> bool:
        """True if any number of calls may be made."""
        return self._open_until is None

    def probe(self) -> bool:
        """Claim the one call that may go through now; False if there is none to claim."""
        if self._probing or self.state is not BreakerState.HALF_OPEN:
            return False
        self._probing = True
        return True

    def replied(self) -> None:
        """Count a call that was answered."""
        self._failures = 0
        self._pause = self._first_pause
        self._open_until = None
        self._probing = False

    def failed(self, *, probe: bool) -> bool:
        """Count a call that was not answered; return True if this failure opened the breaker.

        Args:
            probe: True if the call was the probe.
        """
        self._failures += 1
        if probe:
            self._probing = False
            self._pause = min(2 * self._pause, _LONGEST_PAUSE * self._first_pause)
        elif self._open_until is not None or self._failures < self._max_failures:
            return False
        self._open_until = self._clock() + self._pause
        return not probe

    def abandon_probe(self) -> None:
        """Allow another probe after one that showed nothing about the judge."""
        self._probing = False


class Gate:
    """Limit of concurrent calls with a circuit breaker, for one event loop.

    Calls go through in the order in which they came. A 429 or a timeout halves the limit, once for
    all calls that were in flight together, and each reply raises it by its inverse (AIMD). A pause
    that the server asks for by Retry-After holds for all calls. While the breaker is open, calls
    fail at once.

    Args:
        limits: Concurrency to start with and never to exceed, and the breaker's limits.
    """

    def __init__(self, limits: CallLimits) -> None:
        self._breaker = Breaker(limits.breaker_failures, limits.breaker_pause)
        self._max = limits.concurrency
        self._limit = float(limits.concurrency)
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._decreased_at = 0.0
        self._paused_until = 0.0

    def state(self) -> GateState:
        """Return the present state; may be called from any thread."""
        waiting = len(self._waiting)
        return GateState(int(self._limit), self._in_flight, waiting, self._breaker.state)

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Wait for a slot, and learn from how the call in the block ends.

        Raises:
            JudgeUnavailable: The breaker is open, or opened while the call waited.
        """
        probe = await self._enter()
        began = time.monotonic()
        try:
            yield
        except BaseException as error:
            self._learn(health_of(error), began, probe, requested_pause(error))
            raise
        else:
            self._learn(JudgeHealth.WELL, began, probe, 0.0)
        finally:
            self._in_flight -= 1
            self._admit()

    async def _enter(self) -> bool:
        """Wait for a slot; return True for a probe."""
        if not self._breaker.is_closed:
            if self._is_paused() or not self._breaker.probe():
                raise JudgeUnavailable(_UNAVAILABLE)
            self._in_flight += 1
            return True
        if not self._waiting and self._has_slot():
            self._in_flight += 1
            return False
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._leave(turn)
            raise
        if not self._breaker.is_closed:
            # It opened after this call was admitted and before it ran.
            self._in_flight -= 1
            raise JudgeUnavailable(_UNAVAILABLE)
        return False

    def _leave(self, turn: asyncio.Future[None]) -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif turn.done() and not turn.cancelled() and turn.exception() is None:
            # It was admitted at the same moment.
            self._in_flight -= 1
            self._admit()

    def _has_slot(self) -> bool:
        return self._in_flight < int(self._limit) and not self._is_paused()

    def _is_paused(self) -> bool:
        return time.monotonic() < self._paused_until

    def _admit(self) -> None:
        while self._waiting and self._has_slot():
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)

    def _learn(self, health: JudgeHealth, began: float, probe: bool, pause: float) -> None:
        if health is JudgeHealth.UNKNOWN:
            if probe:
                self._breaker.abandon_probe()
            return
        if health in (JudgeHealth.BUSY, JudgeHealth.SLOW):
            self._decrease(began)
        if health in (JudgeHealth.WELL, JudgeHealth.BUSY):
            self._replied(health)
        elif self._breaker.failed(probe=probe):
            self._refuse_waiting()
        self._pause(pause)

    def _decrease(self, began: float) -> None:
        # The latest cut was for the calls that were in flight with it, too.
        if began >= self._decreased_at:
            self._decreased_at = time.monotonic()
            self._limit = max(1.0, self._limit / 2)

    def _replied(self, health: JudgeHealth) -> None:
        if not self._breaker.is_closed:
            _logger.warning("a judge answers again")
            # The waiting calls come back one by one, not all at once.
            self._limit = 1.0
        elif health is JudgeHealth.WELL:
            self._limit = min(float(self._max), self._limit + 1.0 / self._limit)
        self._breaker.replied()

    def _refuse_waiting(self) -> None:
        _logger.warning("a judge does not answer: its calls fail at once until a probe succeeds")
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(JudgeUnavailable(_UNAVAILABLE))

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        if seconds > 0.0 and until > self._paused_until:
            self._paused_until = until
            # Slightly late: a call that is woken too early would never be woken again.
            asyncio.get_running_loop().call_later(seconds + 0.001, self._admit)
