"""Log events `gen_ai.evaluation.result`: one for each metric, in the RAG span's context."""

from __future__ import annotations

import time
from typing import Any

from opentelemetry import _logs
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.config import limits
from rag_eval_hooks.explanation_text import explain
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.telemetry.attribute_limits import present
from rag_eval_hooks.telemetry.rag_span import around, context_of
from rag_eval_hooks.telemetry.thresholds import Thresholds

__all__ = ["USER_FEEDBACK", "EventEmitter"]

USER_FEEDBACK = "user_feedback"
"""Name of feedback among evaluations."""


class EventEmitter:
    """Emits events to the application's logger provider, if it has one."""

    def __init__(self, provider: _logs.LoggerProvider | None, *, content: bool = False) -> None:
        self._logger = _logs.get_logger(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )
        self._content = content

    def emit(self, evaluation: Evaluation, thresholds: Thresholds) -> None:
        """Emit an event for each score, and one with the cause for each metric that failed."""
        context, now = context_of(evaluation.sample), time.time_ns()
        if not self._is_taken(context):
            return
        for name in (*evaluation.scores, *evaluation.unscored):
            about = {
                semconv.GEN_AI_EVALUATION_NAME: name,
                semconv.GEN_AI_RESPONSE_ID: evaluation.sample.response_id,
            }
            if (score := evaluation.scores.get(name)) is None:
                told = _failure(evaluation, name)
            else:
                told = {
                    **_score(evaluation, name),
                    semconv.GEN_AI_EVALUATION_EXPLANATION: thresholds.reason(
                        name, score, content=self._content
                    ),
                    semconv.EVAL_EXPLANATION: explain(
                        score.explanation, limits.EXPLANATION_CHARS, content=self._content
                    ),
                }
            self._send(now, context, {**about, **told})

    def emit_feedback(self, feedback: Feedback, about: SpanContext) -> None:
        """Emit an event for a feedback on a RAG span."""
        context = around(about)
        if self._is_taken(context):
            told = {
                semconv.GEN_AI_EVALUATION_NAME: USER_FEEDBACK,
                semconv.GEN_AI_EVALUATION_SCORE: feedback.score,
                semconv.GEN_AI_EVALUATION_LABEL: feedback.label,
            }
            self._send(feedback.time, context, told)

    def _is_taken(self, context: Context) -> bool:
        """Return whether anybody takes events. May change from event to event."""
        # The API of 1.38 and 1.39 cannot tell.
        enabled = getattr(self._logger, "enabled", None)
        return enabled is None or bool(
            enabled(
                context=context,
                severity_number=_logs.SeverityNumber.INFO,
                event_name=semconv.GEN_AI_EVALUATION_EVENT,
            )
        )

    def _send(self, timestamp: int, context: Context, attributes: dict[str, Any]) -> None:
        self._logger.emit(
            timestamp=timestamp,
            context=context,
            severity_number=_logs.SeverityNumber.INFO,
            event_name=semconv.GEN_AI_EVALUATION_EVENT,
            attributes=present(attributes),
        )


def _score(evaluation: Evaluation, name: str) -> dict[str, Any]:
    score = evaluation.scores[name]
    return {
        semconv.GEN_AI_EVALUATION_SCORE: score.value,
        semconv.GEN_AI_EVALUATION_LABEL: evaluation.label(name),
        semconv.EVAL_PASS: evaluation.verdicts.get(name),
        semconv.EVAL_SCREENING: score.screening or None,
        semconv.EVAL_SAMPLE_RATE: score.probability,
        semconv.EVAL_SAMPLE_RATE_ESTIMATED: score.probability_estimated or None,
    }


def _failure(evaluation: Evaluation, name: str) -> dict[str, Any]:
    failure = evaluation.unscored[name]
    if not failure.undecided:
        return {semconv.ERROR_TYPE: failure.cause.value}
    return {
        semconv.GEN_AI_EVALUATION_LABEL: "undecided",
        semconv.GEN_AI_EVALUATION_EXPLANATION: failure.detail,
    }
