"""One handler for every run of the process, by LangChain's own hook."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from langchain_core.tracers.context import register_configure_hook

if TYPE_CHECKING:
    from rag_eval_hooks_langchain.callback_handler import RagEvalCallbackHandler

__all__ = ["SWITCH"]


class _Switch:
    """What LangChain asks, as it would ask a context variable, at the start of every run.

    A hook cannot be taken back, so it is registered once and the switch is turned off.
    """

    def __init__(self) -> None:
        self._handler: RagEvalCallbackHandler | None = None
        self._registered = False
        self._lock = threading.Lock()

    def get(self) -> RagEvalCallbackHandler | None:
        """The handler that every run gets, or None."""
        return self._handler

    def set(self, handler: RagEvalCallbackHandler | None) -> None:
        """Turns it on or off."""
        with self._lock:
            if handler is not None and not self._registered:
                register_configure_hook(cast("ContextVar[Any]", self), inheritable=True)
                self._registered = True
            self._handler = handler


SWITCH = _Switch()
"""That of the process: the hook is LangChain's, and there is one LangChain."""
