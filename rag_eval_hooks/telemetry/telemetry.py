"""All OpenTelemetry signals of one evaluation, in the right order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from opentelemetry.trace import Span, SpanContext

from rag_eval_hooks.calls import CallLog, CallWatch
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.telemetry.call_spans import CallSpans
from rag_eval_hooks.telemetry.evaluation_span import CarrierWriter
from rag_eval_hooks.telemetry.log_events import EventEmitter
from rag_eval_hooks.telemetry.metrics import MetricRecorder
from rag_eval_hooks.telemetry.rag_span import attributes_of
from rag_eval_hooks.telemetry.self_metrics import Books
from rag_eval_hooks.telemetry.span_limits import Attributes
from rag_eval_hooks.telemetry.thresholds import Thresholds
from rag_eval_hooks.work import Evaluation

__all__ = ["Telemetry"]

Finish = Callable[[Attributes, Sequence[SpanContext], Sequence[Attributes]], object]
"""Ends the RAG span with attributes, links and events, if it still waits."""


class Telemetry:
    """Publishes evaluations: the waiting RAG span, carriers, log events, metrics.

    What one signal raises is counted and keeps no other from being sent.

    Args:
        thresholds: Pass or fail.
        carriers: Writes carrier spans.
        calls: Writes spans of judge calls below them.
        events: Emits log events.
        metrics: Records metrics.
        incidents: Where exceptions are counted: processors, exporters and readers are the user's.
        span_events: Whether each score is an event of the RAG span too.
    """

    def __init__(
        self,
        *,
        thresholds: Thresholds,
        carriers: CarrierWriter,
        calls: CallSpans,
        events: EventEmitter,
        metrics: MetricRecorder,
        incidents: Incidents,
        span_events: bool = False,
    ) -> None:
        self._thresholds = thresholds
        self._carriers = carriers
        self._calls = calls
        self._events = events
        self._metrics = metrics
        self._incidents = incidents
        self._span_events = span_events

    def watch(self, books: Books) -> None:
        """Reports the pipeline's state from now on."""
        with self._edge("metrics"):
            self._metrics.watch(books)

    @property
    def calls(self) -> CallWatch:
        """Who records calls to judge and embedder."""
        return self._metrics.judge

    def used(self, sample: Sample, outcomes: Outcomes) -> None:
        """Records what an evaluation took."""
        with self._edge("metrics"):
            self._metrics.used(sample, outcomes)

    def reset(self) -> None:
        """What a forked child needs."""
        self._metrics.judge.reset()

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
        """What the other signals tell of: outcomes with pass and fail.

        Args:
            sample: What was evaluated.
            outcomes: What it gave.
            probability: Inclusion probability of the sample, or None where no draw chose it.
            reason: Why it was chosen.
            start: In nanoseconds since the epoch.
            end: The same.
            log: Calls that the evaluation made, where they are to be seen.
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
        """Sends all signals of one evaluation.

        Args:
            evaluation: It.
            finish: Ends the RAG span with attributes, links and events, if it still waits.
        """
        carriers: list[Span] = []
        # First, because the waiting span links to them and takes no link once it is ended.
        with self._edge("carrier"):
            carriers = self._carriers.start(evaluation)
        attributes = attributes_of(
            evaluation.outcomes,
            probability=evaluation.probability,
            duration=evaluation.seconds,
            passed=evaluation.passed,
            reason=evaluation.reason,
        )
        on_span = self._events.results(evaluation) if self._span_events else []
        finish(attributes, [span.get_span_context() for span in carriers], on_span)
        self._show_calls(evaluation.log, carriers)
        for span in carriers:
            with self._edge("carrier"):
                span.end(evaluation.end)
        with self._edge("event"):
            self._events.emit(evaluation)
        with self._edge("metrics"):
            self._metrics.record(evaluation)

    def publish_late(self, evaluation: Evaluation) -> None:
        """Sends what was evaluated after its request: a carrier, log events, and metrics.

        Metrics stand for what the draw chose: of scores that no draw did, as after a thumb down,
        they tell nothing.

        Args:
            evaluation: It.
        """
        with self._edge("carrier"):
            for span in self._carriers.start(evaluation):
                span.end(evaluation.end)
        with self._edge("event"):
            self._events.emit(evaluation)
        drawn = {k: v for k, v in evaluation.outcomes.items() if v.probability is not None}
        if drawn:
            with self._edge("metrics"):
                self._metrics.record(replace(evaluation, outcomes=drawn))

    def _show_calls(self, log: CallLog, carriers: Sequence[Span]) -> None:
        if not (log.calls and carriers):
            return
        with self._edge("judge calls"):
            self._calls.write(log.calls, carriers[0])
        for _ in range(log.omitted):
            self._incidents.count("judge call left out of the trace")

    @contextlib.contextmanager
    def _edge(self, signal: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the sink's edge: the user's providers
            self._incidents.report(f"telemetry {signal}", error)
