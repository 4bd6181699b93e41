"""Finds the tool whose plain function runs in the caller's thread.

Before llama-index-core 0.14.22 functions of tools run in an executor's thread without context.
The frame that calls the function there holds it and its arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NamedTuple

from llama_index.core.tools import FunctionTool, function_tool
from llama_index.core.tools.function_tool import sync_to_async

from rag_eval_hooks_llama_index.old_versions import frames_of_caller, loses_context

__all__ = ["ToolThreads"]

_MOST = 1_000
"""Open calls of tools that are remembered; one more, and the oldest is forgotten."""
_SCALARS = (str, int, float, bool)


_IS_LOST = loses_context(sync_to_async.__code__)
"""True if this version loses the context."""


class ToolThreads:
    """Open calls of plain functions, by the run of their tool."""

    def __init__(self) -> None:
        self._open: dict[str, _Call] = {}
        self._taken: dict[str, FrameType] = {}

    def enter(self, span_id: str, tool: Any, arguments: Mapping[str, Any]) -> None:
        """Note a tool's call that begins."""
        if _IS_LOST and isinstance(tool, FunctionTool):
            functions = (tool.fn, getattr(tool, "real_fn", tool.fn))
            self._open[span_id] = _Call(functions, _positional(arguments), _named(arguments))
            while len(self._open) > _MOST:
                self.leave(next(iter(self._open)))

    def leave(self, span_id: str) -> None:
        """Note that a span ended."""
        self._open.pop(span_id, None)
        self._taken.pop(span_id, None)

    def around(self) -> str | None:
        """Return the run of the tool whose function calls the caller in this thread, or None.

        Two open calls with equal arguments are two: each has one thread.
        """
        if not self._open or (frame := _calling_frame()) is None:
            return None
        for span_id, taken in list(self._taken.items()):
            if taken is frame:
                return span_id
        free = [item for item in list(self._open.items()) if item[0] not in self._taken]
        for alike in (operator.is_, _are_equal):
            for span_id, call in free:
                if call.is_of(frame.f_locals, alike):
                    self._taken[span_id] = frame
                    return span_id
        return None


class _Call(NamedTuple):
    functions: tuple[Any, ...]
    positional: tuple[Any, ...]
    named: Mapping[str, Any]

    def is_of(self, frame: Mapping[str, Any], alike: Callable[[Any, Any], bool]) -> bool:
        """Return whether a frame calls the function with these arguments, and maybe further."""
        positional, named = _positional(frame), _named(frame)
        return (
            frame["fn"] in self.functions
            and len(positional) == len(self.positional)
            and all(map(alike, positional, self.positional))
            and all(key in named and alike(named[key], one) for key, one in self.named.items())
        )


def _positional(arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(arguments.get("args") or ())


def _named(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return arguments.get("kwargs") or {}


def _are_equal(one: Any, other: Any) -> bool:
    # What an application's own class calls equal may be anything.
    return one is other or (isinstance(one, _SCALARS) and one == other)


def _calling_frame() -> FrameType | None:
    module = vars(function_tool)
    frames = (f for f in frames_of_caller() if f.f_globals is module)
    return next((f for f in frames if "fn" in f.f_code.co_freevars), None)
