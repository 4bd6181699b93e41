"""Limits calls to one model with a concurrency gate and a circuit breaker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, Self

from rag_eval_hooks.errors import ConfigError, JudgeUnavailable, check_count
from rag_eval_hooks.judges.calls.failures import answers

_logger = logging.getLogger("rag_eval_hooks")

MAX_FAILURES = 20  # consecutive failures that open the breaker
FIRST_PAUSE = 10.0  # seconds of the first pause; each pause doubles, up to 60 seconds
_UNAVAILABLE: Final = "too many judge calls failed in a row; calls resume after a pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Limits of calls to one model. `timeout` is in seconds per attempt."""

    timeout: float = 60.0
    retries: int = 0
    concurrency: int = 16

    def __post_init__(self) -> None:
        if not 0 < self.timeout < float("inf"):
            raise ConfigError("timeout", self.timeout, "seconds, above 0")
        check_count("retries", self.retries, 0)
        check_count("concurrency", self.concurrency)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        return cls(**{name: value for name, value in options.items() if value is not None})

    @classmethod
    def split(cls, options: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        others = dict(options)
        own = {one.name: others.pop(one.name) for one in fields(cls) if one.name in options}
        return cls.of(own), others


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"  # one probe call may pass


class Breaker:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._close()

    def _close(self) -> None:
        self._pause, self._failures = FIRST_PAUSE, 0
        self._open_until: float | None = None
        self._probing = False

    @property
    def state(self) -> BreakerState:
        if self._open_until is None:
            return BreakerState.CLOSED
        due = self._probing or self._clock() >= self._open_until
        return BreakerState.HALF_OPEN if due else BreakerState.OPEN

    def probe(self) -> bool:
        is_free = not self._probing and self.state is BreakerState.HALF_OPEN
        self._probing = self._probing or is_free
        return is_free

    def record_call(self, *, answered: bool | None, probe: bool) -> None:
        self._probing = self._probing and not probe
        if answered:
            if self._open_until is not None:
                _logger.warning("A judge call succeeded. Calls resume.")
            self._close()
        elif answered is False:
            self._failures += 1
            if probe:
                self._pause = min(2 * self._pause, 6 * FIRST_PAUSE)
            elif self._open_until is not None or self._failures < MAX_FAILURES:
                return
            else:
                _logger.warning(
                    "Many judge calls failed. New calls fail at once until a test call succeeds."
                )
            self._open_until = self._clock() + self._pause


class Gate:
    def __init__(self, limits: CallLimits) -> None:
        self.breaker = Breaker()
        self._slots = asyncio.Semaphore(limits.concurrency)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        if self.breaker.state is BreakerState.OPEN:
            raise JudgeUnavailable(_UNAVAILABLE)
        async with self._slots:
            probe, answered = self.breaker.probe(), None
            if not probe and self.breaker.state is not BreakerState.CLOSED:
                raise JudgeUnavailable(_UNAVAILABLE)
            try:
                yield
                answered = True
            except BaseException as error:
                answered = answers(error)
                raise
            finally:
                self.breaker.record_call(answered=answered, probe=probe)
