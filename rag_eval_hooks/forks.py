"""What a fork must find closed, and hooks that keep nothing alive."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

__all__ = ["ForkGuard", "weakly"]

_PATIENCE_S: Final = 2.0
"""How long a fork waits for what is being done under a guard."""


class ForkGuard:
    """A lock around what must not cross a fork, such as a connection to SQLite.

    In the process SQLite remembers which locks it holds on a file. A child inherits that, and not
    the locks, whether it uses the connection or opens another.

    Args:
        let_go: A method that closes it, called with the lock held before every fork. What it is
            a method of is not kept alive.
    """

    def __init__(self, let_go: Callable[[], None]) -> None:
        self._let_go = weakly(let_go)
        self._lock = threading.Lock()
        self._forking = False
        if hasattr(os, "register_at_fork"):
            # Fork hooks cannot be taken back.
            os.register_at_fork(
                before=weakly(self._before),
                after_in_parent=weakly(self._after),
                after_in_child=weakly(self._renew),
            )

    def __enter__(self) -> None:
        """Takes the lock."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Gives it back."""
        self._lock.release()

    def _before(self) -> None:
        self._forking = self._lock.acquire(timeout=_PATIENCE_S)
        if self._forking:
            self._let_go()

    def _after(self) -> None:
        if self._forking:
            self._forking = False
            self._lock.release()

    def _renew(self) -> None:
        # Whoever had it may be a thread of the parent's.
        self._lock = threading.Lock()
        self._forking = False


def weakly(method: Callable[[], None]) -> Callable[[], None]:
    """Calls a method of an object that it does not keep alive."""
    reference = weakref.WeakMethod(method)

    def call() -> None:
        if (alive := reference()) is not None:
            alive()

    return call
