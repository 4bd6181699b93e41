"""Sends all OpenTelemetry signals of requests and evaluations."""

from __future__ import annotations

import itertools
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ParamSpec, TypeVar

from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanContext, TracerProvider

from rag_eval_hooks import semconv
from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.incidents import Incidents, warn_once
from rag_eval_hooks.request import Attributes, Column, Ending, HeldSpan, Observer, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample, Status
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.telemetry.otel_metrics import MetricRecorder
from rag_eval_hooks.telemetry.score_attributes import ScoreAttributes, Thresholds
from rag_eval_hooks.telemetry.signals import EvaluationSpans, EventEmitter, recorded_span
from rag_eval_hooks.telemetry.tracing import global_providers

P = ParamSpec("P")
R = TypeVar("R")


class SpanHolder:
    """Holds each RAG span until its scores arrive or `hold_timeout` expires. Thread-safe."""

    def __init__(self, hold_timeout: float, incidents: Incidents) -> None:
        self._hold_timeout = hold_timeout
        self._max_held = limits.HELD_SPANS
        self._incidents = incidents
        self._closed = False
        self.forked()

    def forked(self) -> None:
        self._lock = threading.Lock()
        # Insertion order is deadline order, because all spans have the same timeout.
        self._held: dict[HeldSpan, None] = {}

    def hold(self, held: HeldSpan) -> None:
        with self._lock:
            if held in self._held:
                return
            held.deadline = time.monotonic() + self._hold_timeout
            room = len(self._held) < self._max_held and not self._closed
            if room:
                self._held[held] = None
        if not room:
            status = EvalStatus.SHUTDOWN if self._closed else EvalStatus.OVERFLOW
            self.end(held, {semconv.EVAL_STATUS: status.value})

    def finish(
        self, held: HeldSpan, attributes: Attributes, links: Sequence[SpanContext] = ()
    ) -> bool:
        with self._lock:
            if held not in self._held:
                return False
            del self._held[held]
        was_recording = held.span.is_recording()
        self.end(held, attributes, links)
        return was_recording

    def release_all(self, status: EvalStatus, until: float = math.inf) -> None:
        with self._lock:
            late = list(itertools.takewhile(lambda held: held.deadline <= until, self._held))
            for held in late:
                del self._held[held]
        for held in late:
            self.end(held, {semconv.EVAL_STATUS: status.value})

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.release_all(EvalStatus.SHUTDOWN)

    def __len__(self) -> int:
        return len(self._held)

    def end(
        self, held: HeldSpan, attributes: Attributes, links: Sequence[SpanContext] = ()
    ) -> None:
        try:
            held.span.set_attributes(attributes)
            for link in links:
                held.span.add_link(link)
            held.span.end(held.end_time)
        except Exception as error:  # noqa: BLE001 - a user's processor may raise anything
            self._incidents.report("span end", error)


class Telemetry(Observer):
    def __init__(
        self,
        config: RagEvalConfig,
        thresholds: Thresholds,
        incidents: Incidents,
        *,
        judge: str,
        tracer: TracerProvider | None,
        meter: MeterProvider | None,
        logger: LoggerProvider | None,
        has_sinks: bool,
    ) -> None:
        # A provider of None means the global provider, which the application may set later.
        # Under pytest there is no warning, because tests often need no scores.
        self._is_told = has_sinks or bool(tracer or meter or logger) or "pytest" in sys.modules
        self.judged = thresholds.judged
        self._incidents = incidents
        self._holds = config.hold_timeout > 0
        self.holder = SpanHolder(config.hold_timeout, incidents)
        self._attributes = ScoreAttributes(thresholds, content=config.capture_content)
        mode = config.evaluation_span
        if config.trace_judge and mode == "late":
            # Judge calls need a parent span that lasts as long as the calls.
            mode = "trace"
        self._spans = EvaluationSpans(tracer, mode=mode, content=config.capture_content)
        self._events = EventEmitter(logger)
        self._told = ScoreAttributes(thresholds, content=config.capture_event_content)
        self.calls = MetricRecorder(meter, judge=judge, incidents=incidents)

    def watch(self, pipeline: object) -> None:
        self._try("metrics", self.calls.watch, pipeline)

    def used(self, sample: Sample, outcomes: Outcomes) -> None:
        self._try("metrics", self.calls.used, sample, outcomes)

    def forked(self) -> None:
        self.calls.forked()
        self.holder.forked()

    def accepted(self, request: Request) -> None:
        if request.span is not None and self._holds:
            self.holder.hold(request.span)
        elif request.span is not None:
            self._end_span(request.span, {})

    def evaluated(self, request: Request, evaluation: Evaluation) -> None:
        if not self._is_told:
            self._is_told = True
            _warn_without_providers()
        if request.span is not None or evaluation.sample.span_id is not None:
            self._write_spans(request, evaluation)
        # The process that evaluates a shipped sample sends the other signals.
        if not request.is_shipped:
            self._try("event", self._events.emit, evaluation, self._told)
            if request.by_feedback:
                # The metrics describe only sampled requests.
                drawn = {k: v for k, v in evaluation.outcomes.items() if v.probability is not None}
                evaluation = replace(evaluation, outcomes=drawn)
            if evaluation.outcomes:
                self._try("metrics", self.calls.record, evaluation)

    def feedback(self, feedback: Feedback) -> None:
        about = recorded_span(feedback.trace_id, feedback.span_id)
        if about is not None:
            self._try("feedback", self._spans.write_feedback, feedback, about)
        elif feedback.sample_id is None and feedback.trace_id is not None:
            # No span can link to an unknown RAG span. A log event needs only the trace id.
            about = SpanContext(int(feedback.trace_id, 16), 0, is_remote=True)
        if about is not None:
            self._try("feedback", self._events.emit_feedback, feedback, about)

    def _write_spans(self, request: Request, evaluation: Evaluation) -> None:
        attributes = self._attributes.of(evaluation)
        # Start evaluation spans first, because a RAG span accepts no links after its end.
        spans: Sequence[Span] = ()
        if not (request.is_shipped or self._spans.only_late):
            spans = self._try("evaluation span", self._spans.start, evaluation, attributes) or ()
        takes = request.is_shipped
        if request.span is not None:
            about = {**attributes, **_attributes_of(request, Ending.of(evaluation))}
            links = [span.get_span_context() for span in spans]
            takes |= self.holder.finish(request.span, about, links)
        if self._spans.only_late and not takes:
            spans = self._try("evaluation span", self._spans.start, evaluation, attributes) or ()
        if spans:
            self._try("evaluation span", self._spans.end, spans, evaluation)

    def settled(self, request: Request, ending: Ending) -> None:
        if request.span is None:
            return
        attributes = _attributes_of(request, ending)
        if request.accepted:
            self.holder.finish(request.span, attributes)
        else:
            self._end_span(request.span, attributes)

    def _end_span(self, span: HeldSpan, attributes: Attributes) -> None:
        # The holder may hold another instrumentor's span after the span's end.
        if not self.holder.finish(span, attributes):
            self.holder.end(span, attributes)

    def _try(self, signal: str, call: Callable[P, R], *args: P.args, **more: P.kwargs) -> R | None:
        try:
            return call(*args, **more)
        except Exception as error:  # noqa: BLE001 - a user's provider may raise anything
            self._incidents.report(f"telemetry {signal}", error)
            return None


def _warn_without_providers() -> None:
    names = (type(one).__name__.lstrip("_") for one in global_providers())
    if all(name.startswith(("Proxy", "NoOp")) for name in names):
        warn_once(
            "Nothing exports the scores, because no sink and no tracer provider is set. Pass "
            "sinks=['console'] to RagEval, or call setup_tracing() at startup."
        )


def _attributes_of(request: Request, ending: Ending) -> Attributes:
    about: dict[str, str] = {}
    if ending.column is Column.SAMPLED_OUT:
        status, about = EvalStatus.SAMPLED_OUT, {semconv.EVAL_SAMPLED_BY: ending.reason}
    elif ending.column is Column.SHIPPED:
        status = EvalStatus.SHIPPED
    elif ending.column is Column.FAILED and ending.evaluation is None:
        status = EvalStatus.ERROR
    elif ending.column is not Column.DROPPED:
        return {}
    elif request.status is Status.ABANDONED:
        status = EvalStatus.ABANDONED
    elif ending.is_left:
        status = EvalStatus.SHUTDOWN
    else:
        status, about = EvalStatus.DROPPED, {semconv.EVAL_REASON: ending.reason}
    return {semconv.EVAL_STATUS: status.value, **about}
