"""Fork hooks that do not keep objects alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable

__all__ = ["weakly"]


def weakly(method: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls a method without keeping the method's object alive."""
    reference = weakref.WeakMethod(method)

    def call() -> None:
        if (alive := reference()) is not None:
            alive()

    return call
