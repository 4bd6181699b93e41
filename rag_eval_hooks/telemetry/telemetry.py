"""All OpenTelemetry signals of an evaluation, in the right order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from opentelemetry.trace import Span, SpanContext

from rag_eval_hooks.calls import CallLog, CallWatch
from rag_eval_hooks.ending import Evaluation
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.telemetry.call_spans import CallSpans
from rag_eval_hooks.telemetry.evaluation_metrics import MetricRecorder
from rag_eval_hooks.telemetry.evaluation_span import EvaluationSpans
from rag_eval_hooks.telemetry.limits import Attributes
from rag_eval_hooks.telemetry.log_events import EventEmitter
from rag_eval_hooks.telemetry.rag_span import attributes_of
from rag_eval_hooks.telemetry.self_metrics import StateSource
from rag_eval_hooks.telemetry.thresholds import Thresholds

__all__ = ["Telemetry"]

Finish = Callable[[Attributes, Sequence[SpanContext], Sequence[Attributes]], object]
"""Ends the RAG span with attributes, links and events if it is still held."""


class Telemetry:
    """Publishes evaluations on the held RAG span, evaluation spans, log events and metrics.

    An exception from one signal is counted and does not stop the others.

    Args:
        thresholds: Decides on pass or fail.
        spans: Writes evaluation spans.
        calls: Writes spans of judge calls below them.
        events: Emits log events.
        metrics: Records metrics.
        incidents: Counts exceptions of the user's processors, exporters and readers.
        span_events: Write each score as an event of the RAG span too.
    """

    def __init__(
        self,
        *,
        thresholds: Thresholds,
        spans: EvaluationSpans,
        calls: CallSpans,
        events: EventEmitter,
        metrics: MetricRecorder,
        incidents: Incidents,
        span_events: bool = False,
    ) -> None:
        self._thresholds = thresholds
        self._spans = spans
        self._calls = calls
        self._events = events
        self._metrics = metrics
        self._incidents = incidents
        self._span_events = span_events

    def watch(self, source: StateSource) -> None:
        """Report the pipeline's state for as long as its source exists."""
        with self._edge("metrics"):
            self._metrics.watch(source)

    @property
    def calls(self) -> CallWatch:
        """Watch that records calls to judge and embedder."""
        return self._metrics.judge

    def used(self, sample: Sample, outcomes: Outcomes) -> None:
        """Record the usage of an evaluation."""
        with self._edge("metrics"):
            self._metrics.used(sample, outcomes)

    def forked(self) -> None:
        """What a forked child needs."""
        self._metrics.judge.forked()

    def evaluated(
        self,
        sample: Sample,
        outcomes: Outcomes,
        *,
        probability: float | None,
        reason: str,
        start: int,
        end: int,
        log: CallLog | None = None,
    ) -> Evaluation:
        """Return an evaluation with pass and fail by the thresholds.

        Args:
            sample: Evaluated sample.
            outcomes: Outcome by metric id.
            probability: Inclusion probability of the sample, or None if no draw chose it.
            reason: Reason of the choice, in a word.
            start: Nanoseconds since the epoch.
            end: Nanoseconds since the epoch.
            log: Judge calls of the evaluation, if they are recorded.
        """
        verdicts = self._thresholds.verdicts(outcomes)
        return Evaluation(
            sample=sample,
            outcomes=outcomes,
            probability=probability,
            reason=reason,
            start=start,
            end=end,
            verdicts=verdicts,
            passed=self._thresholds.passed(outcomes, verdicts),
            log=log or CallLog(),
        )

    def publish(self, evaluation: Evaluation, finish: Finish) -> None:
        """Send all signals of an evaluation.

        Args:
            evaluation: Evaluation to publish.
            finish: Ends the RAG span with attributes, links and events if it is still held.
        """
        spans: list[Span] = []
        # First, because the RAG span links to them and takes no link once it has ended.
        with self._edge("carrier"):
            spans = self._spans.start(evaluation)
        attributes = attributes_of(
            evaluation.outcomes,
            probability=evaluation.probability,
            duration=evaluation.seconds,
            passed=evaluation.passed,
            reason=evaluation.reason,
        )
        on_span = self._events.results(evaluation) if self._span_events else []
        finish(attributes, [span.get_span_context() for span in spans], on_span)
        self._write_calls(evaluation.log, spans)
        for span in spans:
            with self._edge("carrier"):
                span.end(evaluation.end)
        with self._edge("event"):
            self._events.emit(evaluation)
        with self._edge("metrics"):
            self._metrics.record(evaluation)

    def publish_late(self, evaluation: Evaluation) -> None:
        """Send an evaluation that a feedback asked for: evaluation spans, log events and metrics.

        Metrics describe the requests that a draw chose; scores that none chose are left out.
        """
        with self._edge("carrier"):
            for span in self._spans.start(evaluation):
                span.end(evaluation.end)
        with self._edge("event"):
            self._events.emit(evaluation)
        drawn = {k: v for k, v in evaluation.outcomes.items() if v.probability is not None}
        if drawn:
            with self._edge("metrics"):
                self._metrics.record(replace(evaluation, outcomes=drawn))

    def _write_calls(self, log: CallLog, spans: Sequence[Span]) -> None:
        if not (log.calls and spans):
            return
        with self._edge("judge calls"):
            self._calls.write(log.calls, spans[0])
        for _ in range(log.omitted):
            self._incidents.count("judge call left out of the trace")

    @contextlib.contextmanager
    def _edge(self, signal: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the sink's edge: the user's providers
            self._incidents.report(f"telemetry {signal}", error)
