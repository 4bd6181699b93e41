"""Spans, log events and metrics of evaluations, by the real SDK."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics.export import HistogramDataPoint
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from rag_eval_hooks import Sample
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import UNIT
from rag_eval_hooks.telemetry.log_events import EventEmitter
from rag_eval_hooks.testing import ScriptedJudge
from tests.support.telemetry_world import HALF, SECRET, World, attributes


@pytest.fixture
def world() -> Iterator[World]:
    made = World(thresholds={"ragas.faithfulness": 0.8})
    yield made
    made.evals.shutdown()


def test_an_evaluation_span_has_every_result_and_one_link() -> None:
    """In a trace of its own on request: one link to the RAG span, which links back."""
    world = World(thresholds={"ragas.faithfulness": 0.8}, evaluation_span="trace")
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
    world.evals.shutdown()


def test_scores_in_time_have_no_span_of_their_own(world: World) -> None:
    """A request whose RAG span has its scores is one trace without an evaluation span."""
    world.ask()
    assert world.spans.named("evaluation") == []
    assert attributes(world.spans.one("invoke"))["rag.eval.ragas.faithfulness.score"] == 0.5
    assert world.spans.one("invoke").links == ()


def test_a_child_is_written_for_every_evaluation() -> None:
    """On request, below the RAG span at its end, so that the trace is no longer than it."""
    world = World(evaluation_span="child")
    world.ask()
    rag, evaluation = world.spans.one("invoke_workflow"), world.spans.one("evaluation")
    assert evaluation.parent is not None
    assert evaluation.parent.span_id == rag.context.span_id
    assert len(evaluation.links) == 1
    assert evaluation.start_time == evaluation.end_time == rag.end_time
    world.evals.shutdown()


def test_no_evaluation_span_on_request() -> None:
    """Off means none, also for what comes late."""
    world = World(judge=ScriptedJudge(HALF, latency=0.3), evaluation_span="off", hold_timeout=0.01)
    world.ask()
    assert world.spans.named("evaluation") == []
    assert world.spans.one("invoke").links == ()
    world.evals.shutdown()


@pytest.mark.parametrize(
    ("config", "status"),
    [
        ({"hold_timeout": 0.01}, "timeout"),
        ({"hold_timeout": 0}, None),
    ],
)
def test_a_late_result_is_below_the_rag_span(config: dict[str, Any], status: str | None) -> None:
    """A span of no length at the request's end has what the RAG span would have had, and a link."""
    thresholds = {"ragas.faithfulness": 0.8}
    late = World(judge=ScriptedJudge(HALF, latency=0.6), thresholds=thresholds, **config)
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
    late.evals.shutdown()
    held = World(thresholds=thresholds)
    held.ask()
    varies = {"rag.eval.duration_ms"}
    wanted = dict(attributes(held.spans.one("invoke")))
    held.evals.shutdown()
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
    assert json.loads(told.pop("gen_ai.evaluation.explanation"))
    assert told == {
        "gen_ai.evaluation.name": "ragas.faithfulness",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.score.label": "fail",
        "rag.eval.pass": False,
        "rag.eval.sample_rate": 1.0,
    }


def test_each_score_tells_its_own_probability_wherever_it_is() -> None:
    """Evaluation span and events say the rate of each metric, not that of the likeliest alone."""
    rates = {"ragas": 0.25, "lexical": 1.0}
    metrics = ["ragas.faithfulness", "lexical.source_citation"]
    world = World(metrics=metrics, metric_rates=rates, evaluation_span="child")
    while len(world.events()) < 2:
        world.spans.clear()
        world.logs.clear()
        world.ask()
    world.evals.shutdown()
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


class _Watched(dict[str, Any]):
    """An explanation that knows whether it was looked at."""

    looked_at = False

    def items(self) -> Any:
        self.looked_at = True
        return super().items()


@pytest.mark.parametrize("wanted", [True, False])
def test_no_event_is_made_that_nobody_takes(wanted: bool) -> None:
    """An application without a logger provider costs no explanation in words."""
    loggers = LoggerProvider()
    exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    loggers.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    provider = loggers if wanted else NoOpLoggerProvider()
    emitter = EventEmitter(provider, content=False, max_chars=100)
    explanation = _Watched(claims=2)
    score = UNIT.score(1.0, explanation=explanation)
    emitter.emit(
        Evaluation(
            sample=Sample(question="q"), outcomes={"own.m": score}, probability=1, start=0, end=1
        )
    )
    assert explanation.looked_at is wanted


def test_a_failed_metric_is_an_event_with_its_cause() -> None:
    """A failed metric is a log event with its cause."""
    world = World(judge=ScriptedJudge(error=RuntimeError("down")))
    world.ask()
    (event,) = world.events()
    assert dict(event.attributes) == {
        "gen_ai.evaluation.name": "ragas.faithfulness",
        "error.type": "judge_failed",
    }
    assert attributes(world.spans.one("invoke"))["rag.eval.unscored"] == ("ragas.faithfulness",)
    world.evals.shutdown()


@pytest.mark.parametrize("seed", range(8))
def test_events_name_the_reply_that_is_the_answer(seed: int) -> None:
    """Of several model calls, events carry the id of the one whose text the user gets."""
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable, RunnableLambda

    from rag_eval_hooks_langchain import RagEvalCallbackHandler

    draw = random.Random(seed)
    before, after = draw.randint(0, 2), draw.randint(0, 2)
    texts = [f"{draw.choice(['Sluice', 'Keel'])} {n} holds." for n in range(before + after + 1)]
    ids = [f"reply-{draw.getrandbits(64):x}" for _ in texts]
    replies = [
        AIMessage(text, response_metadata={"id": reply})
        for text, reply in zip(texts, ids, strict=True)
    ]
    model = GenericFakeChatModel(messages=iter(replies))
    documents = [Document("The sluice holds.")]
    store: Runnable[str, list[Document]] = RunnableLambda(lambda _: documents)
    in_state = draw.random() < 0.5

    def ask(question: str) -> Any:
        for _ in range(before):
            model.invoke(f"Rewrite: {question}")
        (document,) = store.invoke(question)
        answer = model.invoke(f"{document.page_content}\n{question}").content
        for _ in range(after):
            model.invoke("Write a title.")
        return {"answer": answer} if in_state else answer

    world = World()
    handler = RagEvalCallbackHandler(world.evals)
    RunnableLambda(ask).invoke("What holds?", config={"callbacks": [handler]})
    assert world.evals.flush(60)
    (event,) = world.events()
    assert event.attributes["gen_ai.response.id"] == ids[before]
    spans = [attributes(span)["gen_ai.response.id"] for span in world.spans.named("chat")]
    assert sorted(spans) == sorted(ids)
    world.evals.shutdown()


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
    variable: str | None, on_spans: bool, in_events: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application's texts are where the standard variable says, and nowhere else."""
    name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(name, variable)
    world = World(evaluation_span="child")
    world.ask()
    spans = str([dict(attributes(span)) for span in world.spans.all()])
    assert (SECRET in spans) is on_spans
    assert ("a chunk" in spans) is on_spans
    assert (SECRET in str([dict(e.attributes) for e in world.events()])) is in_events
    assert SECRET not in str(world.metrics.points("rag.eval.score"))
    world.evals.shutdown()


def test_a_bad_bucket_leads_to_its_trace(world: World) -> None:
    """The score histogram is normalised, has tenths as bounds, and exemplars of the RAG span."""
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


def test_a_trace_that_is_not_sampled_has_no_evaluation_span() -> None:
    """No span points to a trace that nobody keeps; metrics count without exemplar."""
    world = World(sampler=ALWAYS_OFF, evaluation_span="child")
    world.ask()
    assert world.spans.all() == ()
    (point,) = world.metrics.points("rag.eval.score")
    assert point.count == 1
    assert list(point.exemplars) == []
    world.evals.shutdown()


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("all", ["evaluation help", "invoke_workflow help", "outer", "retrieval store"]),
        ("auto", ["evaluation help", "invoke_workflow help", "outer", "retrieval store"]),
        ("root", ["evaluation help", "invoke_workflow help", "outer"]),
        ("none", ["evaluation help", "outer"]),
    ],
)
def test_which_spans_are_ours_to_write(mode: str, names: list[str]) -> None:
    """The setting says; with none, the evaluation span is below the application's own span."""
    world = World(spans=mode, evaluation_span="child")
    with world.spans.provider.get_tracer("app").start_as_current_span("outer"):
        world.ask()
    assert sorted(span.name for span in world.spans.all()) == names
    target = world.spans.one("outer" if mode == "none" else "invoke")
    parent = world.spans.one("evaluation").parent
    assert parent is not None
    assert parent.span_id == target.context.span_id
    (event,) = world.events()
    assert event.span_id == target.context.span_id
    world.evals.shutdown()


class _Broken(SimpleSpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if span.name.startswith("evaluation"):
            raise OSError(SECRET)


def test_a_signal_that_fails_takes_no_other_with_it() -> None:
    """Providers are the application's; what they raise is counted, all else is sent."""
    world = World(evaluation_span="child")
    world.spans.provider.add_span_processor(_Broken(InMemorySpanExporter()))
    world.ask()
    assert world.evals.stats().incidents == {"telemetry evaluation span: OSError": 1}
    assert attributes(world.spans.one("invoke"))["rag.eval.status"] == "ok"
    assert len(world.events()) == 1
    assert len(world.metrics.points("rag.eval.score")) == 1
    world.evals.shutdown()
