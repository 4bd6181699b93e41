"""Log events `gen_ai.evaluation.result`: one for each metric, in the RAG span's context."""

from __future__ import annotations

import importlib
import inspect
import time
from typing import Any, TypeAlias

from opentelemetry import _logs, trace
from opentelemetry.context import Context

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.telemetry.attribute_limits import Attributes, present
from rag_eval_hooks.telemetry.rag_span import context_of

__all__ = ["EventEmitter", "Events", "events_of"]

_Attributes: TypeAlias = dict[str, Any]


class EventEmitter:
    """Emits events to the application's logger provider, if it has one.

    From opentelemetry-api 1.38, events are log records with a name. Earlier versions have an
    events API, which needs an event logger provider.
    """

    def __init__(
        self, provider: _logs.LoggerProvider | None, *, content: bool, max_chars: int
    ) -> None:
        self._events = events_of(provider)
        self._content = content
        self._max_chars = max_chars

    def results(self, evaluation: Evaluation) -> list[Attributes]:
        """Return the attributes of an event for each score."""
        return [self._result(evaluation, name) for name in evaluation.scores]

    def emit(self, evaluation: Evaluation) -> None:
        """Emit an event for each score, and one with the cause for each metric that failed."""
        context, now = context_of(evaluation.sample), time.time_ns()
        if not self._events.wanted(context):
            return
        for attributes in map(dict, self.results(evaluation)):
            self._events.emit(now, context, attributes)
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


def events_of(provider: _logs.LoggerProvider | None) -> Events:
    """Return the API for events that the installed version of OpenTelemetry has."""
    if "event_name" in inspect.signature(_logs.Logger.emit).parameters:
        return _Records(provider)
    return _OldEvents()


class _Records:
    """Events as log records with a name, in the context of the RAG span."""

    def __init__(self, provider: _logs.LoggerProvider | None) -> None:
        self._logger = _logs.get_logger(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )

    def wanted(self, context: Context) -> bool:
        """Return True if an event would be processed. May change from event to event."""
        # Earlier versions cannot tell.
        enabled = getattr(self._logger, "enabled", None)
        return enabled is None or bool(
            enabled(
                context=context,
                severity_number=_logs.SeverityNumber.INFO,
                event_name=semconv.GEN_AI_EVALUATION_EVENT,
            )
        )

    def emit(self, timestamp: int, context: Context, attributes: _Attributes) -> None:
        self._logger.emit(
            timestamp=timestamp,
            context=context,
            severity_number=_logs.SeverityNumber.INFO,
            event_name=semconv.GEN_AI_EVALUATION_EVENT,
            attributes=attributes,
        )


class _OldEvents:
    """Events API of opentelemetry-api before 1.38."""

    def __init__(self) -> None:
        # Removed in later versions, where a static import would not type-check.
        self._events: Any = importlib.import_module("opentelemetry._events")
        self._logger = self._events.get_event_logger(
            semconv.TRACER_NAME, __version__, semconv.SCHEMA_URL
        )

    def wanted(self, context: Context) -> bool:
        return True

    def emit(self, timestamp: int, context: Context, attributes: _Attributes) -> None:
        span = trace.get_current_span(context).get_span_context()
        self._logger.emit(
            self._events.Event(
                name=semconv.GEN_AI_EVALUATION_EVENT,
                timestamp=timestamp,
                trace_id=span.trace_id,
                span_id=span.span_id,
                trace_flags=span.trace_flags,
                severity_number=_logs.SeverityNumber.INFO,
                attributes=attributes,
            )
        )


Events: TypeAlias = _Records | _OldEvents
"""API through which events `gen_ai.evaluation.result` are emitted."""
