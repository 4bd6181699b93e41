"""Runs of LangChain from start to end, and copies of what their events show."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self, TypeVar, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import CaptureOptions, Run, RunKind
from rag_eval_hooks.capture.copies import Copies
from rag_eval_hooks.suppress import is_suppressed
from rag_eval_hooks_langchain import graphs, models
from rag_eval_hooks_langchain.outputs import Reader
from rag_eval_hooks_langchain.registration import SWITCH
from rag_eval_hooks_langchain.surroundings import (
    current_handlers,
    current_run_id,
    key_of,
    note_belonging,
    users_tags,
)
from rag_eval_hooks_langchain.vendor_spans import vendor_span
from rag_eval_hooks_langchain.vocabulary import form_of

__all__ = ["FRAMEWORK", "RunHandler", "end_edge", "run_edge"]

FRAMEWORK = "langchain"
F = TypeVar("F", bound=Callable[..., None])


def run_edge(method: F) -> F:
    """Wrap an event of a run: an exception is counted, and the run's interaction is marked."""

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
    """Wrap the end of a run: the run ends even if reading its output raises."""

    @run_edge
    @functools.wraps(method)
    def ending(self: Any, output: Any, *, run_id: Any, **extra: Any) -> None:
        run = self._ended(run_id, extra)
        if run is None:
            return
        try:
            method(self, run, output, **extra)
        except Exception:
            self._recorder.lost(run.id)
            raise
        finally:
            self._recorder.end(run)

    return ending


class RunHandler(BaseCallbackHandler):
    """Starts and ends runs, and copies values for a reader.

    Args:
        evals: Where interactions go.
        options: Of all interactions that have no options of their own.
    """

    def __init__(self, evals: RagEval, options: CaptureOptions) -> None:
        # A collected evaluator is closed.
        self._evals = evals
        self._recorder = evals.recorder
        self._left_out = evals.recorder.left_out
        self._incidents = evals.incidents
        self._copies = Copies(evals.recorder, options, form_of)
        self._reader = Reader(evals.recorder, evals.incidents, options)
        self._recorder.locators.add(current_run_id)

    def __copy__(self) -> Self:
        """Return the handler itself: a copied config captures into the same evaluator."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the handler itself."""
        return self

    def _reader_of(self, run: Run) -> Reader:
        """Return the reader for a run: an interaction opened by hand may have its own options."""
        own = run.interaction.options
        if own is None:
            return self._reader
        return Reader(self._recorder, self._incidents, own.over(self._reader.options))

    def _start(
        self, kind: RunKind, serialized: Mapping[str, Any] | None, event: Mapping[str, Any]
    ) -> Run | None:
        run_id, parent_id = key_of(event["run_id"]), key_of(event.get("parent_run_id"))
        if self._left_out and self._left_out.starts(run_id, parent_id, kind):
            return None
        name = event.get("name") or models.class_name(serialized) or kind.value
        # With `root`, only runs of that name and the runs inside of them count.
        outer = self._recorder.around(parent_id)
        options = self._reader.options if outer is None else outer.interaction.options
        root = None if options is None else options.root
        if root not in (None, name) and (outer is None or outer.kind is RunKind.MANUAL):
            return None
        tags = event.get("tags") or ()
        if root is None and self._has_lost(parent_id, tags):
            self._recorder.lost(run_id, parent_id)
            return None
        metadata = event.get("metadata")
        own_tags = users_tags(tags) if outer is None else ()
        run = self._recorder.start(run_id, parent_id, kind, name, metadata, own_tags)
        if run is not None:
            self._describe(run, event, is_whole=root is None)
        return run

    def _describe(self, run: Run, event: Mapping[str, Any], *, is_whole: bool) -> None:
        if run.outermost:
            self._note_outermost(run, event)
        if run.parent is not None:
            note_belonging(run, event.get("metadata"))
            if run.kind is RunKind.RETRIEVER or run.interaction.others is None:
                self._evals.instrumentors.note(run, vendor_span)
        elif is_whole:
            self._note_parent(run, event.get("parent_run_id"))

    def _note_outermost(self, run: Run, event: Mapping[str, Any]) -> None:
        interaction = run.interaction
        interaction.is_joinable = FRAMEWORK in self._recorder.by_hand.everywhere
        interaction.passed = self is not SWITCH.get()
        run.facts = models.agent_facts(run.name, event.get("metadata") or {})
        if run.parent is None and isinstance(event["run_id"], UUID):
            # LangChain's run manager holds it, and is gone when a batch was cancelled.
            interaction.id = weakref.ref(event["run_id"])
        if tags := event.get("tags"):
            interaction.add_tags(users_tags(tags))

    def _note_parent(self, root: Run, parent_run_id: Any) -> None:
        """Note a parent that was never seen. A batch gives its steps no context that tells more."""
        if isinstance(parent_run_id, UUID) and current_run_id() != key_of(parent_run_id):
            self._recorder.ended.name_parent(
                root, key_of(parent_run_id), weakref.ref(parent_run_id)
            )

    def _has_lost(self, parent_id: Hashable | None, tags: Sequence[str]) -> bool:
        """Return whether a run that was never seen started while this handler was to be called."""
        if parent_id is not None and not self._recorder.is_unknown(parent_id):
            return False
        if graphs.is_step(tags):
            return not is_suppressed()
        if parent_id is None or is_suppressed():
            return False
        handlers = current_handlers() if current_run_id() == parent_id else ()
        ours = (one for one in handlers if isinstance(one, RunHandler))
        return any(one._recorder is self._recorder for one in ours)

    def _ended(
        self, run_id: Any, event: Mapping[str, Any], error: BaseException | None = None
    ) -> Run | None:
        """Return the run that ends, or None for a run whose start was lost or is left out."""
        key = key_of(run_id)
        if self._left_out and self._recorder.leave(key, error):
            return None
        run = self._recorder.get(key)
        parent = self._recorder.get(key_of(event.get("parent_run_id")))
        if run is not None:
            if run.parent is None and parent is not None:
                self._recorder.misplaced(run, parent)
        elif not self._recorder.knows(key):
            if parent is None:
                self._recorder.ended_unseen(key)
            else:
                self._recorder.lost(key, parent.id)
        return run
