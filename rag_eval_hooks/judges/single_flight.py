"""Call shared by several waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from rag_eval_hooks.judges.calls.context import UsageMeter

__all__ = ["Flight"]

T = TypeVar("T")


class Flight(Generic[T]):
    """Call in a task of its own, which is cancelled when its last waiter is.

    Args:
        call: Started at once, in the running loop.
        spent: Sum of what the call takes.

    Attributes:
        spent: Sum of what the call takes.
        ended: True if no further waiter can join.
    """

    def __init__(self, call: Coroutine[Any, Any, T], spent: UsageMeter) -> None:
        self.spent = spent
        self._task = asyncio.create_task(call)
        self._waiting = 0
        self._claimed = False
        self.ended = False

    async def result(self) -> T:
        """Wait for the call; a waiter that is cancelled does not cancel it for the others."""
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._task.cancel()
            self.ended = self._task.done() or not self._waiting

    def claim(self) -> bool:
        """Return True to the first caller only, which bears the usage."""
        first, self._claimed = not self._claimed, True
        return first
