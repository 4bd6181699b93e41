"""Limits of telemetry: attributes, links, events and time series, ours and the SDK's."""

from __future__ import annotations

import itertools
import json

import pytest
from opentelemetry.sdk.trace import SpanLimits

from rag_eval_hooks import Field, Metric
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.sample import Context
from rag_eval_hooks.score import UNIT, Outcome
from tests.support.evaluation import record_request
from tests.support.telemetry_world import OpenWorld, attributes, many


@pytest.mark.parametrize("limit", [32, 128, None])
def test_a_span_holds_at_most_twenty_results_and_none_is_lost(
    open_world: OpenWorld, limit: int | None
) -> None:
    """Past twenty results, or past the SDK's limit, another span follows; nothing is dropped."""
    limits = SpanLimits(max_span_attributes=limit or SpanLimits.UNSET)
    world = open_world(metrics=many(45), limits=limits, evaluation_span="trace")
    world.ask()
    evaluations = world.spans.named("evaluation")
    names = [
        value
        for span in evaluations
        for key, value in attributes(span).items()
        if key.startswith("evaluations.") and key.endswith(".name")
    ]
    assert sorted(names) == [f"own.m{number:03}" for number in range(45)]
    assert all(span.dropped_attributes == 0 for span in evaluations)
    assert all(attributes(span)["openinference.span.kind"] == "EVALUATOR" for span in evaluations)
    assert {link.context.span_id for span in evaluations for link in span.links} == {
        world.spans.one("invoke").context.span_id
    }
    assert len(world.spans.one("invoke").links) == len(evaluations)
    if limit is None:
        assert len(evaluations) == 3


def test_a_rag_span_has_at_most_a_hundred_attributes_of_ours(
    open_world: OpenWorld,
) -> None:
    """Past that labels are left out first, and the span says how many; it loses none of its own."""
    world = open_world(metrics=many(70))
    world.ask()
    rag = world.spans.one("invoke")
    assert rag.dropped_attributes == 0
    assert attributes(rag)["gen_ai.operation.name"] == "invoke_workflow"
    assert attributes(rag)["rag.eval.status"] == "ok"
    ours = [key for key in attributes(rag) if key.startswith(("rag.eval.", "gen_ai.evaluation."))]
    assert len(ours) == 100
    assert sum(key.endswith(".score") for key in ours) == 70
    labels = sum(key.endswith(".label") and "own" in key for key in ours)
    assert attributes(rag)["rag.eval.omitted"] == 70 - labels


def test_a_retrieval_span_with_many_documents_keeps_its_first_attributes(
    open_world: OpenWorld,
) -> None:
    world = open_world(capture_content=True)
    recorder = world.evals.recorder
    root = recorder.start(1, None, RunKind.CHAIN, "help")
    run = recorder.start(2, 1, RunKind.RETRIEVER, "store")
    assert root is not None
    assert run is not None
    documents = [Context(text=f"t{n}", id=str(n), score=1.0, metadata={"n": n}) for n in range(60)]
    recorder.documents(run, documents)
    recorder.end(root)
    assert world.evals.flush(60)
    span = world.spans.one("retrieval")
    assert span.dropped_attributes == 0
    assert attributes(span)["openinference.span.kind"] == "RETRIEVER"
    fields = [key for key in attributes(span) if key.startswith("retrieval.documents.")]
    assert len(fields) % 4 == 0
    assert len(json.loads(str(attributes(span)["gen_ai.retrieval.documents"]))) == 60


def test_labels_and_workflows_cannot_make_ever_more_series(
    open_world: OpenWorld,
) -> None:
    numbers = itertools.count()

    def score(*_: object) -> Outcome:
        return UNIT.score(0.5, label=f"label {next(numbers)}")

    metric = Metric(id="own.m", score=score, needs=frozenset({Field.QUESTION}))
    world = open_world(metrics=[metric])
    for number in range(60):
        record_request(world.evals, f"{number}", workflow=f"w{number}")
    assert world.evals.flush(60)
    told = [dict(point.attributes) for point in world.metrics.points("rag.eval.score")]
    assert len({t["gen_ai.evaluation.score.label"] for t in told}) == 51
    assert len({t["gen_ai.workflow.name"] for t in told}) == 51


@pytest.mark.parametrize("limit", [1, 6, 10, 14, 40])
def test_low_attribute_limits_push_nothing_out(
    open_world: OpenWorld, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", str(limit))
    world = open_world(metrics="ragas.faithfulness", spans="none")
    with world.spans.provider.get_tracer("app").start_as_current_span("outer") as outer:
        for number in range(limit):
            outer.set_attribute(f"own.{number}", number)
        world.ask()
    ended = world.spans.one("outer")
    assert ended.dropped_attributes == 0
    assert dict(attributes(ended)) == {f"own.{number}": number for number in range(limit)}


@pytest.mark.parametrize("limit", [9, 12, 20])
def test_low_attribute_limits_leave_content_on_our_spans(
    open_world: OpenWorld, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", str(limit))
    world = open_world(metrics=many(30), capture_content=True)
    world.ask()
    rag = world.spans.one("invoke")
    assert rag.dropped_attributes == 0
    assert attributes(rag)["session.id"] == "s1"
    assert attributes(rag)["input.value"] == "q"
    assert attributes(rag)["output.value"] == "a"
    assert len(attributes(rag)) <= limit


@pytest.mark.parametrize("limit", [30, 60, 200])
def test_explanations_stay_json_within_a_length_limit(
    open_world: OpenWorld, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", str(limit))
    world = open_world(capture_content=True, evaluation_span="child")
    world.ask()
    told = attributes(world.spans.one("evaluation"))
    for field in ("explanation", "metadata"):
        if text := told.get(f"evaluations.0.evaluation.{field}"):
            assert len(text) <= limit
            assert json.loads(text)
    assert told["evaluations.0.evaluation.score"] == 0.5


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_links_of_ours_push_out_none(
    open_world: OpenWorld, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SPAN_LINK_COUNT_LIMIT", str(limit))
    world = open_world(metrics=many(45), evaluation_span="trace")
    world.ask()
    rag, evaluations = world.spans.one("invoke"), world.spans.named("evaluation")
    assert len(evaluations) > 2
    assert rag.dropped_links == 0
    first = [span.context.span_id for span in evaluations][:limit]
    assert [link.context.span_id for link in rag.links] == first
