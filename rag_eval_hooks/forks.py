"""Fork hooks that end with their objects."""

from __future__ import annotations

import contextlib
import itertools
import os
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any, Final, TypeAlias

__all__ = ["at_fork"]

_Methods: TypeAlias = dict[int, tuple[weakref.ref[Any], Callable[[Any], None]]]

# The interpreter cannot unregister a hook, so it gets one of each kind for all objects.
_BEFORE: Final[_Methods] = {}
_IN_PARENT: Final[_Methods] = {}
_IN_CHILD: Final[_Methods] = {}
_NUMBERS: Final = itertools.count()


def at_fork(
    *,
    before: Callable[[], None] | None = None,
    in_parent: Callable[[], None] | None = None,
    in_child: Callable[[], None] | None = None,
) -> None:
    """Call methods at every fork, as long as their objects exist; a no-op without `os.fork`.

    Args:
        before: Bound method to call in the parent, before the fork; the latest object's first.
        in_parent: Bound method to call in the parent, after it.
        in_child: Bound method to call in the child.
    """
    for methods, method in ((_BEFORE, before), (_IN_PARENT, in_parent), (_IN_CHILD, in_child)):
        if method is not None:
            _add(methods, method)


def _add(methods: _Methods, method: Callable[[], None]) -> None:
    assert isinstance(method, MethodType)
    number = next(_NUMBERS)
    owner = weakref.ref(method.__self__, lambda _: methods.pop(number, None))
    methods[number] = owner, method.__func__


def _call(methods: _Methods, *, last_first: bool = False) -> None:
    # Copied at once: other threads make and drop objects meanwhile, and a lock could be held by
    # one that the child does not have.
    current = tuple(methods.values())
    # The stack calls them all, the last one first, though one of them raises.
    with contextlib.ExitStack() as calls:
        for reference, function in current if last_first else reversed(current):
            if (owner := reference()) is not None:
                calls.callback(function, owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _call(_BEFORE, last_first=True),
        after_in_parent=lambda: _call(_IN_PARENT),
        after_in_child=lambda: _call(_IN_CHILD),
    )
