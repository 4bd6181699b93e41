"""Emits log events `gen_ai.evaluation.result` for each metric, in the RAG span's context."""

from __future__ import annotations

import time

from opentelemetry import _logs
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.telemetry.attribute_limits import Attributes, present
from rag_eval_hooks.telemetry.rag_span import around, context_of
from rag_eval_hooks.telemetry.score_attributes import ScoreAttributes

__all__ = ["USER_FEEDBACK", "EventEmitter"]

USER_FEEDBACK = "user_feedback"
"""Evaluation name of feedback in spans and log events."""


class EventEmitter:
    def __init__(self, provider: _logs.LoggerProvider | None) -> None:
        self._logger = _logs.get_logger(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )

    def emit(self, evaluation: Evaluation, attributes: ScoreAttributes) -> None:
        context, now = context_of(evaluation.sample), time.time_ns()
        for name in (*evaluation.scores, *evaluation.unscored):
            self._send(now, context, attributes.event(evaluation, name))

    def emit_feedback(self, feedback: Feedback, about: SpanContext) -> None:
        told = {
            semconv.GEN_AI_EVALUATION_NAME: USER_FEEDBACK,
            semconv.GEN_AI_EVALUATION_SCORE: feedback.score,
            semconv.GEN_AI_EVALUATION_LABEL: feedback.label,
        }
        self._send(feedback.time, around(about), present(told))

    def _send(self, timestamp: int, context: Context, attributes: Attributes) -> None:
        self._logger.emit(
            timestamp=timestamp,
            context=context,
            severity_number=_logs.SeverityNumber.INFO,
            event_name=semconv.GEN_AI_EVALUATION_EVENT,
            attributes=attributes,
        )
