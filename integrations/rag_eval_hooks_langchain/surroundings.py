"""Run, handlers and config around the caller, and how LangChain finds and calls a handler."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Hashable, Mapping, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import register_configure_hook

from rag_eval_hooks.capture.conversation import OWN_KEYS, own_entries
from rag_eval_hooks.capture.records import Run

__all__ = [
    "SWITCH",
    "InlineUnlessWithheld",
    "current_handlers",
    "current_manager",
    "current_run_id",
    "key_of",
    "note_belonging",
    "users_tags",
]

_OWN_KEYS = frozenset(OWN_KEYS)
_COMPREHENSIONS = ("<listcomp>", "<genexpr>")


def key_of(run_id: Any) -> Hashable | None:
    """Return the key of a run, equal for a UUID and its text; None for no run.

    Hosts give ids of their own, often as text, to know a request again.
    """
    # A UUID hashes and compares in Python, its integer in C: a quarter of our time.
    if isinstance(run_id, UUID):
        return run_id.int
    if isinstance(run_id, str):
        with contextlib.suppress(ValueError):
            return UUID(run_id).int
        return run_id
    return run_id if isinstance(run_id, Hashable) else repr(run_id)


def current_run_id() -> Hashable | None:
    """Return the key of LangChain's run around the caller, or None."""
    return key_of(getattr(current_manager(), "parent_run_id", None))


def current_handlers() -> Sequence[BaseCallbackHandler]:
    """Return the handlers of that run."""
    return getattr(current_manager(), "handlers", None) or ()


def current_manager() -> Any:
    """Return the callback manager of LangChain's run around the caller, or None."""
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
        interaction.add_metadata({**entries, **interaction.metadata})
    config = None if interaction.configured else var_child_runnable_config.get()
    if config is not None:
        interaction.configured = True
        if entries := own_entries(config.get("configurable") or {}):
            interaction.add_metadata({**entries, **interaction.metadata})


_FRAMEWORKS_TAG = re.compile(
    r"(seq:step|graph:step|condition|branch|retry:attempt):-?\d+|branch:default|map:key:.*"
    r"|langsmith:hidden|(langsmith:)?nostream"
)
"""Tags that LangChain and LangGraph give their steps."""


def users_tags(tags: Sequence[str]) -> list[str]:
    """Return the tags that the application gave."""
    return [tag for tag in tags if not _FRAMEWORKS_TAG.fullmatch(tag)]


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
        if asking is None or asking.f_code.co_name != "on_llm_start":
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
