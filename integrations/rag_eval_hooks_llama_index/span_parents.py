"""The run that a span of LlamaIndex belongs to, also where LlamaIndex names none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from llama_index.core.instrumentation.span import active_span_id
from llama_index.core.workflow import Event

from rag_eval_hooks.capture import Recorder, Run
from rag_eval_hooks.suppress import is_suppressed
from rag_eval_hooks_llama_index.kinds import Role, is_step_of_request, role_of
from rag_eval_hooks_llama_index.reading import run_being_read
from rag_eval_hooks_llama_index.streams import Streams

__all__ = ["SpanParents", "remember"]

_MOST = 10_000
"""Spans of a kind that are remembered until they end; one more, and the oldest is forgotten."""

K = TypeVar("K")
V = TypeVar("V")


class SpanParents:
    """Finds parents by spans, by streams that are read, and by frames of threads.

    Args:
        recorder: Knows the runs.
        streams: Those that may be read.

    Attributes:
        aside: Spans of offline tools, and of steps that outlive their workflow.
        parts: Runs by the spans that are parts of them.
        ended: The last of both that have ended; the stream of a model's call goes on.
        workflows: Spans of workflows that run.
    """

    def __init__(self, recorder: Recorder, streams: Streams) -> None:
        self._recorder = recorder
        self._streams = streams
        self._lost: dict[str, None] = {}
        self.aside: dict[str | None, None] = {}
        self.parts: dict[str, str] = {}
        self.ended: dict[str, None] = {}
        self.workflows: dict[str, None] = {}

    def current(self) -> str | None:
        """Return the id of LlamaIndex's run around the caller, or None."""
        span_id = active_span_id.get()
        read = run_being_read(span_id)
        if read is not None and self._recorder.knows(read):
            return read
        # Steps have spans of their own: old versions leave that of a run to whoever started it.
        if span_id is None or span_id in self.workflows:
            return None
        return self.parts.get(span_id, span_id)

    def of(self, parent_id: str | None, role: Role, instance: Any) -> str | None:
        """Return the run to which a span that begins belongs, or None for a root.

        Args:
            parent_id: The parent that LlamaIndex names.
            role: Of the span.
            instance: Its object.
        """
        known = self._known(parent_id, role, instance)
        streams = self._streams
        if known is not None and (role is not Role.MODEL or not streams) and not streams.foreign:
            return known
        streaming = streams.around()
        if streaming is None or not self._recorder.knows(streaming.id):
            return known
        if known is not None and self._recorder.shared(known, streaming):
            # A span around the stream is farther from the call than the stream itself.
            around = any(outer.id == known for outer in streaming.ancestors())
            return str(streaming.id) if around else known
        return str(streaming.id)

    def left(self, span_id: str) -> Run | None:
        """Return the run of a span that ends, or None if it has none."""
        if span_id in self.parts or span_id in self.aside:
            self.parts.pop(span_id, None)
            self.aside.pop(span_id, None)
            remember(self.ended, span_id, None)
            return None
        self.workflows.pop(span_id, None)
        self._lost.pop(span_id, None)
        return self._recorder.get(span_id)

    def began_unseen(
        self, span_id: str, parent_id: str | None, arguments: Mapping[str, Any]
    ) -> bool:
        """Return whether a call is a part of a request whose beginning did not come, or that ended.

        Others may begin anywhere: in a span of the application that began before capture did.
        """
        passed_over = parent_id in self.aside or parent_id in self.ended
        if parent_id is None or passed_over or is_suppressed():
            return False
        if parent_id not in self._lost:
            is_unknown = self._recorder.is_unknown(parent_id)
            is_step = isinstance(arguments.get("ev"), Event)
            if is_step and not is_unknown and not self._recorder.knows(parent_id):
                # Old versions go on with the steps of a workflow that was cancelled.
                remember(self.aside, span_id, None)
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
                remember(self._lost, lost, None)

    def _known(self, parent_id: str | None, role: Role, instance: Any) -> str | None:
        read = run_being_read(parent_id)
        if read is not None and self._recorder.knows(read):
            return read
        if parent_id is not None:
            parent_id = self.parts.get(parent_id, parent_id)
        if parent_id is None or not self._recorder.knows(parent_id):
            return None
        alone = parent_id in self.workflows and _stands_alone(role, instance)
        return None if alone else parent_id


def _stands_alone(role: Role, instance: Any) -> bool:
    """Return whether a call directly under a workflow's run is none of its steps.

    Old versions leave a running workflow's span current in the code that started it.
    """
    own_step = instance is None or role_of(instance.__class__, "run") is Role.WORKFLOW
    return role is Role.WORKFLOW or not own_step


def remember(spans: dict[K, V], span_id: K, value: V) -> None:
    """Note a span; of too many the oldest is forgotten."""
    spans[span_id] = value
    while len(spans) > _MOST:
        spans.pop(next(iter(spans)), None)
