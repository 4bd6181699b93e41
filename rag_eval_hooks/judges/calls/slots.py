"""How many calls at once, how long each, how often again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from rag_eval_hooks.calls import Call, Caller, GateState, current_watch
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.calls.breaker import Breaker
from rag_eval_hooks.judges.calls.gate import Gate
from rag_eval_hooks.judges.calls.observe_call import told

__all__ = [
    "BREAKER_FAILURES",
    "BREAKER_PAUSE",
    "Limits",
    "Slots",
    "check_breaker",
    "check_limits",
]

BREAKER_FAILURES = 20
"""More than are in flight at once by default: one bad moment of all of them does not open it."""
BREAKER_PAUSE = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of calls to a model.

    Attributes:
        timeout: Seconds for one call, from sending to the reply's end; retries count anew.
        retries: Further tries after a 429, a 5xx or a time-out.
        concurrency: Calls in flight at once, at most: fewer after a 429 or a time-out.
        breaker_failures: In a row, after which no call is made for a while.
        breaker_pause: Seconds of that while; it doubles up to six times as long.
    """

    timeout: float = 60.0
    retries: int = 0
    concurrency: int = 16
    breaker_failures: int = BREAKER_FAILURES
    breaker_pause: float = BREAKER_PAUSE

    def __post_init__(self) -> None:
        """Refuses limits that nothing fits.

        Raises:
            ConfigError: One is out of range.
        """
        check_limits(self.timeout, self.retries, self.concurrency)
        check_breaker(self.breaker_failures, self.breaker_pause)


def check_breaker(failures: int, pause: float) -> None:
    """Refuses limits that nothing fits.

    Raises:
        ConfigError: One is out of range.
    """
    if failures < 1:
        raise ConfigError("breaker_failures", failures, "a whole number, 1 or more")
    if not 0 < pause < float("inf"):
        raise ConfigError("breaker_pause", pause, "seconds, above 0")


def check_limits(timeout: float, retries: int, concurrency: int) -> None:
    """Refuses limits that nothing fits.

    Raises:
        ConfigError: One is out of range.
    """
    if not 0 < timeout < float("inf"):
        raise ConfigError("timeout", timeout, "seconds, above 0")
    if retries < 0:
        raise ConfigError("retries", retries, "a whole number, 0 or more")
    if concurrency < 1:
        raise ConfigError("concurrency", concurrency, "a whole number, 1 or more")


class Slots:
    """Calls in flight at once; each event loop has its own, as waiting calls cannot move.

    Args:
        caller: Who is called.
        count: How many at most.
        failures: In a row, after which no call is made for a while.
        pause: Seconds of that while, at first.
    """

    def __init__(
        self,
        caller: Caller,
        count: int,
        *,
        failures: int = BREAKER_FAILURES,
        pause: float = BREAKER_PAUSE,
    ) -> None:
        self._caller = caller
        self._count = count
        self._failures = failures
        self._pause = pause
        self._here: WeakKeyDictionary[asyncio.AbstractEventLoop, Gate] = WeakKeyDictionary()

    @asynccontextmanager
    async def here(self) -> AsyncIterator[Call]:
        """Room for one call in the running loop; whoever listens is told of it.

        Raises:
            JudgeUnavailable: The judge is taken for dead.
        """
        gate = self._gate()
        if (watch := current_watch()) is not None:
            watch.passes(self._caller, gate)
        async with gate.call():
            with told(self._caller) as call:
                yield call

    def states(self) -> list[GateState]:
        """How calls stand, in each event loop."""
        return [gate.state() for gate in list(self._here.values())]

    def _gate(self) -> Gate:
        loop = asyncio.get_running_loop()
        gate = self._here.get(loop)
        if gate is None:
            breaker = Breaker(self._failures, self._pause)
            gate = self._here[loop] = Gate(self._count, breaker)
        return gate
