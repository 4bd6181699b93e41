"""Waits for what happens in other threads and processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

__all__ = ["PATIENCE", "until", "until_async"]

PATIENCE = 300.0
"""Seconds that a test waits for what should happen at once: a busy machine is no failure."""


def until(condition: Callable[[], object], what: str = "the condition") -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true in {PATIENCE:.0f} s"
        time.sleep(0.01)


async def until_async(condition: Callable[[], object], what: str = "the condition") -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true in {PATIENCE:.0f} s"
        await asyncio.sleep(0.01)
