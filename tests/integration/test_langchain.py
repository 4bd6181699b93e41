"""A real LangChain RAG chain: its spans, what its caller notices, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from tests.matrix.langchain.kit import (
    CHAIN_WAYS,
    PASSAGES,
    QUESTION,
    Chat,
    answer_to,
    call,
    top,
)
from tests.matrix.langchain.lcel import plain
from tests.matrix.world import World
from tests.support.langchain_requests import Fixed, config, only

ANSWER = answer_to(QUESTION, top())
FOUND = Document(PASSAGES[0], id="d1", metadata={"score": 0.5, "page": 1, "x": []})


class Echo(Chat):
    """A model whose class names its provider."""


def reply(_: Any) -> AIMessage:
    return AIMessage(
        PASSAGES[0],
        usage_metadata={"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
        response_metadata={"model_name": "echo-1-2026"},
    )


def fail(_: Any) -> str:
    raise ConnectionError("the model is down")


def spans(world: World, name: str = "") -> list[ReadableSpan]:
    world.evals.flush(300)
    return [s for s in world.exporter.get_finished_spans() if s.name.startswith(name)]


def attributes(world: World, name: str) -> dict[str, Any]:
    return dict(spans(world, name)[0].attributes or {})


def test_documents_are_on_the_sample_and_content_is_on_spans_when_asked_for(world: World) -> None:
    """Ids, scores and scalar metadata of documents, and the run's own metadata and ids."""
    metadata = {"question_id": "Q1", "reference": "ref", "session_id": "s", "k": 1}
    told: Any = {**config(world), "metadata": metadata, "tags": ["blue"]}
    shown = RunnableLambda(lambda found: found[0].page_content)
    (Fixed(documents=[FOUND]) | shown | Echo(reply=reply)).invoke(QUESTION, told)
    sample = only(world)
    assert (sample.question_id, sample.reference, sample.session_id) == ("Q1", "ref", "s")
    assert (dict(sample.metadata), sample.tags) == ({"k": 1}, ("blue",))
    (first,) = sample.contexts or ()
    assert (first.id, first.score, dict(first.metadata)) == ("d1", 0.5, {"score": 0.5, "page": 1})
    context = spans(world, "invoke_workflow")[0].context
    assert sample.trace_id == f"{context.trace_id:032x}"
    assert sample.span_id == f"{context.span_id:016x}"
    root, retrieval = attributes(world, "invoke_workflow"), attributes(world, "retrieval")
    assert (root["input.value"], root["output.value"]) == (QUESTION, PASSAGES[0])
    one = "retrieval.documents.0.document"
    assert [retrieval[f"{one}.{key}"] for key in ("content", "id", "score")] == [
        PASSAGES[0],
        "d1",
        0.5,
    ]


@pytest.mark.parametrize("way", CHAIN_WAYS)
def test_the_rag_span_stands_under_the_current_span_and_leaves_it(way: str, world: World) -> None:
    """An application's own span is the parent, and no callback changes what is current."""
    with world.provider.get_tracer("app").start_as_current_span("request") as outer:
        call(way, plain(), [QUESTION], config(world))
        assert trace.get_current_span() is outer
    (span,) = spans(world, "invoke_workflow")
    assert span.parent == outer.get_span_context()


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_an_error_reaches_the_caller_and_is_counted(way: str, world: World) -> None:
    """The application's exception passes unchanged; a retriever was asked, so it counts."""
    with pytest.raises(ConnectionError):
        call(way, plain(model=Chat(reply=fail)), [QUESTION], config(world))
    world.evals.flush(300)
    assert world.evals.stats().dropped == {"error": 1}
    assert len(world.evals.recorder) == 0
    root = spans(world, "invoke_workflow")[0]
    assert (root.attributes or {})["error.type"] == "ConnectionError"
    assert (root.attributes or {})["rag.eval.reason"] == "error"
    assert not root.status.is_ok


def test_a_handler_that_fails_never_reaches_the_application(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of our own in a callback is counted, logged with its place; the request goes on."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(world.evals.recorder, "start", broken)
    assert plain().invoke(QUESTION, config(world)) == ANSWER
    assert world.evals.stats().incidents["capture on_chain_start: RuntimeError"] > 0
    assert f"RuntimeError raised at {__file__}:" in caplog.text


def test_an_unsampled_trace_records_nothing_and_is_still_evaluated() -> None:
    """Tracing and evaluation are sampled apart: sinks get what no span was recorded for."""
    world = World(ALWAYS_OFF)
    plain().invoke(QUESTION, config(world))
    assert (only(world).span_id, spans(world)) == (None, [])
    assert len(world.memory.results) == 1
    world.close()


@pytest.mark.parametrize("odd", [[1.0, 2.0], "high", 10**400, float("nan")])
def test_an_odd_score_in_metadata_costs_nothing(odd: object, world: World) -> None:
    """A score that is no number is left out; the request is captured all the same."""
    found = Fixed(documents=[Document(PASSAGES[0], metadata={"score": odd})])
    (found | RunnableLambda(lambda documents: "an answer")).invoke(QUESTION, config(world))
    (context,) = only(world).contexts or ()
    assert context.score is None or context.score != context.score
