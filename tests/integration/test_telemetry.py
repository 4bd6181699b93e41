"""Spans, log events and metrics of evaluations, and their limits, by the real SDK."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableLambda
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from rag_eval_hooks import Field, Metric, RagEval, RagEvalConfig, Sample
from rag_eval_hooks.calls import Usage
from rag_eval_hooks.score import UNIT, Outcome, Outcomes
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.support.evaluation import record_request
from tests.support.otel import Metrics, Spans
from tests.support.servers.faults import Fault, FaultKind
from tests.support.servers.judge_server import JudgeServer
from tests.support.telemetry_world import HALF, SECRET, OpenWorld, World, attributes, many

RAG, SEARCH, OURS = "invoke_workflow help", "retrieval store", "evaluation help"
REASON = "1 of 2 claims are unsupported: claim 2 (0.50, at least 0.80)"
EVENT: dict[str, Any] = {
    "gen_ai.evaluation.name": "ragas.faithfulness",
    "gen_ai.evaluation.score.value": 0.5,
    "gen_ai.evaluation.score.label": "fail",
    "gen_ai.evaluation.explanation": REASON,
    "rag.eval.pass": False,
    "rag.eval.sample_rate": 1.0,
}
RESULT: dict[str, Any] = {
    **EVENT,
    "rag.eval.status": "ok",
    "rag.eval.failed": ("ragas.faithfulness",),
    "rag.eval.sampled_by": "ratio",
    "rag.eval.context_source": "last_list",
    "rag.eval.question_source": "input",
    "rag.eval.ragas.faithfulness.score": 0.5,
    "rag.eval.ragas.faithfulness.pass": False,
    "rag.eval.ragas.faithfulness.reason": REASON,
}
VERDICT = {"together": False, "probability": None}
CLAIMS = {
    "claims": [
        {"supported": True, "chunks": [1], **VERDICT},
        {"supported": False, "chunks": [], **VERDICT},
    ]
}
PLACED = {"gen_ai.workflow.name": "help", "session.id": "s1"}
EVALUATION: dict[str, Any] = {
    **PLACED,
    **RESULT,
    "openinference.span.kind": "EVALUATOR",
    "gen_ai.operation.name": "evaluation",
    "evaluations.0.evaluation.name": "ragas.faithfulness",
    "evaluations.0.evaluation.score": 0.5,
    "evaluations.0.evaluation.label": "fail",
    "evaluations.0.evaluation.annotator_kind": "CODE",
    "evaluations.0.evaluation.identifier": "scripted",
    "evaluations.0.evaluation.explanation": CLAIMS,
    "evaluations.0.evaluation.metadata": {
        "version": "0.1.0+scripted",
        "parts": {"contradicted": 0.0, "not_stated": 0.5, "unsure": 0.0},
        "sample_rate": 1.0,
        "reason": "ratio",
    },
}
REQUEST: dict[str, Any] = {
    **PLACED,
    "gen_ai.operation.name": "invoke_workflow",
    "gen_ai.conversation.id": "s1",
    "openinference.span.kind": "CHAIN",
}
TIMEOUT = REQUEST | {"rag.eval.status": "timeout"}
VARIES = {"rag.eval.duration_ms", "rag.eval.evaluated_at", "rag.eval.version"}


def told(given: Mapping[str, Any]) -> dict[str, Any]:
    parts = [part for one in given.values() for part in (one if isinstance(one, tuple) else [one])]
    # An enum member is a str for Python, and a name for exporters.
    assert {type(part) for part in parts} <= {str, int, float, bool}
    return {
        key: json.loads(value) if str(value).startswith("{") else value
        for key, value in given.items()
        if key not in VARIES
    }


def tree(world: World) -> dict[str, tuple[str | None, list[str], dict[str, Any]]]:
    spans = world.spans.all()
    names = {(span.context.trace_id, span.context.span_id): span.name for span in spans}
    return {
        span.name: (
            span.parent and names[span.parent.trace_id, span.parent.span_id],
            [names[link.context.trace_id, link.context.span_id] for link in span.links],
            told(attributes(span)),
        )
        for span in spans
    }


@pytest.mark.parametrize(
    ("config", "delay", "request_span", "evaluation_span"),
    [
        ({}, 0, ([], REQUEST | RESULT), None),
        ({"evaluation_span": "trace"}, 0, ([OURS], REQUEST | RESULT), None),
        ({"hold_timeout": 0}, 0.6, ([], REQUEST), RAG),
        ({"hold_timeout": 0.01}, 0.6, ([], TIMEOUT), RAG),
        ({"hold_timeout": 0.01, "evaluation_span": "off"}, 0.6, ([], TIMEOUT), None),
    ],
)
def test_spans_event_and_metrics_of_a_request(
    open_world: OpenWorld,
    config: dict[str, Any],
    delay: float,
    request_span: tuple[list[str], Any],
    evaluation_span: str | None,
) -> None:
    """A late result is a span of no length at the request's end, below the RAG span."""
    judge = ScriptedJudge(HALF, latency=delay)
    world = open_world(judge=judge, thresholds={"ragas.faithfulness": 0.8}, **config)
    world.ask()
    search = {"gen_ai.operation.name": "retrieval", "openinference.span.kind": "RETRIEVER"}
    expected = {SEARCH: (RAG, [], search), RAG: (None, *request_span)}
    rag, (event,) = world.spans.one(RAG), world.events()
    if request_span[0] or evaluation_span:
        expected[OURS] = (evaluation_span, [RAG], EVALUATION)
        late = world.spans.one(OURS)
        at = datetime.fromisoformat(str(attributes(late)["rag.eval.evaluated_at"])).timestamp()
        assert at - (rag.end_time or 0) / 1e9 >= delay - 0.01
        assert not delay or late.start_time == late.end_time == rag.end_time
    assert tree(world) == expected
    place = (rag.context.trace_id, rag.context.span_id)
    assert event.event_name == "gen_ai.evaluation.result"
    assert (event.trace_id, event.span_id) == place
    assert told(event.attributes) == EVENT | {"rag.eval.explanation": CLAIMS}
    (point,) = world.metrics.points("rag.eval.score")
    assert (point.count, point.sum) == (1, 0.5)
    assert list(point.explicit_bounds) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert dict(point.attributes or {}) == {
        "gen_ai.evaluation.name": "ragas.faithfulness",
        "rag.eval.suite": "ragas",
        "gen_ai.evaluation.score.label": "fail",
        "rag.eval.pass": "false",
        "gen_ai.workflow.name": "help",
    }
    assert [(one.trace_id, one.span_id) for one in point.exemplars] == [place]
    (duration,) = world.metrics.points("rag.eval.duration")
    assert duration.count == 1


def test_each_score_tells_its_own_probability_wherever_it_is(open_world: OpenWorld) -> None:
    rates = {"ragas": 0.25, "lexical": 1.0}
    metrics = ["ragas.faithfulness", "lexical.source_citation"]
    world = open_world(metrics=metrics, metric_rates=rates, evaluation_span="child")
    while len(world.events()) < 2:
        world.spans.clear()
        world.logs.clear()
        world.ask()
    seen = told(attributes(world.spans.one("evaluation")))
    at = [f"evaluations.{number}.evaluation" for number in range(2)]
    on_span = {seen[f"{one}.name"]: seen[f"{one}.metadata"]["sample_rate"] for one in at}
    assert on_span == {"ragas.faithfulness": 0.25, "lexical.source_citation": 1.0}
    in_events = [event.attributes for event in world.events()]
    assert on_span == {e["gen_ai.evaluation.name"]: e["rag.eval.sample_rate"] for e in in_events}


def test_a_failed_metric_is_an_event_with_its_cause(open_world: OpenWorld) -> None:
    world = open_world(judge=ScriptedJudge(error=RuntimeError("down")))
    world.ask()
    (event,) = world.events()
    named = {"gen_ai.evaluation.name": "ragas.faithfulness", "error.type": "judge_failed"}
    assert dict(event.attributes) == named
    assert attributes(world.spans.one("invoke"))["rag.eval.unscored"] == ("ragas.faithfulness",)


def test_events_name_the_reply_that_is_the_answer(open_world: OpenWorld) -> None:
    ids = [f"reply-{number}" for number in range(3)]
    replies = [AIMessage(f"Keel {one} holds.", response_metadata={"id": one}) for one in ids]
    model = GenericFakeChatModel(messages=iter(replies))
    store: Runnable[str, list[Document]] = RunnableLambda(lambda _: [Document("Keels hold.")])

    def ask(question: str) -> dict[str, Any]:
        model.invoke(f"Rewrite: {question}")
        (document,) = store.invoke(question)
        answer = model.invoke(f"{document.page_content}\n{question}").content
        model.invoke("Write a title.")
        return {"answer": answer}

    world = open_world()
    handler = RagEvalCallbackHandler(world.evals)
    RunnableLambda(ask).invoke("What holds?", config={"callbacks": [handler]})
    assert world.evals.flush(60)
    assert [event.attributes["gen_ai.response.id"] for event in world.events()] == [ids[1]]
    spans = [attributes(span)["gen_ai.response.id"] for span in world.spans.named("chat")]
    assert sorted(spans) == ids


@pytest.mark.parametrize(
    ("variable", "on_spans", "in_events"),
    [
        ("SPAN_ONLY", True, False),
        ("EVENT_ONLY", False, True),
        ("span_and_event", True, True),
        ("nonsense", False, False),
        ("", False, False),
    ],
)
def test_the_content_switch(
    open_world: OpenWorld,
    variable: str,
    on_spans: bool,
    in_events: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", variable)
    world = open_world(evaluation_span="child")
    world.ask()
    spans = str([dict(attributes(span)) for span in world.spans.all()])
    assert (SECRET in spans, "a chunk" in spans) == (on_spans, on_spans)
    assert (SECRET in str([dict(e.attributes) for e in world.events()])) is in_events
    assert SECRET not in str(world.metrics.points("rag.eval.score"))


def test_a_trace_that_is_not_sampled_has_no_evaluation_span(open_world: OpenWorld) -> None:
    world = open_world(sampler=ALWAYS_OFF, evaluation_span="child")
    world.ask()
    assert world.spans.all() == ()
    (point,) = world.metrics.points("rag.eval.score")
    assert (point.count, list(point.exemplars)) == (1, [])


class _Broken(SimpleSpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if span.name.startswith("evaluation"):
            raise OSError(SECRET)


def test_a_signal_that_fails_takes_no_other_with_it(open_world: OpenWorld) -> None:
    world = open_world(evaluation_span="child")
    world.spans.provider.add_span_processor(_Broken(InMemorySpanExporter()))
    world.ask()
    assert world.evals.stats().incidents == {"telemetry evaluation span: OSError": 1}
    assert attributes(world.spans.one("invoke"))["rag.eval.status"] == "ok"
    assert len(world.events()) == len(world.metrics.points("rag.eval.score")) == 1


def test_judge_metrics_equal_the_sum_of_score_usage(open_world: OpenWorld, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\n[models."test-model"]\ninput = 1.0\noutput = 2.0\n')
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
    spent, metrics = sum(used, start=Usage()), world.metrics
    assert spent.calls > 0
    assert spent.cost
    assert sum(point.value for point in metrics.points("rag.eval.judge.calls")) == spent.calls
    tokens = metrics.by("rag.eval.judge.tokens", "token.type")
    assert tokens == {"input": spent.input_tokens, "output": spent.output_tokens}
    cost = metrics.by("rag.eval.judge.cost", "judge.name")
    assert cost == {"openai:test-model": pytest.approx(spent.cost)}


@pytest.mark.parametrize(("most", "most_links"), [(32, None), (128, 2), (None, 0)])
def test_a_span_holds_at_most_twenty_results_and_none_is_lost(
    open_world: OpenWorld, most: int | None, most_links: int | None
) -> None:
    """Past twenty results, or the SDK's limit, another span follows; nothing is pushed out."""
    unset = SpanLimits.UNSET
    links = unset if most_links is None else most_links
    limits = SpanLimits(max_span_attributes=most or unset, max_links=links)
    world = open_world(metrics=many(45), limits=limits, evaluation_span="trace")
    world.ask()
    rag, evaluations = world.spans.one("invoke"), world.spans.named("evaluation")
    pairs = [pair for span in evaluations for pair in attributes(span).items()]
    names = [value for key, value in pairs if key[:11] == "evaluations" and key[-5:] == ".name"]
    assert sorted(names) == [f"own.m{number:03}" for number in range(45)]
    assert all(span.dropped_attributes == 0 for span in evaluations)
    assert rag.dropped_links == 0
    ids = [span.context.span_id for span in evaluations]
    assert [link.context.span_id for link in rag.links] == ids[:most_links]
    assert len(evaluations) == 3 if most is None else len(evaluations) > 2


def test_labels_and_workflows_cannot_make_ever_more_series(open_world: OpenWorld) -> None:
    numbers = itertools.count()

    def score(*_: object) -> Outcome:
        return UNIT.score(0.5, label=f"label {next(numbers)}")

    metric = Metric(id="own.m", score=score, needs=frozenset({Field.QUESTION}))
    world = open_world(metrics=[metric])
    for number in range(60):
        record_request(world.evals, f"{number}", workflow=f"w{number}")
    assert world.evals.flush(60)
    points = [dict(point.attributes) for point in world.metrics.points("rag.eval.score")]
    for name in ("gen_ai.evaluation.score.label", "gen_ai.workflow.name"):
        assert len({one[name] for one in points}) == 51, name


@pytest.mark.parametrize("limit", [1, 9, 20])
def test_low_attribute_limits_push_nothing_out(
    open_world: OpenWorld, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", str(limit))
    theirs = open_world(metrics="ragas.faithfulness", spans="none")
    own = {f"own.{number}": number for number in range(limit)}
    with theirs.spans.provider.get_tracer("app").start_as_current_span("outer") as outer:
        outer.set_attributes(own)
        theirs.ask()
    assert dict(attributes(theirs.spans.one("outer"))) == own
    if limit < 9:
        return
    for rate in (1, 0):
        ours = open_world(metrics=many(30), capture_content=True, sample_rate=rate)
        ours.ask()
        rag = ours.spans.one("invoke")
        kept = {"session.id": "s1", "input.value": "q", "output.value": "a"}
        assert kept.items() <= dict(attributes(rag)).items()
        assert rag.dropped_attributes == 0


def test_sums_of_the_counters_weigh_each_score_by_its_probability() -> None:
    chance, metrics, memory = random.Random(7), Metrics(), MemorySink()
    metric = Metric(
        id="own.value",
        score=lambda sample, _: UNIT.score(float(sample.metadata["value"])),
        needs=frozenset({Field.QUESTION}),
    )
    rules = [{"tags": ["beta"], "rate": 0.8}]
    config: dict[str, Any] = {"rules": rules, "sample_rate": 0.1, "queue_size": 300}
    with RagEval([metric], sinks=[memory], meter_provider=metrics.provider, **config) as evals:
        for index in range(300):
            tags = ("beta",) if index % 3 == 0 else ()
            evals.submit(question=f"q{index}", tags=tags, metadata={"value": chance.random()})
        assert evals.flush(120)
    scores = [one.outcomes["own.value"] for one in memory.results]
    pairs = [(1 / (one.probability or 1), one.value or 0.0) for one in scores]
    assert {weight for weight, _ in pairs} == {10.0, 1.25}
    sums = [sum(weight * value**power for weight, value in pairs) for power in (0, 1)]
    found = [metrics.value(f"rag.eval.score.{name}") for name in ("weight", "weighted")]
    assert found == pytest.approx(sums)
    squares = [sum(weight**2 * value**power for weight, value in pairs) for power in (0, 1, 2)]
    by_power = metrics.by("rag.eval.score.square", "power")
    assert [by_power[power] for power in "012"] == pytest.approx(squares)


def evaluated(spans: Spans, server: JudgeServer, **config: Any) -> None:
    provider: TracerProvider = spans.provider
    told = {"judge_base_url": server.url, "judge_api_key": "none", **config}
    told.setdefault("embedder", "openai:embed-1")
    with RagEval(
        metrics="ragas",
        judge="openai:judge-1",
        config=RagEvalConfig(**told),
        tracer_provider=provider,
    ) as evals:
        with provider.get_tracer("app").start_as_current_span("GET /ask"):
            record_request(evals, workflow="help")
        assert evals.flush(300)


def when(span: ReadableSpan) -> tuple[int, int]:
    return span.start_time or 0, span.end_time or 0


@pytest.mark.parametrize("shown", [True, False])
def test_calls_stand_below_the_evaluation_span_alone(shown: bool) -> None:
    spans = Spans()
    with JudgeServer() as server:
        evaluated(spans, server, trace_judge=shown)
        paths = [request.path for request in server.requests]
    (request,) = spans.named("GET /ask")
    trace = [s for s in spans.all() if s.context.trace_id == request.context.trace_id]
    assert sorted(s.name for s in trace) == ["GET /ask", "invoke_workflow help", "retrieval store"]
    chats, embeddings = spans.named("chat judge-1"), spans.named("embeddings embed-1")
    assert paths.count("/v1/chat/completions") > 0
    assert len(chats) == paths.count("/v1/chat/completions") * shown
    assert len(embeddings) == paths.count("/v1/embeddings") * shown
    for span in [*chats, *embeddings]:
        evaluation = spans.one("evaluation")
        assert span.parent is not None
        assert span.parent.span_id == evaluation.context.span_id
        assert span.context.trace_id == evaluation.context.trace_id
        assert span.kind is SpanKind.CLIENT
        assert when(evaluation)[0] <= when(span)[0] < when(span)[1] <= when(evaluation)[1]
    if shown:
        seen = dict(attributes(chats[0]))
        assert seen.pop("gen_ai.usage.input_tokens") > 0
        assert seen.pop("gen_ai.usage.output_tokens") > 0
        assert seen.pop("gen_ai.response.id")
        assert seen == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "judge-1",
            "gen_ai.response.model": "judge-1",
            "openinference.span.kind": "LLM",
        }
        assert attributes(embeddings[0])["openinference.span.kind"] == "EMBEDDING"


def test_failed_call_is_a_span_with_its_error() -> None:
    spans = Spans()
    with JudgeServer(faults=[Fault(kind=FaultKind.SERVER_ERROR)]) as server:
        evaluated(spans, server, trace_judge=True, embedder="none")
    failed = spans.named("chat")
    assert failed
    assert {span.status.status_code for span in failed} == {StatusCode.ERROR}
    assert {attributes(span)["error.type"] for span in failed} == {"500"}
