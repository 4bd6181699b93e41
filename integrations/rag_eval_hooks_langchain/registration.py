"""How LangChain finds the handler of a process, and how it calls a handler."""

from __future__ import annotations

import logging
import sys
import threading
from contextvars import ContextVar
from types import FrameType
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

__all__ = ["SWITCH", "IgnoredClass", "InlineUnlessWithheld"]

_logger = logging.getLogger("rag_eval_hooks")

_WITHHOLDING = "on_llm_start"
_COMPREHENSIONS = ("<listcomp>", "<genexpr>")


class IgnoredClass:
    """Value of a handler's `ignore_...`: False, and True for the class itself.

    LangChain asks it before each event. A class in `callbacks` would get events without an object.
    """

    def __init__(self) -> None:
        self._is_said = False

    def __get__(self, handler: object, owner: type | None = None) -> bool:
        """Return whether events are ignored; log once that the class was passed."""
        if handler is not None:
            return False
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        # Documentation tools and mocks look at the class, too.
        if caller.startswith("langchain_core.") and not self._is_said:
            self._is_said = True
            _logger.warning(
                "RagEvalCallbackHandler was passed as a class. "
                "Pass an instance: RagEvalCallbackHandler(evals)."
            )
        return True


class InlineUnlessWithheld:
    """Value of a handler's `run_inline`: true except for the one function that true misleads.

    Inline handlers spare async runs a worker thread for each event. But `on_llm_start` of
    langchain-core's asynchronous manager (up to 1.7) calls inline handlers *instead of* all others
    for plain models. If this one says that it is not inline, all are called, and each event is then
    handled inline after all. Where another handler is inline anyway, this one must be, too, to be
    called.
    """

    def __get__(self, handler: Any, owner: type | None = None) -> bool:
        """Return whether events are handled inline, as far as the caller is concerned."""
        asking: FrameType | None = sys._getframe(1)
        if asking is not None and asking.f_code.co_name in _COMPREHENSIONS:
            # Before Python 3.12 a comprehension has a frame of its own.
            asking = asking.f_back
        if asking is None or asking.f_code.co_name != _WITHHOLDING:
            return True
        manager = asking.f_locals.get("self")
        others = (one for one in getattr(manager, "handlers", ()) if not _is_ours(one))
        return any(one.run_inline for one in others)


def _is_ours(handler: object) -> bool:
    flags = (vars(kind).get("run_inline") for kind in type(handler).__mro__)
    return any(isinstance(flag, InlineUnlessWithheld) for flag in flags)


class _Switch:
    """Stand-in for the context variable that LangChain reads at the start of every run.

    A hook cannot be taken back, so it is registered once and the switch is turned off.
    """

    def __init__(self) -> None:
        self._handler: BaseCallbackHandler | None = None
        self._registered = False
        self._lock = threading.Lock()

    def get(self) -> BaseCallbackHandler | None:
        """Return the handler that every run gets, or None."""
        return self._handler

    def set(self, handler: BaseCallbackHandler | None) -> None:
        """Set the handler that every run gets, or None."""
        with self._lock:
            if handler is not None and not self._registered:
                register_configure_hook(cast("ContextVar[Any]", self), inheritable=True)
                self._registered = True
            self._handler = handler


SWITCH = _Switch()
"""That of the process: the hook is LangChain's, and there is one LangChain."""
