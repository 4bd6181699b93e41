"""Starts and finishes runs from LangChain's events."""

from __future__ import annotations

import functools
import re
import sys
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar, Unpack, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import CaptureOptions, Run, RunKind
from rag_eval_hooks.capture.conversation import OWN_KEYS, own_entries
from rag_eval_hooks.capture.options import HandlerKeywords
from rag_eval_hooks.errors import Misplaced, OnePerProcess, usage
from rag_eval_hooks.evals import checked
from rag_eval_hooks.incidents import place_of_caller, warn_once
from rag_eval_hooks.suppress import is_suppressed
from rag_eval_hooks_langchain.graphs import is_step
from rag_eval_hooks_langchain.reader import Reader
from rag_eval_hooks_langchain.surroundings import (
    AMBIENT,
    current_handlers,
    current_run_id,
    key_of,
    vendor_span,
)
from rag_eval_hooks_langchain.vocabulary import class_name, start_facts

__all__ = ["FRAMEWORK", "RunHandler", "end_edge", "run_edge"]

FRAMEWORK = "langchain"
F = TypeVar("F", bound=Callable[..., None])
_OWN_KEYS = frozenset(OWN_KEYS)
_FRAMEWORKS_TAG = re.compile(
    r"(seq:step|graph:step|condition|branch|retry:attempt):-?\d+|branch:default|map:key:.*"
    r"|langsmith:hidden|(langsmith:)?nostream"
)
"""Tags that LangChain and LangGraph give their steps."""


def run_edge(method: F) -> F:
    """Wrap a run's event method. Count its exceptions, and mark the request as incomplete."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **event: Any) -> None:
        try:
            method(self, *args, **event)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report(f"capture {method.__name__}", error)
            run_id, parent_run_id = event.get("run_id"), event.get("parent_run_id")
            self._recorder.lost(key_of(run_id), key_of(parent_run_id))

    return cast("F", guarded)


def end_edge(method: Callable[..., None]) -> Callable[..., None]:
    """Wrap the end of a run, so that the run ends even if its output cannot be copied."""

    @run_edge
    @functools.wraps(method)
    def ending(self: Any, output: Any, *, run_id: Any, **event: Any) -> None:
        if (run := self._ended(run_id, event)) is not None:
            try:
                method(self, run, output, **event)
            except Exception:
                self._recorder.lost(run.id)
                raise
            finally:
                self._recorder.end(run)

    return ending


class _NotIgnored:
    """A false handler attribute `ignore_*`. If read from the class, it logs a warning."""

    def __get__(self, handler: object, owner: type) -> bool:
        is_asked = "langchain" in str(sys._getframe(1).f_globals.get("__name__"))
        if handler is None and is_asked and (place := place_of_caller()):
            told = f"{owner.__name__} was passed as a class and captures nothing, at {place}. "
            warn_once(f"{told}Write: callbacks=[{owner.__name__}(evals)]")
        return handler is None


class RunHandler(OnePerProcess, BaseCallbackHandler):
    wrap_tool_call = Misplaced("is not a middleware. Write: middleware=[RagEvalMiddleware(evals)]")
    start_trace = event_starts_to_ignore = Misplaced(
        "is for LangChain. Write: rag_eval_hooks_llama_index.enable(evals)"
    )
    copy = Misplaced('is one callback. Write a list: config={"callbacks": [handler]}')
    ignore_chain = ignore_llm = ignore_chat_model = ignore_retriever = _NotIgnored()

    @usage("RagEvalCallbackHandler(evals); RagEval(...) takes metrics, judge and sinks")
    def __init__(self, evals: RagEval, **options: Unpack[HandlerKeywords]) -> None:
        # A garbage-collected evaluator is closed.
        self.evals = checked(evals)
        self._recorder = recorder = evals.recorder
        self._left_out = recorder.left_out
        self._incidents = evals.incidents
        chosen = CaptureOptions.of(type(self).__name__, options)
        self._reader = Reader(recorder, evals.incidents, chosen)
        recorder.locators.add(current_run_id)
        self.place = place_of_caller()
        recorder.handlers.setdefault(self.place, False)

    def _start(
        self, kind: RunKind, serialized: Mapping[str, Any] | None, event: Mapping[str, Any]
    ) -> Run | None:
        """Start a run, unless it is sampled out, outside the named root, or below a lost start."""
        self._recorder.handlers[self.place] = True
        run_id, parent_id = key_of(event["run_id"]), key_of(event.get("parent_run_id"))
        if self._left_out and self._left_out.starts(run_id, parent_id, kind):
            return None
        name = event.get("name") or class_name(serialized) or kind.value
        # With `root`, only runs of that name and their inner runs count.
        outer = self._recorder.around(parent_id)
        options = self._reader.options if outer is None else outer.interaction.options
        root = None if options is None else options.root
        is_outermost, place = outer is None or outer.kind is RunKind.MANUAL, self._reader.place
        if root is not None and is_outermost and not self._recorder.is_root(root, name, place):
            return None
        tags, metadata = event.get("tags") or (), event.get("metadata")
        if root is None and self._has_lost(parent_id, tags):
            self._recorder.lost(run_id, parent_id)
            return None
        own_tags = _users_tags(tags) if outer is None else ()
        run = self._recorder.start(run_id, parent_id, kind, name, metadata, own_tags)
        if run is not None:
            self._describe(run, serialized, event, tags)
        return run

    def _describe(
        self,
        run: Run,
        serialized: Mapping[str, Any] | None,
        event: Mapping[str, Any],
        tags: Sequence[str],
    ) -> None:
        if run.kind is not RunKind.CHAIN or run.outermost:
            run.facts = start_facts(run.kind, run.name, serialized, event)
        if run.outermost:
            self._note_outermost(run, event["run_id"], tags)
        if run.parent is not None:
            _note_belonging(run, event.get("metadata"))
            if run.kind is RunKind.RETRIEVER or run.interaction.others is None:
                self.evals.instrumentors.note(run, vendor_span)

    def _note_outermost(self, run: Run, run_id: Any, tags: Sequence[str]) -> None:
        interaction = run.interaction
        interaction.is_joinable = FRAMEWORK in self._recorder.by_hand.everywhere
        interaction.passed = self is not AMBIENT.everywhere
        if run.parent is None and isinstance(run_id, UUID):
            # Only LangChain's run manager refers to the id, and is gone after a cancelled batch.
            interaction.id = weakref.ref(run_id)
        if tags:
            interaction.add_tags(_users_tags(tags))

    def _has_lost(self, parent_id: Hashable | None, tags: Sequence[str]) -> bool:
        """Return whether this handler missed the start of the enclosing run."""
        if not self._recorder.is_unknown(parent_id) or is_suppressed():
            return False
        if is_step(tags):
            return True
        if parent_id is None or current_run_id() != parent_id:
            return False
        ours = (one for one in current_handlers() if isinstance(one, RunHandler))
        return any(one._recorder is self._recorder for one in ours)

    def _ended(
        self, run_id: Any, event: Mapping[str, Any], error: BaseException | None = None
    ) -> Run | None:
        key = key_of(run_id)
        if self._left_out and self._recorder.leave(key, error):
            return None
        run = self._recorder.get(key)
        parent = self._recorder.get(key_of(event.get("parent_run_id")))
        if run is None and parent is not None and not self._recorder.knows(key):
            self._recorder.lost(key, parent.id)
        return run


def _note_belonging(run: Run, metadata: Mapping[str, Any] | None) -> None:
    """Add ids from a step that the root lacks, such as session, user and reference.

    Inside a manual block, all metadata of a call is added. LangChain 1.0 and later omit
    `configurable` from the metadata, but a run's config has it.
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


def _users_tags(tags: Sequence[str]) -> list[str]:
    return [tag for tag in tags if not _FRAMEWORKS_TAG.fullmatch(tag)]
