"""One call that several wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from rag_eval_hooks.judges.calls.context import UsageMeter

__all__ = ["Flight"]

T = TypeVar("T")


class Flight(Generic[T]):
    """A call in a task of its own: it outlives who waits for it until nobody does.

    Args:
        call: Begun at once, in the running loop.
        spent: Where what it takes is put down.

    Attributes:
        spent: The same.
        ended: Whether nobody can wait for it any more.
    """

    def __init__(self, call: Coroutine[Any, Any, T], spent: UsageMeter) -> None:
        self.spent = spent
        self._task = asyncio.create_task(call)
        self._waiting = 0
        self._claimed = False
        self.ended = False

    async def result(self) -> T:
        """What the call gives or raises. Who is cancelled here does not end it for the others."""
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._task.cancel()
            self.ended = self._task.done() or not self._waiting

    def claim(self) -> bool:
        """Whether this is the first to ask: that one bears what the call took."""
        first, self._claimed = not self._claimed, True
        return first
