"""Fork hooks that do not keep objects alive."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

__all__ = ["at_fork"]


def at_fork(
    *,
    before: Callable[[], None] | None = None,
    in_parent: Callable[[], None] | None = None,
    in_child: Callable[[], None] | None = None,
) -> None:
    """Call methods at every fork, as long as their objects exist; a no-op without `os.fork`.

    Args:
        before: Bound method to call in the parent, before the fork.
        in_parent: Bound method to call in the parent, after it.
        in_child: Bound method to call in the child.
    """
    if not hasattr(os, "register_at_fork"):
        return
    methods = {"before": before, "after_in_parent": in_parent, "after_in_child": in_child}
    # Fork hooks cannot be unregistered.
    os.register_at_fork(**{name: _weakly(m) for name, m in methods.items() if m is not None})


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls a method without keeping the method's object alive."""
    reference = weakref.WeakMethod(method)

    def call() -> None:
        if (alive := reference()) is not None:
            alive()

    return call
