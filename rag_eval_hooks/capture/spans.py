"""Writes the spans of a finished request, and finds spans of other OpenTelemetry instrumentors."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.trace import Span, SpanContext, TracerProvider

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.capture.answering import answer_of, question_of
from rag_eval_hooks.capture.attributes import Contents, content_of, plain, request_content
from rag_eval_hooks.capture.options import SESSION_KEYS, text_of
from rag_eval_hooks.capture.records import Interaction, Others, Run, RunKind
from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import HeldSpan
from rag_eval_hooks.sample import Status
from rag_eval_hooks.telemetry.held_spans import DeferredSpan, OtherSpans
from rag_eval_hooks.telemetry.span_limits import attribute_room, longest_text, present

Redact: TypeAlias = Callable[[Contents], Contents]
Find: TypeAlias = Callable[[Run], tuple[bool, Span | None]]

_FORMS: Final = {
    RunKind.RETRIEVER: ("retrieval", "RETRIEVER", trace.SpanKind.CLIENT),
    RunKind.MODEL: ("chat", "LLM", trace.SpanKind.CLIENT),
    RunKind.TOOL: ("execute_tool", "TOOL", trace.SpanKind.INTERNAL),
    RunKind.EMBEDDING: ("embeddings", "EMBEDDING", trace.SpanKind.CLIENT),
    RunKind.RERANKER: ("rerank", "RERANKER", trace.SpanKind.INTERNAL),
}
_MOST_WAITING: Final = 1000
"""Maximum number of requests whose spans wait for the background thread."""
_MOST_WAITING_CHARS: Final = 2_000_000
"""Maximum number of characters in the waiting spans, because redaction takes seconds."""


@dataclass(frozen=True, slots=True)
class RequestSpan:
    context: SpanContext
    held: HeldSpan | None = None
    recorded: bool = True
    deferred: DeferredSpan | None = None

    @property
    def trace_id(self) -> str | None:
        return trace.format_trace_id(self.context.trace_id) if self.context.is_valid else None

    @property
    def span_id(self) -> str | None:
        known = self.context.is_valid and self.recorded
        return trace.format_span_id(self.context.span_id) if known else None

    def complete(self) -> None:
        if self.deferred is not None:
            self.deferred.complete()


def application_span(otel: OtelContext) -> RequestSpan:
    context = trace.get_current_span(otel).get_span_context()
    return RequestSpan(context, recorded=context.trace_flags.sampled)


class SpanWriter:
    """Writes a request's spans. A background thread calls `drain` to complete the spans."""

    def __init__(
        self, provider: TracerProvider | None, config: RagEvalConfig, incidents: Incidents
    ) -> None:
        self._tracer = trace.get_tracer(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )
        self._provider, self._mode, self._content = provider, config.spans, config.capture_content
        self._incidents = incidents
        self.forked()

    def forked(self) -> None:
        # After a fork, the parent process writes the waiting spans, so drop the spans here.
        self._waiting: deque[DeferredSpan] = deque()
        self._waiting_chars = 0
        self._draining = threading.Lock()

    @property
    def has_trace(self) -> bool:
        provider = self._provider or trace.get_tracer_provider()
        is_set = not isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
        return is_set or trace.get_current_span() is not trace.INVALID_SPAN

    def begin(self, interaction: Interaction, redact: Redact = dict) -> RequestSpan:
        others = interaction.others or Others()
        if others.span is not None:
            return RequestSpan(others.span.context, others.span.held)
        if others.unrecorded is not None:
            return RequestSpan(others.unrecorded, recorded=False)
        if self._mode == "none":
            return application_span(interaction.otel)
        span = self._start_root(interaction)
        if not span.is_recording():
            return RequestSpan(span.get_span_context(), recorded=False)
        with_children = self._mode == "all" or (self._mode != "root" and not others.active)

        def write(content: bool) -> None:
            with_content = content and self._content
            self._write_root(interaction, span, redact, with_content)
            if with_children:
                self._write_children(interaction, span, redact, with_content)

        deferred = DeferredSpan(span, write, interaction.chars, self._incidents)
        self._defer(deferred)
        end = interaction.root.end
        held = None if end is None else HeldSpan(deferred, end)
        return RequestSpan(span.get_span_context(), held, deferred=deferred)

    def _defer(self, deferred: DeferredSpan) -> None:
        chars = self._waiting_chars + deferred.chars
        if len(self._waiting) >= _MOST_WAITING or chars > _MOST_WAITING_CHARS:
            if self._content:
                self._incidents.count("span content omitted")
            deferred.complete(content=False)
            return
        # If threads race, the sum is inexact. `drain` resets the sum.
        self._waiting_chars = chars
        self._waiting.append(deferred)

    def drain(self) -> None:
        with self._draining, contextlib.suppress(IndexError):
            while True:
                deferred = self._waiting.popleft()
                self._waiting_chars -= deferred.chars
                deferred.complete()
        self._waiting_chars = 0

    def _start_root(self, interaction: Interaction) -> Span:
        root = interaction.root
        agent = root.facts.get(semconv.GEN_AI_AGENT_NAME)
        operation = "invoke_workflow" if agent is None else "invoke_agent"
        attributes = {
            semconv.GEN_AI_OPERATION_NAME: operation,
            semconv.GEN_AI_WORKFLOW_NAME: root.name,
            semconv.OPENINFERENCE_SPAN_KIND: "CHAIN" if agent is None else "AGENT",
            semconv.GEN_AI_AGENT_NAME: agent,
        }
        name = f"{operation} {root.name if agent is None else agent}"
        return self._tracer.start_span(
            name, interaction.otel, attributes=present(attributes), start_time=root.start
        )

    def _write_root(
        self, interaction: Interaction, span: Span, redact: Redact, content: bool
    ) -> None:
        _mark_failure(span, interaction.root.error_type, interaction.status)
        private = Contents()
        if session := text_of(interaction.metadata, *SESSION_KEYS):
            private = {semconv.GEN_AI_CONVERSATION_ID: session, semconv.SESSION_ID: session}
        if (user := text_of(interaction.metadata, "user_id")) is not None:
            private[semconv.USER_ID] = user
        if content:
            # Like the sample, use inner runs if the root has no question or answer.
            private |= request_content(question_of(interaction)[0] or None, answer_of(interaction))
        self._set(span, redact(private))

    def _set(self, span: Span, content: Contents) -> None:
        limit = longest_text(span) or limits.CONTENT_CHARS
        span.set_attributes(plain(content, min(limit, limits.CONTENT_CHARS)))

    def _write_children(
        self, interaction: Interaction, root_span: Span, redact: Redact, content: bool
    ) -> None:
        otel = {interaction.root: trace.set_span_in_context(root_span, interaction.otel)}
        documents = {found.run: found.contexts for found in interaction.lists}
        for run in interaction.runs[1:]:
            if run.kind not in _FORMS:
                continue
            # Runs before an interrupt belong to another root, which has no span.
            around = next((one for one in run.ancestors() if one in otel), interaction.root)
            span = self._start_child(run, otel[around])
            if content:
                found = documents.get(run, ())
                self._set(span, redact(content_of(run, found, attribute_room(span))))
            # Times are explicit, so a span can end before its children start.
            span.end(run.end)
            if run.kind is not RunKind.MODEL:
                otel[run] = trace.set_span_in_context(span, interaction.otel)

    def _start_child(self, run: Run, parent: OtelContext) -> Span:
        operation, openinference_kind, kind = _FORMS[run.kind]
        is_retrieval = run.kind is RunKind.RETRIEVER
        key = semconv.GEN_AI_DATA_SOURCE_ID if is_retrieval else semconv.GEN_AI_REQUEST_MODEL
        attributes = {
            semconv.GEN_AI_OPERATION_NAME: operation,
            semconv.OPENINFERENCE_SPAN_KIND: openinference_kind,
            **run.facts,
        }
        name = f"{operation} {run.facts.get(key, run.name)}"
        span = self._tracer.start_span(
            name, parent, kind=kind, attributes=attributes, start_time=run.start
        )
        _mark_failure(span, run.error_type, Status.OK)
        return span


class OtherInstrumentors:
    """Finds the spans that other OpenTelemetry instrumentors write for a request."""

    # If false, no processor holds spans of other instrumentors until the scores exist.
    can_wait = True

    def __init__(self, mode: str, spans: OtherSpans, incidents: Incidents) -> None:
        self._wanted = mode in ("auto", "sampled", "none")
        self._spans = spans
        self._incidents = incidents

    def note(self, run: Run, find: Find) -> None:
        if not self._wanted:
            return
        interaction, top = run.interaction, _framework_root(run)
        others = interaction.others
        # Some instrumentors see the root late, or add their handler when a retriever starts.
        looks_again = others is None or (others.span is None and run.kind is RunKind.RETRIEVER)
        if top is run or not looks_again:
            return
        try:
            active, span = find(top)
            was_active = others is not None and others.active
            interaction.others = self._found(interaction, active or was_active, span, top)
        except Exception as error:  # noqa: BLE001 - other instrumentors' objects may raise anything
            self._incidents.report("other instrumentors", error)
            interaction.others = others or Others()

    def _found(self, interaction: Interaction, active: bool, span: Span | None, top: Run) -> Others:
        # In a manual interaction, the other instrumentor's span covers only part of the request.
        if span is None or top is not interaction.root or not self.can_wait:
            return Others(active)
        if not span.is_recording():
            return Others(active, unrecorded=span.get_span_context())
        return Others(active, self._spans.add(span, lambda: interaction.may_retrieve))


def _framework_root(run: Run) -> Run:
    while run.parent is not None and run.parent.kind is not RunKind.MANUAL:
        run = run.parent
    return run


def _mark_failure(span: Span, error_type: str | None, status: Status) -> None:
    if error_type is None and status in (Status.OK, Status.CLOSED, Status.INTERRUPTED):
        return
    span.set_attribute(semconv.ERROR_TYPE, error_type or status.value)
    span.set_status(trace.StatusCode.ERROR)
