"""The run that a span of LlamaIndex belongs to, also where LlamaIndex names none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.instrumentation.span import active_span_id
from llama_index.core.workflow import Event

from rag_eval_hooks.capture import Recorder, Run
from rag_eval_hooks.capture.bounded import remember
from rag_eval_hooks.suppress import is_suppressed
from rag_eval_hooks_llama_index.offline import is_offline
from rag_eval_hooks_llama_index.roles import Role, is_step_of_request, role_of
from rag_eval_hooks_llama_index.streams import Streams

__all__ = ["SpanParents"]

_MAX_SPANS = 10_000
"""Spans of a kind that are remembered until they end; one more, and the oldest is forgotten."""


class SpanParents:
    """Finds parents by spans, and by streams that are read.

    Args:
        recorder: Knows the runs.
        streams: Streams that may be read.
    """

    def __init__(self, recorder: Recorder, streams: Streams) -> None:
        self._recorder = recorder
        self._streams = streams
        # Calls whose beginning was not seen.
        self._lost: dict[str, None] = {}
        # Spans of offline tools, and of steps that outlive their workflow.
        self._ignored: dict[str | None, None] = {}
        # Runs by the spans that are parts of them.
        self._parts: dict[str, str] = {}
        # Parts and ignored spans that have ended; the stream of a model's call goes on.
        self._ended: dict[str, None] = {}
        # Whether a workflow was given any input, by its span.
        self._workflows: dict[str, bool] = {}

    def current(self) -> str | None:
        """Return the id of LlamaIndex's run around the caller, or None."""
        span_id = active_span_id.get()
        # Steps have spans of their own: old versions leave that of a run to whoever started it.
        if span_id in self._workflows:
            span_id = None
        known = None if span_id is None else self._parts.get(span_id, span_id)
        streaming = self._streams.around() if self._streams.foreign else None
        if streaming is None or (known is not None and self._recorder.shared(known, streaming)):
            return known
        runs = (streaming, *streaming.ancestors())
        return next((str(run.id) for run in runs if run.end is None), known)

    def of(self, parent_id: str | None, role: Role, instance: Any) -> str | None:
        """Return the run to which a span that begins belongs, or None for a root.

        Args:
            parent_id: The parent that LlamaIndex names.
            role: Of the span.
            instance: Its object.
        """
        known = None if parent_id is None else self._parts.get(parent_id, parent_id)
        alone = known in self._workflows and _stands_alone(role, instance)
        if alone or not self._recorder.knows(known):
            known = None
        streams = self._streams
        if known is not None and (role is not Role.MODEL or not streams) and not streams.foreign:
            return known
        return self._being_read(known)

    def _being_read(self, known: str | None) -> str | None:
        """Return the run whose stream the caller reads, unless a known run is nearer."""
        streaming = self._streams.around()
        if streaming is None or not self._recorder.knows(streaming.id):
            return known
        if known is not None and self._recorder.shared(known, streaming):
            # A span around the stream is farther from the call than the stream itself.
            around = any(outer.id == known for outer in streaming.ancestors())
            return str(streaming.id) if around else known
        return str(streaming.id)

    def add_part(self, span_id: str, run_id: str) -> None:
        """Note a span that is a part of a run."""
        remember(self._parts, span_id, run_id, _MAX_SPANS)

    def is_part(self, span_id: str) -> bool:
        """Return whether a span is a part of a run."""
        return span_id in self._parts

    def add_workflow(self, run: Run, *, is_given: bool) -> None:
        """Note the run of a workflow, and whether it was given any input."""
        remember(self._workflows, str(run.id), is_given, _MAX_SPANS)

    def may_resume(self, run: Run) -> bool:
        """Return whether a run is that of an outermost workflow that was given no input."""
        return run.outermost and not self._workflows.get(str(run.id), True)

    def left(self, span_id: str) -> Run | None:
        """Return the run of a span that ends, or None if it has none."""
        if span_id in self._parts or span_id in self._ignored:
            self._parts.pop(span_id, None)
            self._ignored.pop(span_id, None)
            remember(self._ended, span_id, None, _MAX_SPANS)
            return None
        self._workflows.pop(span_id, None)
        self._lost.pop(span_id, None)
        return self._recorder.get(span_id)

    def ignores(
        self, span_id: str, parent_id: str | None, arguments: Mapping[str, Any], instance: Any
    ) -> bool:
        """Return whether a call without a parent is, or is inside, one of an offline tool's."""
        # What the application opened by hand around it is the user's, whoever asks.
        if parent_id not in self._ignored and (
            self._recorder.around(None) is not None or not is_offline(arguments, instance)
        ):
            return False
        remember(self._ignored, span_id, None, _MAX_SPANS)
        return True

    def began_unseen(
        self, span_id: str, parent_id: str | None, arguments: Mapping[str, Any]
    ) -> bool:
        """Return whether a call is a part of a request whose beginning did not come, or that ended.

        Other calls may begin anywhere: in a span of the application that began before capture did.
        """
        passed_over = parent_id in self._ignored or parent_id in self._ended
        if parent_id is None or passed_over or is_suppressed():
            return False
        if parent_id not in self._lost:
            is_unknown = self._recorder.is_unknown(parent_id)
            is_step = isinstance(arguments.get("ev"), Event)
            if is_step and not is_unknown and not self._recorder.knows(parent_id):
                # Old versions go on with the steps of a workflow that was cancelled.
                remember(self._ignored, span_id, None, _MAX_SPANS)
                return True
            if not (is_unknown and (is_step or is_step_of_request(parent_id))):
                return False
        self.lose(span_id, parent_id)
        return True

    def lose(self, span_id: str, parent_id: str | None) -> None:
        """Note a call whose beginning was not seen; nothing in it becomes a request."""
        self._recorder.lost(span_id, parent_id, anywhere=True)
        for lost in (span_id, parent_id):
            if lost is not None and not self._recorder.knows(lost):
                remember(self._lost, lost, None, _MAX_SPANS)


def _stands_alone(role: Role, instance: Any) -> bool:
    """Return whether a call directly under a workflow's run is none of its steps.

    Old versions leave a running workflow's span current in the code that started it.
    """
    own_step = instance is None or role_of(instance.__class__, "run") is Role.WORKFLOW
    return role is Role.WORKFLOW or not own_step
