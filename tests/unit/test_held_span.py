"""RAG spans that wait for their scores."""

from __future__ import annotations

import time

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import HeldSpan
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcomes
from rag_eval_hooks.telemetry.attribute_limits import Attributes
from rag_eval_hooks.telemetry.rag_span import SpanHolder
from rag_eval_hooks.telemetry.score_attributes import ScoreAttributes, Thresholds

BAD = NotScored(Cause.JUDGE_FAILED)
NONE = NotScored(Cause.MISSING_INPUT)
GOOD = UNIT.score(0.5, label="half")


def attributes_of(outcomes: Outcomes) -> Attributes:
    evaluation = Evaluation(
        sample=Sample(question="q"), outcomes=outcomes, probability=0.1, start=0, end=2_000_000_000
    )
    return ScoreAttributes(Thresholds({}, ()), content=False).of(evaluation)


def test_a_held_span_ends_once_with_its_scores_and_its_true_end() -> None:
    """Scores are on the span, its duration is the request's, and it is exported once."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    holder = SpanHolder(hold_timeout=60, max_held=10, incidents=Incidents())
    true_end = time.time_ns() + 5_000_000
    held = HeldSpan(provider.get_tracer("t").start_span("rag"), true_end)
    holder.hold(held)
    assert not exporter.get_finished_spans()
    assert holder.finish(held, attributes_of({"s.m": GOOD}))
    assert not holder.finish(held, {})
    (span,) = exporter.get_finished_spans()
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
def test_status_tells_failures_from_what_cannot_be(outcomes: Outcomes, status: str) -> None:
    """Only what could have been scored and was not makes a result partial."""
    assert attributes_of(outcomes)["rag.eval.status"] == status


def test_metrics_without_a_score_are_named() -> None:
    """The span names the metrics that have none and says why; nothing stands for their value."""
    attributes = attributes_of({"s.good": GOOD, "s.bad": BAD})
    assert attributes["rag.eval.unscored"] == ["s.bad"]
    assert "rag.eval.failed" not in attributes
    assert [key for key in attributes if key.startswith("rag.eval.s.bad")] == [
        "rag.eval.s.bad.reason"
    ]
    assert attributes["rag.eval.s.bad.reason"] == BAD.line
