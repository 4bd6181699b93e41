"""The span that stands for a request, and its completion off the request's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.trace import Span, SpanContext, format_span_id, format_trace_id

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import HeldSpan
from rag_eval_hooks.telemetry.attribute_limits import Attributes, SpanEvent, complete

__all__ = ["DeferredSpan", "RequestSpan", "application_span"]


class DeferredSpan:
    """RAG span that exists with its ids while its content and its children are still to be written.

    It can be held like any span: scores and the end are kept until it is complete. Thread-safe;
    the span is ended exactly once.

    Args:
        span: The started span.
        write: Writes what is missing. Takes whether to write the application's text as well.
        chars: Characters of text that are kept in memory until then.
        incidents: Counts exceptions of span processors.
    """

    def __init__(
        self, span: Span, write: Callable[[bool], None], chars: int, incidents: Incidents
    ) -> None:
        self.chars = chars
        self._span = span
        self._write: Callable[[bool], None] | None = write
        self._incidents = incidents
        # Held while spans are written: the sample is built after them with the same redaction.
        self._writing = threading.Lock()
        self._lock = threading.Lock()
        self._complete = False
        self._ended = False
        self._end_time: int | None = None
        self._attributes: Attributes = {}
        self._links: list[SpanContext] = []
        self._events: list[SpanEvent] = []

    @property
    def is_complete(self) -> bool:
        """True once all has been written but the scores and the end."""
        return self._complete

    def complete(self, *, content: bool = True) -> None:
        """Write what is missing, and end the span if its end was asked for. Idempotent.

        Args:
            content: Whether to write the application's text as well.
        """
        with self._writing:
            write, self._write = self._write, None
            if write is None:
                return
            try:
                write(content)
            except Exception as error:  # noqa: BLE001 - the sink's edge: processors are the user's
                self._incidents.report("span start", error)
            with self._lock:
                self._complete, ended = True, self._ended
        if ended:
            try:
                self._finish()
            except Exception as error:  # noqa: BLE001 - the sink's edge: processors are the user's
                self._incidents.report("span end", error)

    def is_recording(self) -> bool:
        """Return whether it has not ended."""
        return not self._ended

    def set_attributes(self, attributes: Attributes) -> None:
        """Add attributes at the end, as many as the span has room for."""
        self._attributes = {**self._attributes, **attributes}

    def add_link(self, context: SpanContext) -> None:
        """Add a link at the end."""
        self._links.append(context)

    def add_event(
        self, name: str, attributes: Attributes | None = None, timestamp: int | None = None
    ) -> None:
        """Add an event at the end."""
        self._events.append((name, attributes, timestamp))

    def end(self, end_time: int | None = None) -> None:
        """End the span, at once if it is complete."""
        with self._lock:
            if self._ended:
                return
            self._ended, self._end_time = True, end_time
            if not self._complete:
                return
        self._finish()

    def _finish(self) -> None:
        complete(self._span, self._attributes, self._links, self._events)
        self._span.end(self._end_time)


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """Span that stands for an interaction, whoever writes it.

    Attributes:
        context: Its context; invalid where there is none.
        held: The span as it is held for its scores, if it takes any.
        recorded: Whether it will be found where spans go.
        deferred: The span if its content and children are still to be written.
    """

    context: SpanContext
    held: HeldSpan | None = None
    recorded: bool = True
    deferred: DeferredSpan | None = None

    @property
    def trace_id(self) -> str | None:
        """32 hex digits."""
        return format_trace_id(self.context.trace_id) if self.context.is_valid else None

    @property
    def span_id(self) -> str | None:
        """16 hex digits, of a span that is recorded."""
        known = self.context.is_valid and self.recorded
        return format_span_id(self.context.span_id) if known else None

    @property
    def is_foreign(self) -> bool:
        """True if another instrumentor's span is held for its scores."""
        return self.held is not None and self.deferred is None

    def complete(self) -> None:
        """Write the content and the children of the span, unless that is done."""
        if self.deferred is not None:
            self.deferred.complete()


def application_span(otel: OtelContext) -> RequestSpan:
    """Return the application's own span around an interaction, in place of one of ours."""
    context = trace.get_current_span(otel).get_span_context()
    return RequestSpan(context, recorded=context.trace_flags.sampled)
