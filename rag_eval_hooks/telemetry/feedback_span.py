"""Feedback in the application's traces: a span and a log event that refer to the RAG span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace
from opentelemetry.trace import Link, SpanContext, TracerProvider

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.telemetry.limits import present
from rag_eval_hooks.telemetry.log_events import events_of
from rag_eval_hooks.telemetry.rag_span import around, recorded_span

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

__all__ = ["FeedbackSpanSink"]

_NAME = "user_feedback"
"""Name of the feedback among evaluations."""


class FeedbackSpanSink:
    """Records each feedback as a span and a log event.

    The RAG span has long ended and accepts no more attributes. So a span `evaluation
    user_feedback` in a trace of its own links to it. A log event `gen_ai.evaluation.result` with
    the context of the RAG span is part of its trace, if the application has a logger provider. A
    reference is content and is on neither.
    """

    def __init__(
        self,
        provider: TracerProvider | None = None,
        logger_provider: LoggerProvider | None = None,
    ) -> None:
        self._events = events_of(logger_provider)
        self._tracer = trace.get_tracer(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )

    def close(self) -> None:
        """Do nothing: the sink holds nothing."""

    def feedback(self, feedback: Feedback) -> None:
        """Write a span and an event, if the RAG span of the feedback was recorded."""
        about = recorded_span(feedback.trace_id, feedback.span_id)
        if about is None:
            return
        span = self._tracer.start_span(
            f"evaluation {_NAME}",
            context.Context(),
            links=[Link(about)],
            attributes=_span_attributes(feedback),
            start_time=feedback.time,
        )
        span.end(feedback.time)
        self._emit(feedback, about)

    def _emit(self, feedback: Feedback, about: SpanContext) -> None:
        place = around(about)
        if not self._events.wanted(place):
            return
        attributes: dict[str, str | float | None] = {
            semconv.GEN_AI_EVALUATION_NAME: _NAME,
            semconv.GEN_AI_EVALUATION_SCORE: feedback.score,
            semconv.GEN_AI_EVALUATION_LABEL: feedback.label,
        }
        self._events.emit(feedback.time, place, present(attributes))


def _span_attributes(feedback: Feedback) -> dict[str, Any]:
    fields: dict[str, str | float | None] = {
        "name": _NAME,
        "score": feedback.score,
        "label": feedback.label,
        "annotator_kind": "HUMAN",
        "identifier": feedback.id,
    }
    return {
        semconv.GEN_AI_OPERATION_NAME: "evaluation",
        semconv.OPENINFERENCE_SPAN_KIND: "EVALUATOR",
        **{semconv.evaluation(0, key): value for key, value in present(fields).items()},
    }
