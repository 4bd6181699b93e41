"""All OpenTelemetry signals of an evaluation, in the right order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from opentelemetry.trace import Span, SpanContext

from rag_eval_hooks.calls import CallLog, CallWatch
from rag_eval_hooks.ending import Evaluation
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import NotScored, Outcomes, Score
from rag_eval_hooks.telemetry.attribute_limits import Attributes
from rag_eval_hooks.telemetry.evaluation_metrics import MetricRecorder
from rag_eval_hooks.telemetry.evaluation_span import EvaluationSpans
from rag_eval_hooks.telemetry.log_events import EventEmitter
from rag_eval_hooks.telemetry.rag_span import attributes_of
from rag_eval_hooks.telemetry.self_metrics import ReadState

__all__ = ["Telemetry", "Thresholds"]

Finish = Callable[[Attributes, Sequence[SpanContext], Sequence[Attributes]], object]
"""Ends the RAG span with attributes, links and events if it is still held."""


class Thresholds:
    """Compares scores with thresholds.

    Args:
        limits: Threshold by metric id, in the metric's scale. A score passes at the threshold and
            on its good side: above it, or below it if lower is better.
        metrics: Metrics that are measured.

    Raises:
        ConfigError: An id names none of the metrics, or a value lies outside the metric's scale.
    """

    def __init__(self, limits: Mapping[str, float], metrics: Iterable[Metric]) -> None:
        known = {metric.id: metric for metric in metrics}
        for metric_id, limit in limits.items():
            _check(metric_id, limit, known)
        self._limits = {name: (limit, known[name].scale) for name, limit in limits.items()}

    def verdicts(self, outcomes: Outcomes) -> dict[str, bool]:
        """Return True (pass) or False for each scored metric that has a threshold."""
        return {
            name: outcome.value >= limit if scale.higher_is_better else outcome.value <= limit
            for name, (limit, scale) in self._limits.items()
            if isinstance(outcome := outcomes.get(name), Score)
        }

    def passed(self, outcomes: Outcomes, verdicts: Mapping[str, bool]) -> bool | None:
        """Return True if the sample passes, False if it fails, None if that is unknown.

        It fails if one metric fails. It is unknown if no metric with a threshold was scored, or
        if one of them failed to be scored.
        """
        if not all(verdicts.values()):
            return False
        unscored = (outcomes.get(name) for name in self._limits if name not in verdicts)
        if any(isinstance(one, NotScored) and one.cause.is_failure for one in unscored):
            return None
        return True if verdicts else None


def _check(metric_id: str, limit: float, known: Mapping[str, Metric]) -> None:
    if metric_id not in known:
        wants = "metrics that are measured: " + ", ".join(sorted(known))
        raise ConfigError("thresholds", metric_id, wants)
    scale = known[metric_id].scale
    if not scale.low <= limit <= scale.high:
        wants = f"a number from {scale.low:g} to {scale.high:g} for {metric_id}"
        raise ConfigError("thresholds", limit, wants)


class Telemetry:
    """Publishes evaluations on the held RAG span, evaluation spans, log events and metrics.

    An exception from one signal is counted and does not stop the others.
    """

    def __init__(
        self,
        *,
        thresholds: Thresholds,
        spans: EvaluationSpans,
        events: EventEmitter,
        metrics: MetricRecorder,
        incidents: Incidents,
        span_events: bool = False,
    ) -> None:
        self._thresholds = thresholds
        self._spans = spans
        self._events = events
        self._metrics = metrics
        self._incidents = incidents
        self._span_events = span_events

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
        """Forget what belongs to the parent process."""
        self._metrics.forked()

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
        """Return an evaluation with pass and fail by the thresholds."""
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
        """Send all signals of an evaluation."""
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
            self._spans.write_calls(log.calls, spans[0])
        for _ in range(log.omitted):
            self._incidents.count("judge call left out of the trace")

    @contextlib.contextmanager
    def _edge(self, signal: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the sink's edge: the user's providers
            self._incidents.report(f"telemetry {signal}", error)
