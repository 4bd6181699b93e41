"""Run and handlers around the caller, and the handler of the whole process."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import register_configure_hook

from rag_eval_hooks.capture.conversation import OWN_KEYS, own_entries
from rag_eval_hooks.capture.interaction import Run

__all__ = ["SWITCH", "current_handlers", "current_run_id", "note_belonging"]

_OWN_KEYS = frozenset(OWN_KEYS)


def current_run_id() -> int | None:
    """Return the id of LangChain's run around the caller, or None."""
    run_id = getattr(_current_manager(), "parent_run_id", None)
    return None if run_id is None else int(run_id.int)


def current_handlers() -> Sequence[BaseCallbackHandler]:
    """Return the handlers of that run."""
    return getattr(_current_manager(), "handlers", None) or ()


def _current_manager() -> Any:
    config = var_child_runnable_config.get()
    return None if config is None else config.get("callbacks")


def note_belonging(run: Run, metadata: Mapping[str, Any] | None) -> None:
    """Note session, user, reference and the like from a step, if the root did not have them.

    Of a call inside an interaction that was opened by hand all metadata count. LangChain from 1.0
    on keeps `configurable` out of the metadata; inside a run its config is at hand.
    """
    interaction = run.interaction
    if metadata and (run.outermost or not _OWN_KEYS.isdisjoint(metadata)):
        entries = metadata if run.outermost else own_entries(metadata)
        if entries.keys() - interaction.metadata.keys():
            interaction.add_metadata({**entries, **interaction.metadata})
    if interaction.configured:
        return
    config = var_child_runnable_config.get()
    if config is not None:
        interaction.configured = True
        entries = own_entries(config.get("configurable") or {})
        if entries:
            interaction.add_metadata({**entries, **interaction.metadata})


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
