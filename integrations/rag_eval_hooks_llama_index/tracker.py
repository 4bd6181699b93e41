"""Translation of LlamaIndex's spans and events to runs of the recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined, unused-ignore]
from llama_index.core.instrumentation.dispatcher import active_instrument_tags
from llama_index.core.instrumentation.span import active_span_id
from opentelemetry.trace import Span

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import Run, RunKind
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks_llama_index import values
from rag_eval_hooks_llama_index.kinds import (
    Role,
    class_and_method,
    facts_of,
    model_facts,
    name_of,
    reply_facts,
    role_of,
)
from rag_eval_hooks_llama_index.reading import run_being_read
from rag_eval_hooks_llama_index.streamed_answers import StreamedAnswers

__all__ = ["Tracker"]

_MOST = 10_000
"""Spans of a kind that are remembered until they end; one more, and the oldest is forgotten."""
_QUERIES = ("query", "aquery")
_OPENINFERENCE = "openinference.instrumentation.llama_index."

V = TypeVar("V")


class Tracker:
    """Runs of LlamaIndex, shared by both handlers; one for each `RagEval`.

    LlamaIndex swallows what handlers raise: here it is counted first.

    Args:
        evals: Where interactions go.
        watch_streams: See `enable`.
    """

    def __init__(self, evals: RagEval, *, watch_streams: bool = True) -> None:
        self.evals = evals
        self._recorder = evals.recorder
        self._incidents = evals.incidents
        self._instrumentors = evals.instrumentors
        self._answers = StreamedAnswers(evals, watch_streams=watch_streams)
        self._streams = self._answers.streams
        self._workflows: dict[str, None] = {}
        self._parts: dict[str, str] = {}

    def current(self) -> str | None:
        """Return the id of LlamaIndex's run around the caller, or None."""
        span_id = active_span_id.get()
        read = self._read(span_id)
        # Steps have spans of their own: old versions leave that of a run to whoever started it.
        if read is not None or span_id is None or span_id in self._workflows:
            return read
        return self._parts.get(span_id, span_id)

    @host_edge
    def enter(
        self,
        span_id: str,
        arguments: Mapping[str, Any],
        instance: Any,
        parent_id: str | None,
        tags: Mapping[str, Any] | None,
    ) -> None:
        """Begin the run of a span."""
        owner, method = class_and_method(span_id)
        role = role_of(values.class_of(instance), method)
        parent = self._parent(parent_id, role, instance)
        if role is Role.PART and parent is not None:
            _remember(self._parts, span_id, parent)
            return
        if parent is None and role is Role.CHAIN and values.is_summary_query(arguments):
            return
        current_tags = active_instrument_tags.get() if tags is None else tags
        run = self._recorder.start(
            span_id,
            parent,
            self._kind(role, parent),
            name_of(role, instance) or owner or method,
            values.metadata_of(current_tags) if parent is None else None,
            values.labels_of(current_tags) if parent is None else None,
        )
        if run is None:
            return
        self._instrumentors.note(run, _openinference_span)
        if role is Role.WORKFLOW:
            _remember(self._workflows, span_id, None)
        run.facts = facts_of(role, instance)
        if role is Role.RETRIEVAL or run.outermost:
            self._recorder.question(run, values.question_of_call(arguments))
        if run.outermost and run.parent is not None:
            run.interaction.add_metadata(values.metadata_of(current_tags))

    @host_edge
    def exit(self, span_id: str, instance: Any, result: Any) -> None:
        """End the run of a span, or follow the generator that it gave out."""
        run = self._left(span_id)
        if run is None:
            return
        _, method = class_and_method(span_id)
        role, given = role_of(values.class_of(instance), method), values.given_out(result)
        try:
            self._note_nodes(run, role, method, given)
        finally:
            self._end(run, role, instance, given)

    def _end(self, run: Run, role: Role, instance: Any, given: Any) -> None:
        """Notes what a run gave out and ends it, also where that cannot be read."""
        streams = False
        try:
            streams = self._answers.note(run, given, values.known_text(instance, given))
            self._note_answer(run, role, instance, given, streams)
        finally:
            if not (streams and run.kind is RunKind.MODEL):
                self._recorder.end(run)
            if role is Role.WRITER:
                self._recorder.settle(run)

    def _note_answer(self, run: Run, role: Role, instance: Any, given: Any, streams: bool) -> None:
        if role is Role.WRITER:
            self._recorder.answer(run, instance.response or None)
        elif run.outermost and not streams:
            text = values.answer_of(given)
            unknown = text is None and isinstance(given, values.STREAMING)
            self._recorder.answer(run, text, unknown=unknown)

    @host_edge
    def drop(self, span_id: str, error: BaseException | None) -> None:
        """End the run of a span that raised."""
        run = self._left(span_id)
        if run is not None:
            self._recorder.fail(run, error or RuntimeError())
            self._recorder.settle(run)

    @host_edge
    def model_called(
        self, span_id: str | None, given: str | Sequence[ChatMessage], model: Mapping[str, Any]
    ) -> None:
        """Note a model's call in a span of its own; inside another model's call it is that one."""
        run = self._recorder.get(span_id)
        if run is not None and run.kind is RunKind.CHAIN and not run.within(RunKind.MODEL):
            run.kind = RunKind.MODEL
            texts = (given,) if isinstance(given, str) else values.message_texts(given)
            self._recorder.prompt(run, texts)
            run.facts = model_facts(model)

    @host_edge
    def model_replied(self, span_id: str | None, response: Any) -> None:
        """Note the complete reply of a model, streamed or not."""
        run = self._recorder.get(span_id)
        if run is not None and run.kind is RunKind.MODEL:
            try:
                self._recorder.answer(run, values.answer_of(response) or None)
                self._recorder.reply(run, reply_facts(response))
            finally:
                self._recorder.end(run)

    @host_edge
    def model_failed(self, span_id: str | None, error: BaseException) -> None:
        """Note that a model's stream broke, or was closed by its reader."""
        run = self._recorder.get(span_id)
        if run is not None and run.kind is RunKind.MODEL:
            self._recorder.fail(run, error)

    @host_edge
    def cancelled(self, span_id: str | None) -> None:
        """Fail a cancelled workflow or step, whose span LlamaIndex ends as if all was well."""
        run = self._recorder.get(span_id)
        if run is not None:
            self._recorder.fail(run, asyncio.CancelledError())

    def _left(self, span_id: str) -> Run | None:
        """Return the run of a span that ends, or None if it has none."""
        self._workflows.pop(span_id, None)
        return self._recorder.get(span_id) if self._parts.pop(span_id, None) is None else None

    def _parent(self, parent_id: str | None, role: Role, instance: Any) -> str | None:
        known = self._known(parent_id, role, instance)
        if known is not None and role is not Role.MODEL and not self._streams.any_foreign:
            return known
        streaming = self._streams.around()
        if streaming is None or not self._recorder.knows(streaming.id):
            return known
        if known is not None and self._recorder.shared(known, streaming):
            # A span around the stream is farther from the call than the stream itself.
            around = any(outer.id == known for outer in streaming.ancestors())
            return str(streaming.id) if around else known
        return str(streaming.id)

    def _known(self, parent_id: str | None, role: Role, instance: Any) -> str | None:
        read = self._read(parent_id)
        if read is not None:
            return read
        if parent_id is not None:
            parent_id = self._parts.get(parent_id, parent_id)
        if parent_id is None or not self._recorder.knows(parent_id):
            return None
        alone = parent_id in self._workflows and self._stands_alone(role, instance)
        return None if alone else parent_id

    def _read(self, span_id: str | None) -> str | None:
        """Return the run whose stream the caller reads, in a span or outside of all."""
        read = run_being_read(span_id)
        return read if read is not None and self._recorder.knows(read) else None

    def _stands_alone(self, role: Role, instance: Any) -> bool:
        """Return whether a call directly under a workflow's run is none of its steps.

        Old versions leave a running workflow's span current in the code that started it.
        """
        own_step = instance is None or role_of(values.class_of(instance), "run") is Role.WORKFLOW
        return role is Role.WORKFLOW or not own_step

    def _kind(self, role: Role, parent_id: str | None) -> RunKind:
        """Return the kind of a run; a tool's call within its own, sync within async, is a chain."""
        if role is Role.TOOL and parent_id is not None:
            parent = self._recorder.get(parent_id)
            return RunKind.CHAIN if parent and parent.kind is RunKind.TOOL else RunKind.TOOL
        return role.kind

    def _note_nodes(self, run: Run, role: Role, method: str, given: Any) -> None:
        if isinstance(given, values.ANSWERS_WITH_SOURCES):
            if run.outermost or method in _QUERIES:
                values.note_sources(self._recorder, run, given.source_nodes)
            return
        nodes = values.nodes_in(given)
        owns = role in (Role.RETRIEVAL, Role.POSTPROCESSING)
        if nodes is not None and (owns or (nodes and not run.within(RunKind.RETRIEVER))):
            self._recorder.documents(run, values.snapshot(nodes))


def _openinference_span(root: Run) -> tuple[bool, Span | None]:
    """Return whether another instrumentor writes spans, and its span of a root.

    OpenInference is not imported: its handler is looked for among those of LlamaIndex's root
    dispatcher. It maps span ids to spans, not publicly, so its span may not be found, and then
    scores are only on the evaluation span.
    """
    for handler in get_dispatcher().span_handlers:
        if type(handler).__module__.startswith(_OPENINFERENCE):
            try:
                # Of another class than the handlers that LlamaIndex types.
                span = cast("Any", handler).open_spans[root.id]._otel_span
            except (AttributeError, LookupError, TypeError):
                # Not there, or another version keeps its spans elsewhere.
                return True, None
            return True, span if isinstance(span, Span) else None
    return False, None


def _remember(spans: dict[str, V], span_id: str, value: V) -> None:
    spans[span_id] = value
    while len(spans) > _MOST:
        spans.pop(next(iter(spans)), None)
