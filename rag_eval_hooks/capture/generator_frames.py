"""Which block of code is being executed, where context variables cannot tell.

A generator shares the context of its consumer: what it sets stays set while it is suspended. Its
frame is on the stack only while it runs.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from types import FrameType

__all__ = ["caller_outside", "is_suspended_at_will", "stack"]

_OURS = __name__.rpartition(".")[0] + "."
_HELPERS = contextlib.__name__


def stack() -> Iterator[FrameType]:
    """The frames of the caller, innermost first; none where Python does not tell them."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def caller_outside() -> FrameType | None:
    """The frame in which the block stands that is being opened.

    Of a block that a `contextmanager` of the application opens, that is the frame which uses it.
    """
    outside: FrameType | None = None
    for frame in stack():
        module = frame.f_globals.get("__name__", "")
        if outside is None:
            outside = None if module.startswith(_OURS) or module == _HELPERS else frame
        elif module == _HELPERS and is_suspended_at_will(outside):
            outside = None
        else:
            break
    return outside


def is_suspended_at_will(frame: FrameType | None) -> bool:
    """Whether a frame is that of a generator, sync or async."""
    flags = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
    return frame is not None and bool(frame.f_code.co_flags & flags)
