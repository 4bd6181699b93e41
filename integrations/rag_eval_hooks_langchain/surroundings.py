"""The run around the caller, and what the run's config tells beside its metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

from rag_eval_hooks.capture.conversation import OWN_KEYS, own_entries
from rag_eval_hooks.capture.interaction import Run

__all__ = ["current_handlers", "current_run_id", "note_belonging"]


_OWN_KEYS = frozenset(OWN_KEYS)


def current_run_id() -> int | None:
    """The run in which the caller is called, where LangChain knows one."""
    run_id = getattr(_current_manager(), "parent_run_id", None)
    return None if run_id is None else int(run_id.int)


def current_handlers() -> Sequence[BaseCallbackHandler]:
    """The handlers of that run."""
    return getattr(_current_manager(), "handlers", None) or ()


def _current_manager() -> Any:
    config = var_child_runnable_config.get()
    return None if config is None else config.get("callbacks")


def note_belonging(run: Run, metadata: Mapping[str, Any] | None) -> None:
    """Notes session, user, reference and the like from a step, where the root did not tell.

    Of a call inside an interaction that was opened by hand all metadata count. LangChain from 1.0
    on keeps `configurable` out of the metadata; inside a run its config is at hand.
    """
    interaction = run.interaction
    if metadata and (run.outermost or not _OWN_KEYS.isdisjoint(metadata)):
        told = metadata if run.outermost else own_entries(metadata)
        if told.keys() - interaction.metadata.keys():
            interaction.add_metadata({**told, **interaction.metadata})
    if interaction.configured:
        return
    config = var_child_runnable_config.get()
    if config is not None:
        interaction.configured = True
        told = own_entries(config.get("configurable") or {})
        if told:
            interaction.add_metadata({**told, **interaction.metadata})
