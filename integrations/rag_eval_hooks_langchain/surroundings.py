"""Run, handlers and config around the caller."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

from rag_eval_hooks.capture.conversation import OWN_KEYS, own_entries
from rag_eval_hooks.capture.records import Run

__all__ = [
    "current_handlers",
    "current_run_id",
    "has_reader_left",
    "key_of",
    "note_belonging",
    "users_tags",
]

_OWN_KEYS = frozenset(OWN_KEYS)


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
    return key_of(getattr(_current_manager(), "parent_run_id", None))


def current_handlers() -> Sequence[BaseCallbackHandler]:
    """Return the handlers of that run."""
    return getattr(_current_manager(), "handlers", None) or ()


def has_reader_left(task: object) -> bool:
    """Return whether a chain was cancelled as the reader of its `astream_events` left.

    LangChain runs the chain in a task of its own, and cancels it when its reader leaves or is
    cancelled. The reader waits for its end.

    Args:
        task: In which the chain began.
    """
    if not isinstance(task, asyncio.Task):
        return False
    if getattr(task.get_coro(), "__name__", "") != "consume_astream":
        return False
    waiting = (getattr(wake, "__self__", None) for wake, _ in getattr(task, "_callbacks", ()) or ())
    return any(isinstance(one, asyncio.Task) and not one.cancelling() for one in waiting)


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


_FRAMEWORKS_TAG = re.compile(
    r"(seq:step|graph:step|condition|branch|retry:attempt):-?\d+|branch:default|map:key:.*"
    r"|langsmith:hidden|(langsmith:)?nostream"
)
"""Tags that LangChain and LangGraph give their steps."""


def users_tags(tags: Sequence[str]) -> list[str]:
    """Return the tags that the application gave."""
    return [tag for tag in tags if not _FRAMEWORKS_TAG.fullmatch(tag)]
