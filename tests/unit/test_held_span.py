"""RAG spans that wait for their scores."""

from __future__ import annotations

import time

import pytest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import HeldSpan
from rag_eval_hooks.result import Evaluation, status_of
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcomes
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.telemetry.attribute_limits import Attributes
from rag_eval_hooks.telemetry.rag_span import SpanHolder
from rag_eval_hooks.telemetry.score_attributes import ScoreAttributes
from rag_eval_hooks.telemetry.thresholds import Thresholds

BAD = NotScored(Cause.JUDGE_FAILED)
NONE = NotScored(Cause.MISSING_INPUT)
GOOD = UNIT.score(0.5, label="half")


def attributes_of(outcomes: Outcomes) -> Attributes:
    evaluation = Evaluation(
        sample=Sample(question="q"), outcomes=outcomes, probability=0.1, start=0, end=2_000_000_000
    )
    return ScoreAttributes(Thresholds({}, ()), content=False).of(evaluation)


class Spans:
    """A holder over a real provider with an in-memory exporter."""

    def __init__(self, hold_timeout: float = 60, max_held: int = 10) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.incidents = Incidents()
        self.holder = SpanHolder(
            hold_timeout=hold_timeout, max_held=max_held, incidents=self.incidents
        )

    def hold(self, name: str = "rag", end: int | None = None) -> HeldSpan:
        held = HeldSpan(self.provider.get_tracer("t").start_span(name), end or time.time_ns())
        self.holder.hold(held)
        return held

    def ended(self) -> list[tuple[str, object]]:
        return [
            (span.name, (span.attributes or {}).get("rag.eval.status"))
            for span in self.exporter.get_finished_spans()
        ]


def test_a_held_span_ends_once_with_its_scores_and_its_true_end() -> None:
    """Scores are on the span, its duration is the request's, and it is exported once."""
    spans = Spans()
    true_end = time.time_ns() + 5_000_000
    held = spans.hold(end=true_end)
    assert spans.ended() == []
    assert spans.holder.finish(held, attributes_of({"s.m": GOOD}))
    assert not spans.holder.finish(held, {})
    (span,) = spans.exporter.get_finished_spans()
    assert span.end_time == true_end
    assert dict(span.attributes or {}) == {
        "rag.eval.status": "ok",
        "rag.eval.duration_ms": 2000,
        "rag.eval.sample_rate": 0.1,
        "rag.eval.version": (span.attributes or {})["rag.eval.version"],
        "gen_ai.evaluation.name": "s.m",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.score.label": "half",
        "gen_ai.evaluation.explanation": "s.m (0.50)",
        "rag.eval.s.m.score": 0.5,
        "rag.eval.s.m.label": "half",
    }


def test_past_the_deadline_it_ends_as_timeout() -> None:
    """A span whose scores are late ends without them and says so."""
    spans = Spans(hold_timeout=0.01)
    held = spans.hold()
    spans.holder.expire()
    assert spans.ended() == []
    time.sleep(0.02)
    spans.holder.expire()
    assert spans.ended() == [("rag", "timeout")]
    assert not spans.holder.finish(held, {"late": True})


def test_one_too_many_ends_as_overflow() -> None:
    """More than the allowed number are never held."""
    spans = Spans(max_held=1)
    spans.hold("first")
    spans.hold("second")
    assert spans.ended() == [("second", "overflow")]
    assert len(spans.holder) == 1


@pytest.mark.parametrize("status", [EvalStatus.SHUTDOWN, EvalStatus.FORK])
def test_all_are_released_at_once(status: EvalStatus) -> None:
    """At shutdown and fork no span is kept."""
    spans = Spans()
    spans.hold("a")
    spans.hold("b")
    spans.holder.release_all(status)
    assert spans.ended() == [("a", status.value), ("b", status.value)]
    assert len(spans.holder) == 0


class _Raising(SpanProcessor):
    def on_start(self, span: Span, parent_context: object = None) -> None: ...

    def on_end(self, span: ReadableSpan) -> None:
        raise ValueError("processor")


def test_a_span_processor_that_raises_is_counted() -> None:
    """An exception of the application's own processor goes no further than a counter."""
    spans = Spans()
    spans.provider.add_span_processor(_Raising())
    spans.holder.finish(spans.hold(), {})
    assert spans.incidents.counts() == {"span end: ValueError": 1}


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ({"a": GOOD}, "ok"),
        ({"a": GOOD, "b": NONE}, "ok"),
        ({"a": GOOD, "b": BAD}, "partial"),
        ({"a": NONE, "b": BAD}, "error"),
        ({"a": NONE}, "ok"),
    ],
)
def test_status_tells_failures_from_what_cannot_be(
    outcomes: dict[str, object], status: str
) -> None:
    """Only what could have been scored and was not makes a result partial."""
    assert status_of(outcomes).value == status  # type: ignore[arg-type]


def test_metrics_without_a_score_are_named() -> None:
    """The span names the metrics that have none and says why; nothing stands for their value."""
    attributes = attributes_of({"s.good": GOOD, "s.bad": BAD})
    assert attributes["rag.eval.unscored"] == ["s.bad"]
    assert "rag.eval.failed" not in attributes
    assert [key for key in attributes if key.startswith("rag.eval.s.bad")] == [
        "rag.eval.s.bad.reason"
    ]
    assert attributes["rag.eval.s.bad.reason"] == BAD.line
