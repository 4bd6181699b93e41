"""All OpenTelemetry signals of an evaluation, in the right order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from opentelemetry.trace import Span, SpanContext

from rag_eval_hooks.calls import CallLog
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.context import CallWatch
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.telemetry.attribute_limits import Attributes
from rag_eval_hooks.telemetry.evaluation_metrics import MetricRecorder
from rag_eval_hooks.telemetry.evaluation_span import EvaluationSpans
from rag_eval_hooks.telemetry.log_events import EventEmitter
from rag_eval_hooks.telemetry.rag_span import rag_span_of
from rag_eval_hooks.telemetry.score_attributes import ScoreAttributes
from rag_eval_hooks.telemetry.self_metrics import ReadState
from rag_eval_hooks.telemetry.thresholds import Thresholds

__all__ = ["Telemetry"]

Finish = Callable[[Attributes, Sequence[SpanContext]], bool]
"""Ends the RAG span with attributes and links if it is held; returns if it has them."""


class Telemetry:
    """Publishes evaluations on the held RAG span, evaluation spans, log events and metrics.

    An exception from one signal is counted and does not stop the others.
    """

    def __init__(
        self,
        *,
        thresholds: Thresholds,
        attributes: ScoreAttributes,
        spans: EvaluationSpans,
        events: EventEmitter,
        metrics: MetricRecorder,
        incidents: Incidents,
    ) -> None:
        self._thresholds = thresholds
        self._attributes = attributes
        self._spans = spans
        self._events = events
        self._metrics = metrics
        self._incidents = incidents

    def watch(self, read: ReadState) -> None:
        """Report the pipeline's state for as long as the object of the method exists."""
        with self._edge("metrics"):
            self._metrics.watch(read)

    @property
    def calls(self) -> CallWatch:
        """Watch that records calls to judge and embedder."""
        return self._metrics

    def used(self, sample: Sample, outcomes: Outcomes) -> None:
        """Record the usage of an evaluation."""
        with self._edge("metrics"):
            self._metrics.used(sample, outcomes)

    def forked(self) -> None:
        """Forget the gates of the parent process."""
        self._metrics.forked()

    def judged(self, evaluation: Evaluation) -> Evaluation:
        """Return an evaluation with pass and fail by the thresholds."""
        verdicts = self._thresholds.verdicts(evaluation.outcomes)
        passed = self._thresholds.passed(evaluation.outcomes, verdicts)
        return replace(evaluation, verdicts=verdicts, passed=passed)

    def publish(self, evaluation: Evaluation, finish: Finish | None) -> None:
        """Send all signals of an evaluation; `finish` is None where no RAG span waits for it."""
        # Evaluation spans link to a RAG span, so that there are none without one.
        if finish is not None or rag_span_of(evaluation.sample) is not None:
            self._publish_spans(evaluation, finish)
        with self._edge("event"):
            self._events.emit(evaluation)
        with self._edge("metrics"):
            self._metrics.record(evaluation)

    def _publish_spans(self, evaluation: Evaluation, finish: Finish | None) -> None:
        attributes = self._attributes.of(evaluation)
        # First, because the RAG span links to them and takes no link once it has ended.
        spans = [] if self._spans.only_late else self._start(evaluation, attributes)
        links = [span.get_span_context() for span in spans]
        takes = finish is not None and finish(attributes, links)
        if self._spans.only_late and not takes:
            spans = self._start(evaluation, attributes)
        self._write_calls(evaluation.log, spans)
        self._end(evaluation, spans)

    def finish(self, evaluation: Evaluation, finish: Finish | None) -> None:
        """Put an evaluation on its RAG span alone: another process sends the other signals."""
        if finish is not None:
            finish(self._attributes.of(evaluation), ())

    def publish_late(self, evaluation: Evaluation) -> None:
        """Send an evaluation that a feedback asked for: evaluation spans, log events and metrics.

        Metrics describe the requests that a draw chose; scores that none chose are left out.
        """
        self._end(evaluation, self._start(evaluation, self._attributes.of(evaluation)))
        with self._edge("event"):
            self._events.emit(evaluation)
        drawn = {k: v for k, v in evaluation.outcomes.items() if v.probability is not None}
        if drawn:
            with self._edge("metrics"):
                self._metrics.record(replace(evaluation, outcomes=drawn))

    def _start(self, evaluation: Evaluation, attributes: Attributes) -> list[Span]:
        with self._edge("evaluation span"):
            return self._spans.start(evaluation, attributes)
        return []

    def _end(self, evaluation: Evaluation, spans: Sequence[Span]) -> None:
        for span in spans:
            with self._edge("evaluation span"):
                self._spans.end(span, evaluation)

    def _write_calls(self, log: CallLog, spans: Sequence[Span]) -> None:
        if not (log.calls and spans):
            return
        with self._edge("judge calls"):
            self._spans.write_calls(log.calls, spans[0])
        for _ in range(log.omitted):
            self._incidents.count("judge call left out of the trace")

    @contextlib.contextmanager
    def _edge(self, signal: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the sink's edge: the user's providers
            self._incidents.report(f"telemetry {signal}", error)
