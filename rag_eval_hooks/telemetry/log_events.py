"""Log events `gen_ai.evaluation.result`: one for each metric, in the RAG span's context."""

from __future__ import annotations

import time
from typing import Any, TypeAlias

from opentelemetry import _logs
from opentelemetry.context import Context

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.telemetry.attribute_limits import present
from rag_eval_hooks.telemetry.rag_span import context_of

__all__ = ["EventEmitter", "Events"]

_Attributes: TypeAlias = dict[str, Any]


class EventEmitter:
    """Emits events to the application's logger provider, if it has one."""

    def __init__(
        self, provider: _logs.LoggerProvider | None, *, content: bool, max_chars: int
    ) -> None:
        self._events = Events(provider)
        self._content = content
        self._max_chars = max_chars

    def emit(self, evaluation: Evaluation) -> None:
        """Emit an event for each score, and one with the cause for each metric that failed."""
        context, now = context_of(evaluation.sample), time.time_ns()
        if not self._events.wanted(context):
            return
        for name in evaluation.scores:
            self._events.emit(now, context, self._result(evaluation, name))
        for name, failure in evaluation.unscored.items():
            cause = {semconv.ERROR_TYPE: failure.cause.value}
            if failure.undecided:
                cause = {
                    semconv.GEN_AI_EVALUATION_LABEL: "undecided",
                    semconv.GEN_AI_EVALUATION_EXPLANATION: failure.detail,
                }
            self._events.emit(now, context, {**_subject(evaluation, name), **cause})

    def _result(self, evaluation: Evaluation, name: str) -> _Attributes:
        score = evaluation.scores[name]
        return present(
            {
                **_subject(evaluation, name),
                semconv.GEN_AI_EVALUATION_SCORE: score.value,
                semconv.GEN_AI_EVALUATION_LABEL: evaluation.label(name),
                semconv.GEN_AI_EVALUATION_EXPLANATION: evaluation.explanation(
                    name, self._max_chars, content=self._content
                ),
                semconv.EVAL_PASS: evaluation.verdicts.get(name),
                semconv.EVAL_SCREENING: score.screening or None,
                semconv.EVAL_SAMPLE_RATE: score.probability,
                semconv.EVAL_SAMPLE_RATE_ESTIMATED: score.probability_estimated or None,
            }
        )


def _subject(evaluation: Evaluation, name: str) -> dict[str, str]:
    reply = {semconv.GEN_AI_RESPONSE_ID: evaluation.sample.response_id}
    return {semconv.GEN_AI_EVALUATION_NAME: name, **present(reply)}


class Events:
    """Events as log records with a name, in the context of the RAG span."""

    def __init__(self, provider: _logs.LoggerProvider | None) -> None:
        self._logger = _logs.get_logger(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )

    def wanted(self, context: Context) -> bool:
        """Return True if an event would be processed. May change from event to event."""
        # The API of 1.38 and 1.39 cannot tell.
        enabled = getattr(self._logger, "enabled", None)
        return enabled is None or bool(
            enabled(
                context=context,
                severity_number=_logs.SeverityNumber.INFO,
                event_name=semconv.GEN_AI_EVALUATION_EVENT,
            )
        )

    def emit(self, timestamp: int, context: Context, attributes: _Attributes) -> None:
        """Emit one event."""
        self._logger.emit(
            timestamp=timestamp,
            context=context,
            severity_number=_logs.SeverityNumber.INFO,
            event_name=semconv.GEN_AI_EVALUATION_EVENT,
            attributes=attributes,
        )
