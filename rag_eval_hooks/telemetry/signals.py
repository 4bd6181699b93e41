"""Sends spans and log events of evaluations, judge calls and feedback, linked to the RAG span."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from opentelemetry import _logs, trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TracerProvider,
)

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.calls import Call, Operation
from rag_eval_hooks.config import limits
from rag_eval_hooks.explanation import explain
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.request import Attributes
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Score
from rag_eval_hooks.telemetry.score_attributes import ScoreAttributes
from rag_eval_hooks.telemetry.span_limits import attribute_room, fitting, longest_text, present

_MAX_RESULTS: Final = 20  # per span
_KINDS: Final = {
    Operation.CHAT: "LLM",
    Operation.DECISION: "DECISION",
    Operation.EMBEDDINGS: "EMBEDDING",
}
_USER_FEEDBACK: Final = "user_feedback"  # evaluation name in spans and log events


def recorded_span(trace_id: str | None, span_id: str | None) -> SpanContext | None:
    try:
        ids = int(trace_id or "", 16), int(span_id or "", 16)
    except ValueError:
        return None
    context = SpanContext(*ids, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return context if context.is_valid else None


def around(span: SpanContext | None) -> Context:
    if span is None:
        return Context()
    return trace.set_span_in_context(NonRecordingSpan(span), Context())


def context_of(sample: Sample) -> Context:
    return around(recorded_span(sample.trace_id, sample.span_id))


class EvaluationSpans:
    def __init__(self, provider: TracerProvider | None, *, mode: str, content: bool) -> None:
        self._tracer = trace.get_tracer(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )
        self._mode = mode
        self._content = content
        self.only_late = mode == "late"

    def start(self, evaluation: Evaluation, attributes: Attributes) -> list[Span]:
        target = recorded_span(evaluation.sample.trace_id, evaluation.sample.span_id)
        if self._mode == "off" or target is None:
            return []
        spans, number = [self._start(evaluation, target)], 0
        spans[0].set_attributes(fitting(spans[0], attributes))
        for name in evaluation.scores:
            fields = self._fields(evaluation, name, spans[0])
            room = attribute_room(spans[-1])
            if number == _MAX_RESULTS or (room is not None and room < len(fields)):
                spans.append(self._start(evaluation, target))
                number, room = 0, attribute_room(spans[-1])
            if room is not None and room < len(fields):
                # The result fits on no span, and the SDK would drop other attributes for it.
                continue
            result = {semconv.evaluation(number, key): value for key, value in fields.items()}
            spans[-1].set_attributes(result)
            number += 1
        return [span for span in spans if span.is_recording()]

    def end(self, spans: Sequence[Span], evaluation: Evaluation) -> None:
        with ExitStack() as ends:
            for span in reversed(spans):
                ends.callback(span.end, self._times(evaluation)[1])
            for call in evaluation.log if spans else ():
                self._write_call(call, spans[0])

    def write_feedback(self, feedback: Feedback, about: SpanContext) -> None:
        attributes: dict[str, str | float | None] = {
            semconv.GEN_AI_OPERATION_NAME: "evaluation",
            semconv.OPENINFERENCE_SPAN_KIND: "EVALUATOR",
            semconv.evaluation(0, "name"): _USER_FEEDBACK,
            semconv.evaluation(0, "score"): feedback.score,
            semconv.evaluation(0, "label"): feedback.label,
            semconv.evaluation(0, "annotator_kind"): "HUMAN",
            semconv.evaluation(0, "identifier"): feedback.id,
        }
        span = self._tracer.start_span(
            f"evaluation {_USER_FEEDBACK}",
            Context(),
            links=[Link(about)],
            attributes=present(attributes),
            start_time=feedback.time,
        )
        span.end(feedback.time)

    def _times(self, evaluation: Evaluation) -> tuple[int, int]:
        if self._mode == "trace":
            return evaluation.start, evaluation.end
        # With the request's end time, the evaluation does not lengthen the trace.
        at = evaluation.sample.ended_at or evaluation.start
        return at, at

    def _write_call(self, call: Call, below: Span) -> None:
        # Omit prompts, because prompts quote the application's texts.
        span = self._tracer.start_span(
            f"{call.caller.operation} {call.caller.model}",
            trace.set_span_in_context(below, Context()),
            kind=SpanKind.INTERNAL if call.caller.local else SpanKind.CLIENT,
            attributes=_call_attributes(call),
            start_time=call.start,
        )
        if call.error is not None:
            span.set_status(StatusCode.ERROR)
        span.end(call.end)

    def _start(self, evaluation: Evaluation, target: SpanContext) -> Span:
        sample = evaluation.sample
        ended = datetime.fromtimestamp(evaluation.end / 1e9, UTC)
        about = {
            semconv.OPENINFERENCE_SPAN_KIND: "EVALUATOR",
            semconv.GEN_AI_OPERATION_NAME: "evaluation",
            semconv.GEN_AI_WORKFLOW_NAME: sample.workflow,
            semconv.SESSION_ID: sample.session_id,
            semconv.EVAL_EVALUATED_AT: ended.isoformat(timespec="milliseconds"),
        }
        return self._tracer.start_span(
            f"evaluation {sample.workflow}" if sample.workflow else "evaluation",
            # Do not use the current context, because that context may belong to the application.
            Context() if self._mode == "trace" else context_of(sample),
            links=[Link(target)],
            attributes=present(about),
            start_time=self._times(evaluation)[0],
        )

    def _fields(self, evaluation: Evaluation, name: str, span: Span) -> Attributes:
        # Shorten long texts here, so that the JSON stays valid. The SDK would cut the JSON.
        chars = min(limits.EXPLANATION_CHARS, longest_text(span) or limits.EXPLANATION_CHARS)
        score = evaluation.scores[name]
        details = score_details(score)
        if score.warnings:
            # A user's metric may quote the application's texts in a warning.
            details["warnings"] = [*score.warnings] if self._content else len(score.warnings)
        return present(
            {
                "name": name,
                "score": score.value,
                "label": evaluation.label(name),
                "explanation": explain(score.explanation, chars, content=self._content),
                "annotator_kind": score.annotator_kind.value,
                "identifier": score.annotator or semconv.TRACER_NAME,
                "metadata": explain(details, chars, content=True),
            }
        )


def _call_attributes(call: Call) -> Attributes:
    caller = call.caller
    about: dict[str, str | float | None] = {
        semconv.GEN_AI_OPERATION_NAME: caller.operation.value,
        semconv.OPENINFERENCE_SPAN_KIND: _KINDS.get(caller.operation, "EVALUATOR"),
        semconv.GEN_AI_PROVIDER_NAME: caller.provider,
        semconv.GEN_AI_REQUEST_MODEL: caller.model,
        semconv.GEN_AI_RESPONSE_MODEL: call.response_model,
        semconv.GEN_AI_RESPONSE_ID: call.response_id,
        semconv.GEN_AI_INPUT_TOKENS: round(call.input_tokens) or None,
        semconv.GEN_AI_OUTPUT_TOKENS: round(call.output_tokens) or None,
        semconv.ERROR_TYPE: call.error,
    }
    return present(about)


def score_details(score: Score) -> dict[str, Any]:
    details: dict[str, Any] = {
        "version": score.version,
        "parts": dict(score.parts),
        "usage": {key: value for key, value in asdict(score.usage).items() if value},
        "sample_rate": score.probability,
        "sample_rate_estimated": score.probability_estimated,
        "reason": score.reason,
        "screening": score.screening,
    }
    return {key: value for key, value in details.items() if value}


class EventEmitter:
    def __init__(self, provider: _logs.LoggerProvider | None) -> None:
        self._logger = _logs.get_logger(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )

    def emit(self, evaluation: Evaluation, attributes: ScoreAttributes) -> None:
        # Skip disabled loggers, because explanations take time to write. The OpenTelemetry API 1.38
        # and 1.39 has no `enabled`.
        if not getattr(self._logger, "enabled", lambda: True)():
            return
        context, now = context_of(evaluation.sample), time.time_ns()
        for name in (*evaluation.scores, *evaluation.unscored):
            self._send(now, context, attributes.event(evaluation, name))

    def emit_feedback(self, feedback: Feedback, about: SpanContext) -> None:
        told = {
            semconv.GEN_AI_EVALUATION_NAME: _USER_FEEDBACK,
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
