"""A real LangChain RAG chain, called in every way, with concurrent requests."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, RunnablePassthrough
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

from rag_eval_hooks import RagEval, RagEvalConfig, Sample, Status
from rag_eval_hooks.testing import Findings, MemorySink, ScriptedJudge
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.kit import CHAIN_WAYS, Chat, call
from tests.support.limits import small_limits
from tests.support.variation import Variation, seeds
from tests.waiting import until_async

DOCUMENT = "Document {} about {} holds what is to be known of it."


class Store(BaseRetriever):
    """Two documents for any question, none for 'nothing', an error for 'broken'."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if query == "broken":
            raise LookupError("the store is down")
        if query == "nothing":
            return []
        return [
            Document(
                DOCUMENT.format(n, query), id=f"d{n}", metadata={"score": n / 2, "page": n, "x": []}
            )
            for n in (1, 2)
        ]


def echo(messages: list[BaseMessage]) -> AIMessage:
    """Answers with the question."""
    question = str(messages[-1].content).rpartition("Question: ")[2]
    if question == "crash":
        raise ConnectionError("the model is down")
    return AIMessage(
        f"You asked: {question}",
        usage_metadata={"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
        response_metadata={"model_name": "echo-1-2026"},
    )


class Echo(Chat):
    """A model whose class names its provider."""


Chain = Runnable[Any, str]


def build_chain(delay: float = 0.0) -> Chain:
    def text(documents: list[Document]) -> str:
        return "\n\n".join(document.page_content for document in documents)

    prompt = ChatPromptTemplate.from_template("Use {context}\nQuestion: {question}")
    inputs = {"context": Store() | text, "question": RunnablePassthrough()}
    return inputs | prompt | Echo(reply=echo, model="echo-1", delay=delay) | StrOutputParser()


class World:
    """An evaluator with everything observable."""

    def __init__(self, sampler: Sampler = ALWAYS_ON, **config: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.memory = MemorySink()
        self.judge = ScriptedJudge(Findings(answer_claims=(), answer_support=()))
        with small_limits(config):
            self.evals = RagEval(
                metrics=["ragas.faithfulness", "lexical.source_citation"],
                judge=self.judge,
                sinks=[self.memory],
                config=RagEvalConfig(**config),
                tracer_provider=self.provider,
            )
        self.handler = RagEvalCallbackHandler(self.evals)

    @property
    def config(self) -> RunnableConfig:
        return {"callbacks": [self.handler]}

    def samples(self) -> list[Sample]:
        assert self.evals.flush(300)
        return [result.sample for result in self.memory.results]

    def spans(self, name: str = "") -> list[ReadableSpan]:
        self.evals.flush(300)
        return [s for s in self.exporter.get_finished_spans() if s.name.startswith(name)]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.evals.shutdown()


def check(sample: Sample, question: str) -> None:
    assert sample.question == question
    assert sample.answer is not None
    assert sample.answer.strip() == f"You asked: {question}"
    assert sample.contexts is not None
    texts = [context.text for context in sample.contexts]
    assert texts == [DOCUMENT.format(n, question) for n in (1, 2)]
    assert sample.status is Status.OK


def test_attributes_follow_the_conventions(world: World) -> None:
    """Spans carry GenAI and OpenInference attributes side by side, and no content unasked."""
    config: RunnableConfig = {
        **world.config,
        "metadata": {"session_id": "s1", "user_id": "u1", "tenant": "t1"},
        "run_name": "help",
    }
    build_chain().invoke("one?", config)
    root = dict(world.spans("invoke_workflow help")[0].attributes or {})
    assert root["gen_ai.operation.name"] == "invoke_workflow"
    assert root["gen_ai.workflow.name"] == "help"
    assert root["openinference.span.kind"] == "CHAIN"
    assert root["session.id"] == root["gen_ai.conversation.id"] == "s1"
    assert root["user.id"] == "u1"
    model = dict(world.spans("chat")[0].attributes or {})
    assert model["gen_ai.provider.name"] == "echo"
    assert model["gen_ai.response.model"] == "echo-1-2026"
    assert model["gen_ai.usage.input_tokens"] == 7
    assert model["gen_ai.usage.output_tokens"] == 3
    retrieval = dict(world.spans("retrieval")[0].attributes or {})
    assert retrieval["gen_ai.data_source.id"] == "Store"
    everything = str([dict(span.attributes or {}) for span in world.spans()])
    assert "Document 1" not in everything
    assert "one?" not in everything


def test_content_is_on_spans_when_asked_for() -> None:
    """With content capture on, question, documents and answer are on the spans."""
    world = World(capture_content=True)
    build_chain().invoke("one?", world.config)
    root = dict(world.spans("invoke_workflow")[0].attributes or {})
    assert (root["input.value"], root["output.value"]) == ("one?", "You asked: one?")
    retrieval = dict(world.spans("retrieval")[0].attributes or {})
    assert retrieval["retrieval.documents.1.document.content"] == DOCUMENT.format(2, "one?")
    assert retrieval["retrieval.documents.1.document.id"] == "d2"
    assert retrieval["retrieval.documents.1.document.score"] == 1.0
    world.evals.shutdown()


def test_sample_carries_ids_scores_and_metadata(world: World) -> None:
    """Document ids, scores and scalar metadata, and the run's own metadata, are on the sample."""
    metadata = {"question_id": "Q1", "reference": "ref", "session_id": "s", "k": 1}
    build_chain().invoke("one?", {**world.config, "metadata": metadata, "tags": ["blue"]})
    (sample,) = world.samples()
    assert (sample.question_id, sample.reference, sample.session_id) == ("Q1", "ref", "s")
    assert (dict(sample.metadata), sample.tags) == ({"k": 1}, ("blue",))
    assert sample.contexts is not None
    first = sample.contexts[0]
    assert (first.id, first.score, dict(first.metadata)) == ("d1", 0.5, {"score": 0.5, "page": 1})


def test_ids_on_the_sample_are_those_of_the_span(world: World) -> None:
    """Trace and span id on a sample lead to its RAG span."""
    build_chain().invoke("one?", world.config)
    (sample,) = world.samples()
    context = world.spans("invoke_workflow")[0].context
    assert sample.trace_id == f"{context.trace_id:032x}"
    assert sample.span_id == f"{context.span_id:016x}"


def test_the_rag_span_stands_under_the_current_span(world: World) -> None:
    """An application's own span is the parent of the RAG span, sync and async."""
    with world.provider.get_tracer("app").start_as_current_span("request") as outer:
        build_chain().invoke("one?", world.config)
        asyncio.run(build_chain().ainvoke("two?", world.config))
    spans = world.spans("invoke_workflow")
    assert [span.parent and span.parent.span_id for span in spans] == [
        outer.get_span_context().span_id
    ] * 2


@pytest.mark.parametrize("way", CHAIN_WAYS)
def test_the_current_span_is_left_alone(way: str, world: World) -> None:
    """No callback changes what is current in the application's context."""
    with world.provider.get_tracer("app").start_as_current_span("request") as outer:
        call(way, build_chain(), ["one?"], world.config)
        assert trace.get_current_span() is outer


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("question", ["broken", "crash"])
def test_an_error_reaches_the_caller_and_is_counted(way: str, question: str, world: World) -> None:
    """The application's exception passes unchanged; a retriever was asked, so it counts."""
    error = LookupError if question == "broken" else ConnectionError
    with pytest.raises(error):
        call(way, build_chain(), [question], world.config)
    assert world.samples() == []
    assert world.evals.stats().dropped == {"error": 1}
    if question == "crash":
        root = world.spans("invoke_workflow")[0]
        assert (root.attributes or {})["error.type"] == "ConnectionError"
        assert (root.attributes or {})["rag.eval.reason"] == "error"
        assert not root.status.is_ok
    assert len(world.evals.recorder) == 0


def read_by(way: str, chain: Chain, question: str, config: RunnableConfig) -> Any:
    if way == "astream":
        return chain.astream(question, config)
    return chain.astream_events(question, config, version="v2")


@pytest.mark.parametrize("way", ["astream", "astream_events"])
@pytest.mark.parametrize("leaves", ["breaks", "closes", "is cancelled"])
@pytest.mark.parametrize("seed", seeds(5))
def test_a_reader_who_leaves_closes_and_a_task_that_is_cancelled_cancels(
    way: str, leaves: str, seed: int, world: World
) -> None:
    """LangChain cancels the chain of `astream_events` either way."""
    drawn = Variation(seed)
    after, asked = drawn.chance.randint(1, 2), drawn.question()

    async def read(told: asyncio.Event) -> None:
        count = 0
        parts = read_by(way, build_chain(delay=0.2), asked, world.config)
        async for part in parts:
            count += way == "astream" or part["event"] == "on_chat_model_stream"
            if count == after:
                told.set()
                if leaves != "is cancelled":
                    break
        if leaves == "closes":
            await parts.aclose()

    async def request() -> None:
        told = asyncio.Event()
        task = asyncio.ensure_future(read(told))
        if leaves == "is cancelled":
            await told.wait()
            task.cancel()
        await asyncio.wait([task])
        await until_async(lambda: bool(world.evals.stats().dropped))

    asyncio.run(request())
    status = "cancelled" if leaves == "is cancelled" else "closed"
    assert world.evals.stats().dropped == {status: 1}
    assert len(world.evals.recorder) == 0


def test_a_handler_that_fails_never_reaches_the_application(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of our own in a callback is counted, logged with its place; the request goes on."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(world.evals.recorder, "start", broken)
    assert build_chain().invoke("one?", world.config) == "You asked: one?"
    incidents = world.evals.stats().incidents
    assert incidents["capture on_chain_start: RuntimeError"] > 0
    assert re.search(r" at rag_eval_hooks_langchain/\w+\.py:\d+ in \w+", caplog.text)


def test_without_an_sdk_scores_still_reach_the_sinks() -> None:
    """With no tracer provider configured nothing is emitted, and everything else works."""
    memory = MemorySink()
    judge = ScriptedJudge(Findings(answer_claims=(), answer_support=()))
    evals = RagEval(metrics=["lexical.source_citation"], judge=judge, sinks=[memory])
    build_chain().invoke("one?", {"callbacks": [RagEvalCallbackHandler(evals)]})
    evals.flush(300)
    check(memory.results[0].sample, "one?")
    assert memory.results[0].sample.trace_id is None
    evals.shutdown()


def test_an_unsampled_trace_records_nothing_and_is_still_evaluated() -> None:
    """Tracing and evaluation are sampled apart: sinks get what no span was recorded for."""
    world = World(sampler=ALWAYS_OFF)
    build_chain().invoke("one?", world.config)
    (sample,) = world.samples()
    assert (sample.span_id, world.spans()) == (None, [])
    world.evals.shutdown()


class _Refusing(SpanProcessor):
    def on_start(self, span: object, parent_context: object = None) -> None:
        raise ValueError("processor")


def test_a_span_processor_that_refuses_loses_nothing_uncounted(world: World) -> None:
    """A request goes on and is counted though the application's own span processor raises."""
    world.provider.add_span_processor(_Refusing())
    assert build_chain().invoke("one?", world.config) == "You asked: one?"
    stats = world.evals.stats()
    assert (stats.offered, stats.dropped) == (1, {"capture_failed": 1})
    assert stats.incidents == {"capture: ValueError": 1}


async def test_events_are_handled_in_the_event_loop() -> None:
    """By default no event of an async run costs a hop to another thread."""
    world = World()
    threads: set[int] = set()
    start = world.evals.recorder.start

    def watched(*args: Any) -> Any:
        threads.add(threading.get_ident())
        return start(*args)

    world.evals.recorder.start = watched  # type: ignore[method-assign, assignment]
    await build_chain().ainvoke("one?", world.config)
    assert threads == {threading.get_ident()}
    world.evals.shutdown()


@pytest.mark.parametrize(
    "odd", [[1.0, 2.0], "high", 10**400, float("nan")], ids=["list", "text", "huge", "nan"]
)
def test_an_odd_score_in_metadata_costs_nothing(odd: object, world: World) -> None:
    """A score that is no number is left out; the request is captured all the same."""

    class Odd(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(DOCUMENT, metadata={"score": odd})]

    (Odd() | RunnableLambda(lambda documents: "an answer")).invoke("q", world.config)
    (sample,) = world.samples()
    assert sample.contexts is not None
    assert sample.contexts[0].score is None or sample.contexts[0].score != sample.contexts[0].score
    assert world.evals.stats().incidents == {}
