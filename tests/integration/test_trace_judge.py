"""Calls of judge and embedder as spans, on request, by the real client to a real endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import SpanKind, StatusCode

from rag_eval_hooks import RagEval, RagEvalConfig
from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import JudgeServer
from tests.support.evaluation import record_request
from tests.support.otel import Spans


def asked(spans: Spans, server: JudgeServer, **config: Any) -> None:
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


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def when(span: ReadableSpan) -> tuple[int, int]:
    return span.start_time or 0, span.end_time or 0


@pytest.mark.parametrize("shown", [True, False])
def test_calls_stand_below_the_evaluation_span_alone(shown: bool) -> None:
    spans = Spans()
    with JudgeServer() as server:
        asked(spans, server, trace_judge=shown)
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


def test_failed_call_is_a_span_with_its_error() -> None:
    spans = Spans()
    with JudgeServer(faults=[Fault(kind=FaultKind.SERVER_ERROR)]) as server:
        asked(spans, server, trace_judge=True, embedder="none")
    failed = spans.named("chat")
    assert failed
    assert {span.status.status_code for span in failed} == {StatusCode.ERROR}
    assert {told(span)["error.type"] for span in failed} == {"500"}
