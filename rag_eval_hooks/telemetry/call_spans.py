"""Spans of judge, embedding and scorer calls, below the span of their evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, TracerProvider

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.calls import Call, Operation
from rag_eval_hooks.telemetry.limits import Attributes

__all__ = ["CallSpans"]

_KINDS: Final = {Operation.CHAT: "LLM", Operation.EMBEDDINGS: "EMBEDDING"}


class CallSpans:
    """Writes a span `chat <model>` or `embeddings <model>` for each logged call.

    They hold no content: a prompt quotes the application's texts.

    Args:
        provider: A tracer provider, or None for the global one, also when it is set later.
    """

    def __init__(self, provider: TracerProvider | None) -> None:
        self._tracer: Tracer = trace.get_tracer(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )

    def write(self, calls: Iterable[Call], carrier: Span) -> None:
        """Write the spans, each with the times of its call.

        Args:
            calls: Logged calls.
            carrier: Parent of the spans.
        """
        parent = trace.set_span_in_context(carrier, Context())
        for call in calls:
            span = self._tracer.start_span(
                f"{call.caller.operation} {call.caller.model}",
                parent,
                kind=SpanKind.INTERNAL if call.caller.local else SpanKind.CLIENT,
                attributes=_attributes(call),
                start_time=call.start,
            )
            if call.error is not None:
                span.set_status(StatusCode.ERROR)
            span.end(call.end)


def _attributes(call: Call) -> Attributes:
    attributes: dict[str, str | int | None] = {
        semconv.GEN_AI_OPERATION_NAME: call.caller.operation.value,
        semconv.OPENINFERENCE_SPAN_KIND: _KINDS.get(call.caller.operation, "EVALUATOR"),
        semconv.GEN_AI_PROVIDER_NAME: call.caller.provider,
        semconv.GEN_AI_REQUEST_MODEL: call.caller.model,
        semconv.GEN_AI_RESPONSE_MODEL: call.response_model,
        semconv.GEN_AI_RESPONSE_ID: call.response_id,
        semconv.GEN_AI_INPUT_TOKENS: round(call.input_tokens) or None,
        semconv.GEN_AI_OUTPUT_TOKENS: round(call.output_tokens) or None,
        semconv.ERROR_TYPE: call.error,
    }
    return {key: value for key, value in attributes.items() if value is not None}
