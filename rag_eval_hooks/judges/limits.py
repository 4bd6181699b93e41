"""How many calls at once, how long each, how often again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from rag_eval_hooks.errors import ConfigError

__all__ = ["Limits", "Slots", "check_limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of calls to a model.

    Attributes:
        timeout: Seconds for one call, from sending to the reply's end; retries count anew.
        retries: Further tries after a 429, a 5xx or a time-out.
        concurrency: Calls in flight at once.
    """

    timeout: float = 60.0
    retries: int = 0
    concurrency: int = 16

    def __post_init__(self) -> None:
        """Refuses limits that nothing fits.

        Raises:
            ConfigError: One is out of range.
        """
        check_limits(self.timeout, self.retries, self.concurrency)


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
    """Calls in flight at once; each event loop has its own, as semaphores cannot move.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._here: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    def here(self) -> asyncio.Semaphore:
        """The slots of the running loop, to be entered by `async with`."""
        return self._here.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._count))
