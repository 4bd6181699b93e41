"""The span that stands for an interaction, whoever writes it."""

from __future__ import annotations

from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from rag_eval_hooks.telemetry.rag_span import HeldSpan

__all__ = ["RagSpan", "around"]


@dataclass(frozen=True, slots=True)
class RagSpan:
    """The span that stands for an interaction.

    Attributes:
        context: Its context; invalid where there is none.
        held: It, to be ended with its scores, where it takes any.
        recorded: Whether it will be found where spans go.
    """

    context: SpanContext
    held: HeldSpan | None
    recorded: bool = True

    @property
    def trace_id(self) -> str | None:
        """32 hex digits."""
        return format_trace_id(self.context.trace_id) if self.context.is_valid else None

    @property
    def span_id(self) -> str | None:
        """16 hex digits, of a span that is recorded."""
        known = self.context.is_valid and self.recorded
        return format_span_id(self.context.span_id) if known else None


def around(otel: OtelContext) -> RagSpan:
    """The application's own span around the interaction, which stands in for one of ours."""
    context = trace.get_current_span(otel).get_span_context()
    return RagSpan(context, None, recorded=context.trace_flags.sampled)
