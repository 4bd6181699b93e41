"""Calls of judge and embedder as spans, on request, by the real client to a real endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rag_eval_hooks import ConfigError, RagEval, RagEvalConfig
from rag_eval_hooks.calls import Call, Caller, CallLog
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.sample import Context
from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import JudgeServer


class World:
    """An application, its spans, and an evaluator with a judge behind HTTP."""

    def __init__(self, server: JudgeServer, **config: Any) -> None:
        self.spans = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.evals = RagEval(
            metrics=config.pop("metrics", "ragas"),
            judge="openai:judge-1",
            config=RagEvalConfig(
                judge_base_url=server.url,
                judge_api_key="none",
                embedder=config.pop("embedder", "openai:embed-1"),
                **config,
            ),
            tracer_provider=self.tracers,
        )
        self._runs = 0

    def ask(self, answer: str = "The crossing takes 55 minutes.") -> None:
        self._runs += 2
        recorder = self.evals.recorder
        with self.tracers.get_tracer("app").start_as_current_span("GET /ask"):
            root = recorder.start(self._runs, None, RunKind.CHAIN, "help")
            assert root is not None
            root.query, root.text = "How long is the crossing?", answer
            run = recorder.start(self._runs + 1, self._runs, RunKind.RETRIEVER, "store")
            assert run is not None
            recorder.documents(run, [Context(text="By ship the crossing takes 55 minutes.")])
            recorder.end(run)
            recorder.end(root)

    def named(self, start: str) -> list[ReadableSpan]:
        assert self.evals.flush(300)
        return [s for s in self.spans.get_finished_spans() if s.name.startswith(start)]


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer() as started:
        yield started


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def when(span: ReadableSpan) -> tuple[int, int]:
    return span.start_time or 0, span.end_time or 0


def test_calls_stand_below_the_evaluation_span(server: JudgeServer) -> None:
    world = World(server, trace_judge=True)
    world.ask()
    (evaluation,) = world.named("evaluation")
    chats, embeddings = world.named("chat judge-1"), world.named("embeddings embed-1")
    world.evals.shutdown()
    paths = [request.path for request in server.requests]
    assert len(chats) == paths.count("/v1/chat/completions") > 0
    assert len(embeddings) == paths.count("/v1/embeddings") > 0
    for span in [*chats, *embeddings]:
        assert span.parent is not None
        assert span.parent.span_id == evaluation.context.span_id
        assert span.context.trace_id == evaluation.context.trace_id
        assert span.kind is SpanKind.CLIENT
        assert when(evaluation)[0] <= when(span)[0] < when(span)[1] <= when(evaluation)[1]
    seen = told(chats[0])
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
    assert told(embeddings[0])["openinference.span.kind"] == "EMBEDDING"


@pytest.mark.parametrize("shown", [True, False])
def test_the_applications_trace_has_none(shown: bool, server: JudgeServer) -> None:
    world = World(server, trace_judge=shown)
    world.ask()
    (request,) = world.named("GET /ask")
    trace = [
        s
        for s in world.spans.get_finished_spans()
        if s.context.trace_id == request.context.trace_id
    ]
    assert sorted(s.name for s in trace) == ["GET /ask", "invoke_workflow help", "retrieval store"]
    assert bool(world.named("chat")) is shown
    assert bool(world.named("embeddings")) is shown
    world.evals.shutdown()
    assert server.requests


def test_failed_call_is_a_span_with_its_error() -> None:
    with JudgeServer(faults=[Fault(kind=FaultKind.SERVER_ERROR)]) as server:
        world = World(server, trace_judge=True, metrics="ragas.faithfulness", embedder="none")
        world.ask()
        failed = world.named("chat")
        world.evals.shutdown()
    assert failed
    assert {span.status.status_code for span in failed} == {StatusCode.ERROR}
    assert {told(span)["error.type"] for span in failed} == {"500"}


def test_without_an_evaluation_span_it_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="trace_judge"):
        RagEval(config=RagEvalConfig(trace_judge=True, evaluation_span="off"))


def test_the_number_is_limited() -> None:
    """A log keeps the first calls and counts the others."""
    log = CallLog()
    for _ in range(600):
        log.called(Call(Caller("m")))
    assert (len(log.calls), log.omitted) == (500, 100)
