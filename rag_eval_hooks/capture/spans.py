"""Emits the spans of an ended interaction: RAG, retrieval, model, tool, embedding."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    TracerProvider,
)

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.capture.answer import answer_of
from rag_eval_hooks.capture.content import Attributes, Contents, content_of, marked, plain, texts
from rag_eval_hooks.capture.conversation import session_of
from rag_eval_hooks.capture.messages import agent_messages
from rag_eval_hooks.capture.question import Rewritten, question_of
from rag_eval_hooks.capture.records import Interaction, Others, Run, RunKind
from rag_eval_hooks.capture.request_span import DeferredSpan, RequestSpan, application_span
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import HeldSpan
from rag_eval_hooks.sample import Status
from rag_eval_hooks.telemetry.attribute_limits import attribute_room, longest_text

__all__ = ["SpanWriter"]

Redact: TypeAlias = Callable[[Contents], Contents]
"""Takes out of attributes that hold content or ids what must not leave."""


@dataclass(frozen=True, slots=True)
class _SpanForm:
    """Form of a kind of run as a span."""

    operation: str
    openinference_kind: str
    span_kind: SpanKind


_FORMS: Mapping[RunKind, _SpanForm] = {
    RunKind.RETRIEVER: _SpanForm("retrieval", "RETRIEVER", SpanKind.CLIENT),
    RunKind.MODEL: _SpanForm("chat", "LLM", SpanKind.CLIENT),
    RunKind.TOOL: _SpanForm("execute_tool", "TOOL", SpanKind.INTERNAL),
    RunKind.EMBEDDING: _SpanForm("embeddings", "EMBEDDING", SpanKind.CLIENT),
    RunKind.RERANKER: _SpanForm("rerank", "RERANKER", SpanKind.INTERNAL),
}


_NO_OTHERS = Others()
_AUTO = ("auto", "sampled")
_MOST_WAITING = 1000
"""Requests whose spans may wait for the background thread."""
_MOST_WAITING_CHARS = 2_000_000
"""Characters of text that these may keep in memory: some seconds of redaction at most."""


class SpanWriter:
    """Writes spans after the fact, with the times at which things happened.

    A request ends with its RAG span started, so that its ids are known. Content, redaction and
    child spans are written later by `drain` in a background thread, or when the sample is built.
    Nothing is attached to any context, and an interaction that is dropped leaves no open span.
    The RAG span's parent is the span that was current when the root run began.

    Args:
        provider: A tracer provider, or None for the global one, also when it is set later.
        mode: The setting `spans`.
        capture_content: Whether questions, documents and answers are put on spans.
        content_max_length: Characters of one attribute with content.
        incidents: Counts exceptions of span processors, and content that was left out.
    """

    def __init__(
        self,
        provider: TracerProvider | None,
        *,
        mode: str = "all",
        capture_content: bool,
        content_max_length: int = 20_000,
        incidents: Incidents,
    ) -> None:
        self._tracer: Tracer = trace.get_tracer(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )
        self._mode = mode
        self._content = capture_content
        self._content_max = content_max_length
        self._incidents = incidents
        self.forked()

    def forked(self) -> None:
        """Forget what waits: the parent of a forked process writes it."""
        self._waiting: deque[DeferredSpan] = deque()
        self._waiting_chars = 0
        self._draining = threading.Lock()

    def begin(self, interaction: Interaction, redact: Redact = dict) -> RequestSpan:
        """Start the RAG span of an ended interaction, and queue the writing of the rest.

        Args:
            interaction: An ended one.
            redact: Applied to attributes with content or ids.

        Returns:
            The RAG span, not ended, so that scores can still be set on it. Without an SDK, or
            in a trace that is not sampled, it records nothing and has no children.
        """
        others = interaction.others or _NO_OTHERS
        if others.span is not None:
            return RequestSpan(others.span.context, others.span.held)
        if others.unrecorded is not None:
            return RequestSpan(others.unrecorded, recorded=False)
        mode = ("root" if others.active else "all") if self._mode in _AUTO else self._mode
        if mode == "none":
            return application_span(interaction.otel)
        span = self._start_root(interaction)
        context = span.get_span_context()
        if not span.is_recording():
            return RequestSpan(context, recorded=False)

        def write(content: bool) -> None:
            self._write_root(interaction, span, redact, content)
            if mode == "all":
                self._write_children(interaction, span, redact, content)

        deferred = DeferredSpan(span, write, interaction.chars, self._incidents)
        self._defer(deferred)
        end = interaction.root.end
        held = None if end is None else HeldSpan(deferred, end)
        return RequestSpan(context, held, deferred=deferred)

    def _defer(self, deferred: DeferredSpan) -> None:
        if self._is_full(deferred):
            self._forget_complete()
        if self._is_full(deferred):
            if self._content:
                self._incidents.count("span content left out")
            deferred.complete(content=False)
            return
        # Not exact where threads race; `drain` starts the sum anew.
        self._waiting_chars += deferred.chars
        self._waiting.append(deferred)

    def _is_full(self, deferred: DeferredSpan) -> bool:
        chars = self._waiting_chars + deferred.chars
        return len(self._waiting) >= _MOST_WAITING or chars > _MOST_WAITING_CHARS

    def _forget_complete(self) -> None:
        """Make room: spans that the evaluator has completed need no writing."""
        with contextlib.suppress(IndexError):
            while self._waiting[0].is_complete:
                self._waiting_chars -= self._waiting.popleft().chars

    def drain(self) -> None:
        """Write all that waits, and wait for what another thread is writing."""
        with self._draining, contextlib.suppress(IndexError):
            while True:
                self._waiting.popleft().complete()
        self._waiting_chars = 0

    def _start_root(self, interaction: Interaction) -> Span:
        root = interaction.root
        agent = root.facts.get(semconv.GEN_AI_AGENT_NAME)
        operation = "invoke_workflow" if agent is None else "invoke_agent"
        attributes: Attributes = {
            semconv.GEN_AI_OPERATION_NAME: operation,
            semconv.GEN_AI_WORKFLOW_NAME: root.name,
            semconv.OPENINFERENCE_SPAN_KIND: "CHAIN" if agent is None else "AGENT",
        }
        if agent is not None:
            attributes[semconv.GEN_AI_AGENT_NAME] = agent
        return self._tracer.start_span(
            f"{operation} {root.name if agent is None else agent}",
            interaction.otel,
            attributes=attributes,
            start_time=root.start,
        )

    def _write_root(
        self, interaction: Interaction, span: Span, redact: Redact, content: bool
    ) -> None:
        root, metadata = interaction.root, interaction.metadata
        _mark_failure(span, root.error_type, interaction.status)
        cut_texts = interaction.cut_texts
        private: Contents = {}
        if (session := session_of(metadata)) is not None:
            marked_session = marked(session, cut_texts) or ""
            private[semconv.GEN_AI_CONVERSATION_ID] = marked_session
            private[semconv.SESSION_ID] = marked_session
        if (user := metadata.get("user_id")) is not None:
            private[semconv.USER_ID] = marked(str(user), cut_texts) or ""
        if self._content and content:
            # As in the sample: a root may show neither, and the runs below it both.
            question = marked(question_of(interaction)[0] or None, cut_texts)
            answer = marked(answer_of(interaction), cut_texts)
            private |= {**texts(question, answer), **agent_messages(question, answer)}
        self._set(span, redact(private))

    def _set(self, span: Span, content: Contents) -> None:
        limit = min(self._content_max, longest_text(span) or self._content_max)
        span.set_attributes(plain(content, limit))

    def _write_children(
        self, interaction: Interaction, root_span: Span, redact: Redact, content: bool
    ) -> None:
        parents = _Parents(interaction, root_span)
        content = content and self._content
        rewritten = Rewritten(interaction) if content else None
        documents = {found.run: found for found in interaction.lists if content}
        for run in interaction.runs[1:]:
            form = _FORMS.get(run.kind)
            if form is None:
                continue
            span = self._start_child(run, form, parents.around(run))
            if rewritten is not None:
                found = rewritten.of(documents[run]) if run in documents else ()
                self._set(span, redact(content_of(run, found, attribute_room(span))))
            # Times are explicit, so a span can be ended before its children begin.
            span.end(run.end)
            if run.kind is not RunKind.MODEL:
                parents.add(run, span)

    def _start_child(self, run: Run, form: _SpanForm, parent: OtelContext) -> Span:
        attributes: Attributes = {
            semconv.GEN_AI_OPERATION_NAME: form.operation,
            semconv.OPENINFERENCE_SPAN_KIND: form.openinference_kind,
            **run.facts,
        }
        span = self._tracer.start_span(
            f"{form.operation} {_subject(run)}",
            parent,
            kind=form.span_kind,
            attributes=attributes,
            start_time=run.start,
        )
        _mark_failure(span, run.error_type, Status.OK)
        return span


class _Parents:
    """Contexts in which spans begin, each made once."""

    def __init__(self, interaction: Interaction, root_span: Span) -> None:
        self._root = interaction.root
        self._otel = interaction.otel
        self._spans = {interaction.root: root_span}
        self._contexts: dict[Run, OtelContext] = {}

    def add(self, run: Run, span: Span) -> None:
        """Add the span of a run."""
        self._spans[run] = span

    def around(self, run: Run) -> OtelContext:
        """Return the context of the nearest enclosing run that has a span, else of the root.

        What ran before an interrupt was begun by another root, which has no span.
        """
        outer = run.parent
        while outer is not None and outer not in self._spans:
            outer = outer.parent
        outer = self._root if outer is None else outer
        if outer not in self._contexts:
            span = self._spans[outer]
            self._contexts[outer] = trace.set_span_in_context(span, self._otel)
        return self._contexts[outer]


def _subject(run: Run) -> str:
    key = (
        semconv.GEN_AI_DATA_SOURCE_ID
        if run.kind is RunKind.RETRIEVER
        else semconv.GEN_AI_REQUEST_MODEL
    )
    return str(run.facts.get(key, run.name))


def _mark_failure(span: Span, error_type: str | None, status: Status) -> None:
    if error_type is None and status in (Status.OK, Status.CLOSED, Status.INTERRUPTED):
        return
    span.set_attribute(semconv.ERROR_TYPE, error_type or status.value)
    span.set_status(StatusCode.ERROR)
