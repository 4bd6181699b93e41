"""How many calls to one judge are in flight: as many as it answers, none when it is dead."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rag_eval_hooks.calls import GateState
from rag_eval_hooks.errors import JudgeUnavailable
from rag_eval_hooks.judges.calls.breaker import Breaker
from rag_eval_hooks.judges.calls.call_health import Told, asked_pause, told_by

__all__ = ["Gate", "GateState"]

_logger = logging.getLogger("rag_eval_hooks")
_DECREASE = 0.5


class Gate:
    """Lets calls through, in one event loop, in the order in which they came.

    The limit falls by half at a 429 and at a time-out, at most once for all the calls that were
    in flight together, and grows by one for every full round of replies. What a server asks for
    by Retry-After holds for all calls, probes included. While the breaker is open, nobody waits.

    Args:
        most: Calls in flight at once, at most; it begins with this.
        breaker: Tells when the judge is dead.
    """

    def __init__(self, most: int, breaker: Breaker) -> None:
        self._most = most
        self._breaker = breaker
        self._limit = float(most)
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._decreased_at = 0.0
        self._paused_until = 0.0

    def state(self) -> GateState:
        """As of now."""
        waiting = len(self._waiting)
        return GateState(int(self._limit), self._in_flight, waiting, self._breaker.state)

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Room for one call; what it raises tells how the judge is.

        Raises:
            JudgeUnavailable: The breaker is open, or opened while the call waited.
        """
        probe = await self._enter()
        began = time.monotonic()
        try:
            yield
        except BaseException as error:
            self._learn(told_by(error), began, probe)
            self._pause(asked_pause(error))
            raise
        else:
            self._learn(Told.REPLIED, began, probe)
        finally:
            self._in_flight -= 1
            self._let_in()

    async def _enter(self) -> bool:
        """Waits for room; tells whether the call is a probe."""
        if not self._breaker.is_closed:
            if self._is_paused() or not self._breaker.probe():
                raise JudgeUnavailable(_UNAVAILABLE)
            self._in_flight += 1
            return True
        if not self._waiting and self._has_room():
            self._in_flight += 1
            return False
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._cancelled(turn)
            raise
        if not self._breaker.is_closed:
            # It opened between the call's being let in and now.
            self._in_flight -= 1
            raise JudgeUnavailable(_UNAVAILABLE)
        return False

    def _cancelled(self, turn: asyncio.Future[None]) -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif turn.done() and not turn.cancelled() and turn.exception() is None:
            # It had been let in at the same moment.
            self._in_flight -= 1
            self._let_in()

    def _has_room(self) -> bool:
        return self._in_flight < int(self._limit) and not self._is_paused()

    def _is_paused(self) -> bool:
        return time.monotonic() < self._paused_until

    def _let_in(self) -> None:
        while self._waiting and self._has_room():
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)

    def _learn(self, told: Told, began: float, probe: bool) -> None:
        if told is Told.NOTHING:
            if probe:
                self._breaker.gave_up()
            return
        if told in (Told.BUSY, Told.SLOW):
            self._decrease(began)
        elif told is Told.REPLIED:
            self._limit = min(float(self._most), self._limit + 1.0 / self._limit)
        if told in (Told.REPLIED, Told.BUSY):
            self._replied()
        elif self._breaker.failed(probe=probe):
            self._refuse_all()

    def _decrease(self, began: float) -> None:
        if began >= self._decreased_at:
            self._decreased_at = time.monotonic()
            self._limit = max(1.0, self._limit * _DECREASE)

    def _replied(self) -> None:
        if not self._breaker.is_closed:
            _logger.warning("a judge answers again")
            # Those who come back come one by one, not all at once.
            self._limit = 1.0
        self._breaker.replied()

    def _refuse_all(self) -> None:
        _logger.warning("a judge does not answer: its calls fail at once until a probe succeeds")
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(JudgeUnavailable(_UNAVAILABLE))

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        if seconds > 0.0 and until > self._paused_until:
            self._paused_until = until
            # Not a moment too early, or those who wait are not woken again.
            asyncio.get_running_loop().call_later(seconds + 0.001, self._let_in)


_UNAVAILABLE = "the judge failed too often in a row; it is asked again after a pause"
