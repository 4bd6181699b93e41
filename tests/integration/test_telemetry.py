"""Spans, log events and metrics of evaluations, and their limits, by the real SDK."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableLambda
from opentelemetry.sdk.metrics.export import HistogramDataPoint
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from rag_eval_hooks import Field, Metric, RagEval, Sample
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import HeldSpan
from rag_eval_hooks.sample import Context
from rag_eval_hooks.score import UNIT, Outcome, Outcomes
from rag_eval_hooks.telemetry.rag_span import SpanHolder
from rag_eval_hooks.testing import ScriptedJudge
from rag_eval_hooks.usage import Usage
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.servers.judge_server import JudgeServer
from tests.support.evaluation import record_request
from tests.support.otel import Metrics, Spans
from tests.support.telemetry_world import HALF, SECRET, OpenWorld, World, attributes, many


@pytest.fixture
def world(open_world: OpenWorld) -> World:
    return open_world(thresholds={"ragas.faithfulness": 0.8})


def test_a_held_span_ends_once_with_its_scores_and_its_true_end() -> None:
    spans = Spans()
    holder = SpanHolder(hold_timeout=60, max_held=10, incidents=Incidents())
    true_end = time.time_ns() + 5_000_000
    held = HeldSpan(spans.provider.get_tracer("t").start_span("rag"), true_end)
    holder.hold(held)
    assert not spans.all()
    assert holder.finish(held, {"rag.eval.status": "ok"})
    assert not holder.finish(held, {})
    (span,) = spans.all()
    assert span.end_time == true_end
    assert dict(attributes(span)) == {"rag.eval.status": "ok"}


def test_an_evaluation_span_has_every_result_and_one_link(open_world: OpenWorld) -> None:
    """In a trace of its own on request: one link to the RAG span, which links back."""
    world = open_world(thresholds={"ragas.faithfulness": 0.8}, evaluation_span="trace")
    world.ask()
    rag, evaluation = world.spans.one("invoke_workflow"), world.spans.one("evaluation")
    assert evaluation.name == "evaluation help"
    assert evaluation.parent is None
    assert evaluation.context.trace_id != rag.context.trace_id
    assert [link.context.span_id for link in evaluation.links] == [rag.context.span_id]
    assert [link.context.trace_id for link in evaluation.links] == [rag.context.trace_id]
    assert [link.context.span_id for link in rag.links] == [evaluation.context.span_id]
    seen = dict(attributes(evaluation))
    at = datetime.fromisoformat(seen.pop("rag.eval.evaluated_at")).timestamp()
    assert at == pytest.approx((evaluation.end_time or 0) / 1e9, abs=0.01)
    assert json.loads(seen.pop("evaluations.0.evaluation.metadata"))["version"]
    assert json.loads(seen.pop("evaluations.0.evaluation.explanation"))["claims"][0]["supported"]
    assert seen == {
        **{key: value for key, value in attributes(rag).items() if key.startswith("rag.eval.")},
        **{key: value for key, value in attributes(rag).items() if ".evaluation." in key},
        "openinference.span.kind": "EVALUATOR",
        "gen_ai.operation.name": "evaluation",
        "gen_ai.workflow.name": "help",
        "session.id": "s1",
        "evaluations.0.evaluation.name": "ragas.faithfulness",
        "evaluations.0.evaluation.score": 0.5,
        "evaluations.0.evaluation.label": "fail",
        "evaluations.0.evaluation.annotator_kind": "CODE",
        "evaluations.0.evaluation.identifier": "scripted",
    }
    assert attributes(rag)["rag.eval.pass"] is False
    assert (evaluation.end_time or 0) >= (evaluation.start_time or 0) >= (rag.end_time or 0)


@pytest.mark.parametrize(
    ("late", "config"), [(False, {}), (True, {"evaluation_span": "off", "hold_timeout": 0.01})]
)
def test_timely_or_disabled_scores_have_no_evaluation_span(
    open_world: OpenWorld, late: bool, config: dict[str, Any]
) -> None:
    world = open_world(judge=ScriptedJudge(HALF, latency=0.3 * late), **config)
    world.ask()
    assert world.spans.named("evaluation") == []
    assert world.spans.one("invoke").links == ()
    assert ("rag.eval.ragas.faithfulness.score" in attributes(world.spans.one("invoke"))) != late


@pytest.mark.parametrize(
    ("config", "status"),
    [
        ({"hold_timeout": 0.01}, "timeout"),
        ({"hold_timeout": 0}, None),
    ],
)
def test_a_late_result_is_below_the_rag_span(
    open_world: OpenWorld, config: dict[str, Any], status: str | None
) -> None:
    """A span of no length at the request's end has what the RAG span would have had, and a link."""
    thresholds = {"ragas.faithfulness": 0.8}
    late = open_world(judge=ScriptedJudge(HALF, latency=0.6), thresholds=thresholds, **config)
    late.ask()
    rag, evaluation = late.spans.one("invoke_workflow"), late.spans.one("evaluation")
    assert attributes(rag).get("rag.eval.status") == status
    assert "rag.eval.ragas.faithfulness.score" not in attributes(rag)
    assert evaluation.parent is not None
    assert evaluation.parent.span_id == rag.context.span_id
    assert evaluation.start_time == evaluation.end_time == rag.end_time
    assert [link.context.span_id for link in evaluation.links] == [rag.context.span_id]
    assert attributes(evaluation)["evaluations.0.evaluation.score"] == 0.5
    at = datetime.fromisoformat(str(attributes(evaluation)["rag.eval.evaluated_at"])).timestamp()
    assert at - (rag.end_time or 0) / 1e9 >= 0.59
    held = open_world(thresholds=thresholds)
    held.ask()
    varies = {"rag.eval.duration_ms"}
    wanted = dict(attributes(held.spans.one("invoke")))
    for key, value in wanted.items():
        if key.startswith(("rag.eval.", "gen_ai.evaluation.")) and key not in varies:
            assert attributes(evaluation)[key] == value


def test_events_have_the_rag_spans_context(world: World) -> None:
    """One event a metric, by the GenAI conventions, in the trace of the request."""
    world.ask()
    rag = world.spans.one("invoke")
    (event,) = world.events()
    assert event.event_name == "gen_ai.evaluation.result"
    assert (event.trace_id, event.span_id) == (rag.context.trace_id, rag.context.span_id)
    told = dict(event.attributes)
    assert json.loads(told.pop("rag.eval.explanation"))["claims"]
    assert told == {
        "gen_ai.evaluation.explanation": attributes(rag)["gen_ai.evaluation.explanation"],
        "gen_ai.evaluation.name": "ragas.faithfulness",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.score.label": "fail",
        "rag.eval.pass": False,
        "rag.eval.sample_rate": 1.0,
    }


def test_each_score_tells_its_own_probability_wherever_it_is(
    open_world: OpenWorld,
) -> None:
    """Evaluation span and events say the rate of each metric, not that of the likeliest alone."""
    rates = {"ragas": 0.25, "lexical": 1.0}
    metrics = ["ragas.faithfulness", "lexical.source_citation"]
    world = open_world(metrics=metrics, metric_rates=rates, evaluation_span="child")
    while len(world.events()) < 2:
        world.spans.clear()
        world.logs.clear()
        world.ask()
    told = attributes(world.spans.one("evaluation"))
    expected = {"ragas.faithfulness": 0.25, "lexical.source_citation": 1.0}
    places = range(len(expected))
    assert expected == {
        told[f"evaluations.{n}.evaluation.name"]: json.loads(
            told[f"evaluations.{n}.evaluation.metadata"]
        )["sample_rate"]
        for n in places
    }
    assert expected == {
        event.attributes["gen_ai.evaluation.name"]: event.attributes["rag.eval.sample_rate"]
        for event in world.events()
    }


def test_a_failed_metric_is_an_event_with_its_cause(open_world: OpenWorld) -> None:
    world = open_world(judge=ScriptedJudge(error=RuntimeError("down")))
    world.ask()
    (event,) = world.events()
    assert dict(event.attributes) == {
        "gen_ai.evaluation.name": "ragas.faithfulness",
        "error.type": "judge_failed",
    }
    assert attributes(world.spans.one("invoke"))["rag.eval.unscored"] == ("ragas.faithfulness",)


@pytest.mark.parametrize(("before", "after", "in_state"), [(0, 1, True), (2, 0, False)])
def test_events_name_the_reply_that_is_the_answer(
    world: World, before: int, after: int, in_state: bool
) -> None:
    ids = [f"reply-{number}" for number in range(before + after + 1)]
    replies = [AIMessage(f"Keel {one} holds.", response_metadata={"id": one}) for one in ids]
    model = GenericFakeChatModel(messages=iter(replies))
    store: Runnable[str, list[Document]] = RunnableLambda(lambda _: [Document("Keels hold.")])

    def ask(question: str) -> Any:
        for _ in range(before):
            model.invoke(f"Rewrite: {question}")
        (document,) = store.invoke(question)
        answer = model.invoke(f"{document.page_content}\n{question}").content
        for _ in range(after):
            model.invoke("Write a title.")
        return {"answer": answer} if in_state else answer

    handler = RagEvalCallbackHandler(world.evals)
    RunnableLambda(ask).invoke("What holds?", config={"callbacks": [handler]})
    assert world.evals.flush(60)
    (event,) = world.events()
    assert event.attributes["gen_ai.response.id"] == ids[before]
    spans = [attributes(span)["gen_ai.response.id"] for span in world.spans.named("chat")]
    assert sorted(spans) == ids


@pytest.mark.parametrize(
    ("variable", "on_spans", "in_events"),
    [
        ("NO_CONTENT", False, False),
        ("SPAN_ONLY", True, False),
        ("EVENT_ONLY", False, True),
        ("SPAN_AND_EVENT", True, True),
        ("span_and_event", True, True),
        ("nonsense", False, False),
        (None, False, False),
    ],
)
def test_the_content_switch(
    open_world: OpenWorld,
    variable: str | None,
    on_spans: bool,
    in_events: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(name, variable)
    world = open_world(evaluation_span="child")
    world.ask()
    spans = str([dict(attributes(span)) for span in world.spans.all()])
    assert (SECRET in spans) is on_spans
    assert ("a chunk" in spans) is on_spans
    assert (SECRET in str([dict(e.attributes) for e in world.events()])) is in_events
    assert SECRET not in str(world.metrics.points("rag.eval.score"))


def test_a_bad_bucket_leads_to_its_trace(world: World) -> None:
    """The score histogram is normalized, has tenths as bounds, and exemplars of the RAG span."""
    world.ask()
    rag = world.spans.one("invoke")
    (point,) = world.metrics.points("rag.eval.score")
    assert isinstance(point, HistogramDataPoint)
    assert (point.count, point.sum) == (1, 0.5)
    assert list(point.explicit_bounds) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert dict(point.attributes or {}) == {
        "gen_ai.evaluation.name": "ragas.faithfulness",
        "rag.eval.suite": "ragas",
        "gen_ai.evaluation.score.label": "fail",
        "rag.eval.pass": "false",
        "gen_ai.workflow.name": "help",
    }
    (exemplar,) = point.exemplars
    assert (exemplar.trace_id, exemplar.span_id) == (rag.context.trace_id, rag.context.span_id)
    (duration,) = world.metrics.points("rag.eval.duration")
    assert duration.count == 1


def test_a_trace_that_is_not_sampled_has_no_evaluation_span(
    open_world: OpenWorld,
) -> None:
    """No span points to a trace that nobody keeps; metrics count without exemplar."""
    world = open_world(sampler=ALWAYS_OFF, evaluation_span="child")
    world.ask()
    assert world.spans.all() == ()
    (point,) = world.metrics.points("rag.eval.score")
    assert point.count == 1
    assert list(point.exemplars) == []


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("all", ["evaluation help", "invoke_workflow help", "outer", "retrieval store"]),
        ("auto", ["evaluation help", "invoke_workflow help", "outer", "retrieval store"]),
        ("root", ["evaluation help", "invoke_workflow help", "outer"]),
        ("none", ["evaluation help", "outer"]),
    ],
)
def test_which_spans_are_ours_to_write(open_world: OpenWorld, mode: str, names: list[str]) -> None:
    """The setting says; with none, the evaluation span is below the application's own span."""
    world = open_world(spans=mode, evaluation_span="child")
    with world.spans.provider.get_tracer("app").start_as_current_span("outer"):
        world.ask()
    assert sorted(span.name for span in world.spans.all()) == names
    target = world.spans.one("outer" if mode == "none" else "invoke")
    parent = world.spans.one("evaluation").parent
    assert parent is not None
    assert parent.span_id == target.context.span_id
    (event,) = world.events()
    assert event.span_id == target.context.span_id


class _Broken(SimpleSpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if span.name.startswith("evaluation"):
            raise OSError(SECRET)


def test_a_signal_that_fails_takes_no_other_with_it(open_world: OpenWorld) -> None:
    """Providers are the application's; what they raise is counted, all else is sent."""
    world = open_world(evaluation_span="child")
    world.spans.provider.add_span_processor(_Broken(InMemorySpanExporter()))
    world.ask()
    assert world.evals.stats().incidents == {"telemetry evaluation span: OSError": 1}
    assert attributes(world.spans.one("invoke"))["rag.eval.status"] == "ok"
    assert len(world.events()) == 1
    assert len(world.metrics.points("rag.eval.score")) == 1


def test_judge_metrics_equal_the_sum_of_score_usage(open_world: OpenWorld, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\n[models."*test-model"]\ninput = 1.0\noutput = 2.0\n')
    used: list[Usage] = []

    def note(_: Sample, outcomes: Outcomes) -> None:
        used.extend(outcome.usage for outcome in outcomes.values())

    with JudgeServer(api_key="k") as server:
        world = open_world(
            metrics=["ragas.faithfulness", "ragas.context_precision"],
            judge="openai:test-model",
            sinks=[note],
            judge_prices=str(prices),
            judge_base_url=server.url,
            judge_api_key="k",
            embedder="none",
        )
        world.ask()
        spent = sum(used, start=Usage())
        assert spent.calls > 0
        assert spent.cost
        assert sum(p.value for p in world.metrics.points("rag.eval.judge.calls")) == spent.calls
        tokens = {
            p.attributes["gen_ai.token.type"]: p.value
            for p in world.metrics.points("rag.eval.judge.tokens")
        }
        assert tokens == {"input": spent.input_tokens, "output": spent.output_tokens}
        (cost,) = world.metrics.points("rag.eval.judge.cost")
        assert cost.value == pytest.approx(spent.cost)
        assert "test-model" in cost.attributes["rag.eval.judge.name"]


def test_values_on_spans_and_log_events_are_plain_types(open_world: OpenWorld) -> None:
    """An enum member is a str for Python, and a name for exporters."""
    world = open_world(thresholds={"ragas.faithfulness": 0.8}, evaluation_span="child")
    world.ask()
    world.evals.submit(Sample(question="q", contexts=("c",), answer="a"))  # type: ignore[arg-type]
    assert world.evals.flush(60)
    spans = world.spans.all()
    told = [attributes(span) for span in spans] + [one.attributes for one in world.events()]
    told += [event.attributes or {} for span in spans for event in span.events]
    values = [value for one in told for value in one.values()]
    parts = [part for one in values for part in (one if isinstance(one, tuple) else [one])]
    assert {type(part) for part in parts} <= {str, int, float, bool}


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


SEED = int(os.environ.get("RAGEVAL_SEED", "20261122"))


def test_the_ratio_of_the_counters_is_the_mean_over_all_traffic() -> None:
    """With a rule that scores good requests eight times as often, only the plain mean is off."""
    chance, metrics = random.Random(SEED), Metrics()
    metric = Metric(
        id="own.value",
        score=lambda sample, _: UNIT.score(float(sample.metadata["value"])),
        needs=frozenset({Field.QUESTION}),
    )
    total, number = 0.0, 3000
    rules: Any = [{"name": "beta", "tags": ["beta"], "rate": 0.8}]
    with RagEval(
        [metric],
        sample_rate=0.1,
        rules=rules,
        queue_size=number,
        meter_provider=metrics.provider,
    ) as evals:
        for index in range(number):
            beta = chance.random() < 0.3
            value = chance.betavariate(8, 2) if beta else chance.betavariate(2, 4)
            total += value
            evals.submit(
                Sample(
                    question=f"q{index}",
                    contexts=("c",),  # type: ignore[arg-type]
                    answer="a",
                    tags=("beta",) if beta else (),
                    metadata={"value": value},
                )
            )
        assert evals.flush(120)
        scored = evals.stats().scored
    weight, weighted = (metrics.value(f"rag.eval.score.{name}") for name in ("weight", "weighted"))
    squares = metrics.by("rag.eval.score.square", "power")
    mean = weighted / weight
    spread = squares["2"] - 2 * mean * squares["1"] + mean**2 * squares["0"]
    half = 1.96 * math.sqrt(spread) / weight
    (plain,) = metrics.points("rag.eval.score")
    truth = total / number
    assert plain.count == scored
    # The band holds the truth in 95 of 100 seeds; twice its width in all but few of a million.
    assert abs(mean - truth) < 2.5 * half < 0.2
    assert plain.sum / plain.count - truth > 5 * half / 2
    assert weight == pytest.approx(number, rel=0.25)
