"""Interactions that the application has opened by hand around the caller.

A generator shares the context of its consumer: what it sets stays set while it is suspended. Its
frame is on the stack only while it runs, so that tells which scope is being executed.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any

from rag_eval_hooks import incidents
from rag_eval_hooks.capture.records import Run

__all__ = ["Scope", "enclosing_run", "enclosing_scope", "enclosing_scopes"]

_PACKAGE = __name__.rpartition(".")[0] + "."
_HELPERS = contextlib.__name__
_INCIDENTS = incidents.__name__


@dataclass(slots=True, eq=False)
class Scope:
    """One block of code in which an interaction is open.

    Attributes:
        recorder: Where the interaction is recorded.
        run: The run that it opened, or None once it is closed.
        question: What was asked, or an empty text.
        contexts: Records documents that the application states it uses.
        outer: The scope around it when it was opened.
        frame: The frame in which its block stands.
    """

    recorder: object
    run: Run | None
    question: str
    contexts: Callable[[Any], None]
    outer: Scope | None = None
    frame: FrameType | None = None

    def enter(self) -> None:
        """Make it the innermost scope of the caller's context."""
        self.frame = _caller_outside()
        self.outer = _open_scope(_current.get())
        _current.set(self)

    def leave(self) -> Run | None:
        """Close the scope.

        Returns:
            Its run, or None if it was closed before.
        """
        run, self.run = self.run, None
        self.frame = None
        # A generator may be closed in another context, where the value is not ours to take back.
        if _current.get() is self:
            _current.set(_open_scope(self.outer))
        return run

    def asks_another(self, outer: Scope | None) -> bool:
        """Return whether its question differs from that of the nearest scope that has one.

        Args:
            outer: The innermost scope around the caller.
        """
        while outer is not None and not (outer.recorder is self.recorder and outer.question):
            outer = _open_scope(outer.outer)
        return outer is not None and bool(self.question) and self.question != outer.question


_current: ContextVar[Scope | None] = ContextVar("rag_eval_interaction", default=None)


def enclosing_run(recorder: object) -> Run | None:
    """Return the run of the innermost open scope around the caller."""
    scope = enclosing_scope(recorder)
    return None if scope is None else scope.run


def enclosing_scope(recorder: object) -> Scope | None:
    """Return the innermost open scope around the caller.

    Generators share their context with their consumer: where several are open there, the one
    counts whose block is being executed. Where that is unknown, as in a thread or a task that
    one of them started, none does.
    """
    if _current.get() is None:
        return None
    scopes = [scope for scope in _open_scopes() if scope.recorder is recorder]
    if len(scopes) > 1 and _is_generator(scopes[0].frame):
        running = (scope for frame in _stack() for scope in scopes if scope.frame is frame)
        return next(running, None)
    return scopes[0] if scopes else None


def enclosing_scopes() -> list[Scope]:
    """Return the innermost open scope around the caller, of every evaluator."""
    recorders = dict.fromkeys(scope.recorder for scope in _open_scopes())
    return [scope for recorder in recorders if (scope := enclosing_scope(recorder)) is not None]


def _open_scopes() -> Iterator[Scope]:
    scope = _open_scope(_current.get())
    while scope is not None:
        yield scope
        scope = _open_scope(scope.outer)


def _open_scope(scope: Scope | None) -> Scope | None:
    """Return the scope, or the nearest around it that is still open."""
    while scope is not None and (scope.run is None or scope.run.end is not None):
        scope = scope.outer
    return scope


def _stack() -> Iterator[FrameType]:
    """Yield the frames of the caller, innermost first; none where Python has none."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _caller_outside() -> FrameType | None:
    """Return the frame in which the block stands that is being opened.

    Of a block that a `contextmanager` of the application opens, that is the frame which uses it.
    """
    outside: FrameType | None = None
    for frame in _stack():
        module = frame.f_globals.get("__name__", "")
        if outside is None:
            inside = module.startswith(_PACKAGE) or module in (_HELPERS, _INCIDENTS)
            outside = None if inside else frame
        elif module == _HELPERS and _is_generator(outside):
            outside = None
        else:
            break
    return outside


def _is_generator(frame: FrameType | None) -> bool:
    flags = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
    return frame is not None and bool(frame.f_code.co_flags & flags)
