"""Waits for what happens in other threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["until"]

_LONGEST_S = 30.0


def until(condition: Callable[[], object]) -> None:
    """Returns once the condition holds.

    Raises:
        AssertionError: It did not within half a minute.
    """
    deadline = time.monotonic() + _LONGEST_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)
