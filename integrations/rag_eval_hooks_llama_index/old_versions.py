"""Reads from frames what versions before llama-index-core 0.14 do not pass on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from llama_index.core import async_utils
from llama_index.core.instrumentation.dispatcher import Dispatcher

__all__ = ["frames_of_caller", "loses_context", "outer_span", "workflow_error"]

_DEPTH = 400
"""Frames of a stack that are looked at; frameworks nest some dozens."""
_IN_THREAD = "run_coro_in_thread"
_CANCELLED = "WorkflowCancelledByUser"


def frames_of_caller(frame: FrameType | None = None) -> Iterator[FrameType]:
    """Yield the frames of the caller, or those from a given one on, innermost first."""
    frame = sys._getframe(1) if frame is None else frame
    for _ in range(_DEPTH):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def loses_context(code: CodeType) -> bool:
    """Return whether a function that hands work to a thread leaves the context behind."""
    return "copy_context" not in _names_within(code)


def _names_within(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names_within, inner))


_SPANS = Dispatcher.span.__globals__
_RUN = async_utils.asyncio_run.__code__
_IS_LOST = loses_context(_RUN)


def outer_span() -> str | None:
    """Return the span of the sync call that waits for what this thread runs, or None.

    Inside of a running loop coroutines are handed to a thread, with a fresh context.
    """
    if not _IS_LOST:
        return None
    mine = (f for f in frames_of_caller() if f.f_code.co_name == _IN_THREAD)
    frame = next((f for f in mine if f.f_globals is vars(async_utils)), None)
    coroutine = None if frame is None else frame.f_locals.get("coro")
    if coroutine is None:
        return None
    spans = (_span_waiting_for(coroutine, top) for top in sys._current_frames().values())
    return next(filter(None, spans), None)


def _span_waiting_for(coroutine: Any, top: FrameType) -> str | None:
    """Return the innermost span around the call that handed a coroutine over, in its thread."""
    waits = False
    for frame in frames_of_caller(top):
        if frame.f_code is _RUN:
            waits = waits or frame.f_locals.get("coro") is coroutine
        elif waits and frame.f_globals is _SPANS and "id_" in frame.f_locals:
            return str(frame.f_locals["id_"])
    return None


def workflow_error() -> BaseException:
    """Return the exception of a workflow whose span is ended as if all was well.

    The frame that ends it holds the workflow's future.
    """
    for frame in frames_of_caller():
        future = frame.f_locals.get("future") if "future" in frame.f_code.co_varnames else None
        if isinstance(future, asyncio.Future) and future.done() and not future.cancelled():
            error = future.exception()
            if error is not None and type(error).__name__ != _CANCELLED:
                return error
    return asyncio.CancelledError()
