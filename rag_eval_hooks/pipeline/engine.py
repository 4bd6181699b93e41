"""Engine of an evaluator: the pipeline of this process, and what feeds it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rag_eval_hooks import semconv
from rag_eval_hooks.books import Stats
from rag_eval_hooks.capture import Assembler, OtherInstrumentors, Recorder, SpanWriter
from rag_eval_hooks.config import limits
from rag_eval_hooks.explanation import Explanation
from rag_eval_hooks.feedback import Feedback, id_of
from rag_eval_hooks.pipeline.intake import RequestIntake
from rag_eval_hooks.pipeline.pipeline import Pipeline
from rag_eval_hooks.pipeline.wiring import Parts
from rag_eval_hooks.request import HeldSpan, Request
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.telemetry.other_span import OtherSpans
from rag_eval_hooks.telemetry.self_metrics import Gauge, Reading, readings
from rag_eval_hooks.threads import at_fork

__all__ = ["Engine"]


class Engine:
    """Everything behind `RagEval`. A forked child goes on with a pipeline of its own.

    Args:
        parts: Parts that pipelines are made of.

    Attributes:
        assembler: Builds samples and redacts them.
        recorder: Records the runs of frameworks.
        others: Spans of other instrumentors.
        instrumentors: Registry of other instrumentors.
        pipeline: Pipeline of this process.
    """

    def __init__(self, parts: Parts) -> None:
        config, incidents = parts.config, parts.incidents
        self._parts = parts
        self.assembler = Assembler(
            config,
            parts.redactor,
            incidents,
            None if parts.references is None else parts.references.before_redaction,
        )
        spans = SpanWriter(
            parts.tracer_provider,
            mode=config.spans,
            capture_content=config.capture_content,
            content_max_length=limits.CONTENT_CHARS,
            incidents=incidents,
        )
        self._intake = RequestIntake(self.assembler, spans, incidents, lambda: self.pipeline)
        self.others = OtherSpans(most=limits.HELD_SPANS, hold=self._hold)
        self.instrumentors = OtherInstrumentors(config.spans, self.others, incidents)
        self.recorder = Recorder(
            self._intake.add,
            ttl=limits.INTERACTION_SECONDS,
            max_open=limits.OPEN_INTERACTIONS,
            max_chars=limits.INTERACTION_CHARS,
            max_text_chars=self.assembler.text_chars,
            on_wait=self._watch,
            incidents=incidents,
        )
        self.recorder.span_content = config.capture_content
        self._gauges: dict[str, Gauge] = {
            semconv.METRIC_OPEN_SIZE: lambda: self.recorder.opened()[0],
            semconv.METRIC_OPEN_CAPACITY: lambda: limits.OPEN_INTERACTIONS,
            semconv.METRIC_OPEN_TEXT: lambda: self.recorder.opened()[1],
        }
        self.pipeline = self._new_pipeline()
        parts.telemetry.watch(self._read_state)
        self._inherited: list[object] = []
        at_fork(before=self._forking, in_child=self._forked_child)

    def _new_pipeline(self, *, closed: bool = False) -> Pipeline:
        return Pipeline(self._parts, self._tick, closed=closed)

    def _forking(self) -> None:
        self.pipeline.forking()

    def _forked_child(self) -> None:
        """Build the pipeline anew: its threads, locks and requests are the parent's."""
        self._inherited.append(self.pipeline.abandon())
        self._parts.forked()
        self.recorder.forked()
        self.others.forked()
        self._intake.forked()
        self.pipeline = self._new_pipeline(closed=self.pipeline.is_closed)

    # Bound to this object rather than to a pipeline, which a fork replaces.

    def _hold(self, span: HeldSpan) -> None:
        self.pipeline.hold(span)

    def _watch(self) -> bool:
        return self.pipeline.watch()

    def _read_state(self, instrument: str) -> Iterable[Reading]:
        gauges = {**self._gauges, **self.pipeline.gauges}
        return readings(instrument, self.pipeline.stats, gauges)

    def _tick(self, is_awaited: bool) -> None:
        self.recorder.sweep(at_once=is_awaited)
        self._intake.tick()

    def offer(self, given: Any) -> bool:
        """Submit a sample of the application's; see `RagEval.offer`."""
        try:
            sample = Sample.of(given)
            return self.pipeline.submit(Request.of(sample, lambda: self.assembler.own(sample)))
        except Exception as error:  # noqa: BLE001 - the host's edge: it may pass anything
            self._parts.incidents.report("offer", error)
            self.pipeline.refuse("capture_failed", None)
            return False

    def feedback(
        self, name: object, *, score: float | None, label: str | None, reference: str | None
    ) -> bool:
        """Queue feedback on a request; see `RagEval.feedback`."""
        try:
            given = Feedback(
                score=score,
                label=self.assembler.label(label),
                reference=self.assembler.reference(reference),
            )
            key = id_of(name)
        except Exception as error:  # noqa: BLE001 - the host's edge: it may pass anything
            self.pipeline.refuse_feedback(error)
            return False
        return self.drained().feedback((key,), given)

    def drained(self) -> Pipeline:
        """Submit the requests that have ended so far; return the pipeline."""
        self.recorder.sweep()
        self._intake.drain()
        return self.pipeline

    def stats(self) -> Stats:
        """Return the statistics of everything offered so far, as of one moment."""
        stats = self.drained().stats()
        return replace(stats, without_retrieval=self.recorder.ended.unretrieved)

    def explain(self, name: object) -> tuple[Explanation, ...]:
        """Explain the samples of a trace, or a request without retrieved text."""
        key = id_of(name)
        if found := self.drained().explain(name):
            return found
        unretrieved = self.recorder.ended.explains(key)
        reason = "without_retrieval"
        return (Explanation(key=key, outcome="not offered", reason=reason),) if unretrieved else ()
