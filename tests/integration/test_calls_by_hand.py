"""Retriever and model called one by one, as most code without a chain does."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from rag_eval_hooks.sample import Status
from rag_eval_hooks_langchain import disable, enable
from tests.matrix.langchain.kit import (
    QUESTION,
    Bags,
    Chat,
    answer_to,
    joined,
    prompt_text,
    reader,
    store,
    top,
)
from tests.matrix.world import World
from tests.support.langchain_requests import config, only, texts
from tests.support.variation import Variation, run_seed
from tests.waiting import PATIENCE


@dataclass(frozen=True)
class Request:
    question: str
    documents: tuple[str, ...]
    answer: str


def random_request(dice: random.Random) -> Request:
    drawn = Variation(dice.randrange(10**9))
    documents = drawn.passages(dice.randint(1, 5))
    return Request(drawn.question(), tuple(documents), drawn.sentence())


class Store(BaseRetriever):
    known: Mapping[str, Request]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(text) for text in self.known[query].documents]


class Desk:
    def __init__(self, *requests: Request) -> None:
        known = {one.question: one for one in requests}
        self.retriever = Store(known=known)
        self.model = Chat(
            reply=lambda messages: next(
                one.answer for asked, one in known.items() if asked in prompt_text(messages)
            )
        )


def prompt(question: str, found: str) -> Any:
    if len(question) % 2:
        return f"Answer from these notes:\n\n{found}\n\nQuestion: {question}\nAnswer:"
    return [SystemMessage(f"Context:\n{found}"), HumanMessage(question)]


Way = Callable[[Desk, Request], Any]


def invoke(desk: Desk, one: Request) -> None:
    found = desk.retriever.invoke(one.question)
    assert desk.model.invoke(prompt(one.question, joined(found))).content == one.answer


async def astream(desk: Desk, one: Request) -> None:
    found = await desk.retriever.ainvoke(one.question)
    said = desk.model.astream(prompt(one.question, joined(found)))
    assert "".join([str(chunk.content) async for chunk in said]) == one.answer


async def in_threads(desk: Desk, one: Request) -> None:
    found = await asyncio.to_thread(desk.retriever.invoke, one.question)
    reply = await asyncio.to_thread(desk.model.invoke, prompt(one.question, joined(found)))
    assert reply.content == one.answer


@pytest.fixture
def plain() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture
def world(plain: World) -> Iterator[World]:
    enable(plain.evals)
    yield plain
    disable()


@pytest.fixture
def dice() -> random.Random:
    return random.Random(run_seed())


def captured(world: World) -> list[Request]:
    samples = [seen.sample for seen in world.seen()]
    assert all(one.status is Status.OK for one in samples)
    return [
        Request(one.question, tuple(c.text for c in one.contexts or ()), one.answer or "")
        for one in samples
    ]


def call(way: Way, *given: Any) -> None:
    done = way(*given)
    if done is not None:
        asyncio.run(done)


@pytest.mark.parametrize(
    ("way", "with_span"), [(invoke, True), (astream, True), (in_threads, False)]
)
def test_one_question_is_one_interaction(
    way: Way, with_span: bool, world: World, dice: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    one = random_request(dice)
    tracer = world.provider.get_tracer("server")
    around = tracer.start_as_current_span("GET /ask") if with_span else nullcontext()
    with around:
        call(way, Desk(one), one)
    assert captured(world) == [one]
    assert world.evals.stats().without_retrieval == 0
    assert [one.getMessage() for one in caplog.records if "evaluated" in one.getMessage()] == []
    spans = {span.name.split()[0]: span for span in world.exporter.get_finished_spans()}
    server = spans["GET"].context if with_span else None
    assert spans["invoke_workflow"].parent == server
    assert {line.split()[0] for line in world.seen()[0].spans} == {"retrieval", "chat"}


@pytest.mark.parametrize(
    ("way", "spans"), [(invoke, "own"), (invoke, "one"), (astream, "one"), (astream, "none")]
)
def test_requests_at_once_are_never_mixed(
    way: Way, spans: str, world: World, dice: random.Random
) -> None:
    tracer = world.provider.get_tracer("server")
    requests = [random_request(dice) for _ in range(60)]
    desk = Desk(*requests)

    def served(one: Request) -> None:
        with tracer.start_as_current_span("GET /ask") if spans == "own" else nullcontext():
            way(desk, one)

    async def together() -> None:
        await asyncio.gather(*(astream(desk, one) for one in requests))

    with tracer.start_as_current_span("all") if spans == "one" else nullcontext():
        if way is astream:
            asyncio.run(together())
        else:
            with ThreadPoolExecutor(16) as pool:
                list(pool.map(served, requests))
    assert world.evals.flush(PATIENCE)
    got = captured(world)
    assert [one for one in got if one not in requests] == []
    assert len(got) == len(set(got)) == 60


def test_nothing_is_joined_that_does_not_belong_together(
    world: World, dice: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = random_request(dice), random_request(dice)
    desk = Desk(one, other)
    desk.retriever.invoke(one.question)
    desk.model.invoke(f"Chat with me: {other.question}")
    tracer = world.provider.get_tracer("server")
    with tracer.start_as_current_span("first"):
        desk.retriever.invoke(one.question)
    with tracer.start_as_current_span("second"):
        desk.model.invoke(prompt(other.question, other.documents[0]))
    assert world.seen() == []
    assert world.evals.stats().without_retrieval == 2
    (hint,) = [one for one in caplog.records if "no retrieved text" in one.getMessage()]
    assert "evals.interaction(question)" in hint.getMessage()


@pytest.mark.parametrize(("reading", "is_late"), [(invoke, True), (astream, False)])
def test_a_block_in_a_streaming_view_has_its_answer_on_the_span(
    reading: Way, is_late: bool, world: World, dice: random.Random
) -> None:
    """The answer that only the model's call shows is on the RAG span, in the view's trace.

    Also where the server has left its span before the stream is read.
    """
    one = random_request(dice)

    def words(block: Any) -> Iterator[str]:
        with block:
            call(reading, Desk(one), one)
            yield one.answer

    tracer = world.provider.get_tracer("server")
    with tracer.start_as_current_span("GET /ask") as view:
        answer = words(world.evals.interaction(one.question))
        said = [] if is_late else list(answer)
    assert said + list(answer) == [one.answer]
    assert captured(world) == [one]
    (rag,) = (s for s in world.exporter.get_finished_spans() if s.name.startswith("invoke_wor"))
    assert rag.parent == view.get_span_context()
    assert (rag.attributes or {})["output.value"] == one.answer


ANSWER = answer_to(QUESTION, top())
Search = Callable[[VectorStore], Any]
SEARCHES: dict[str, Search] = {
    "similarity_search": lambda kept: kept.similarity_search(QUESTION, k=2),
    "by_vector": lambda kept: kept.similarity_search_by_vector(Bags().embed_query(QUESTION), k=2),
    "mmr": lambda kept: kept.max_marginal_relevance_search(QUESTION, k=2, lambda_mult=1.0),
    "with_score": lambda kept: asyncio.run(kept.asimilarity_search_with_score(QUESTION, k=2)),
    "retriever": lambda kept: asyncio.run(
        kept.as_retriever(search_kwargs={"k": 2}).ainvoke(QUESTION)
    ),
}


def asked(search: Search) -> Callable[[str], str]:
    def ask(question: str) -> str:
        documents = [one[0] if isinstance(one, tuple) else one for one in search(store())]
        prompt = f"Use only:\n{joined(documents)}\n\nQuestion: {question}"
        return str(reader().invoke(prompt).content)

    return ask


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_and_a_model_in_one_function_are_a_sample(name: str, world: World) -> None:
    ask = asked(SEARCHES[name])
    # Without a query and a chain nobody can tell the question from the rest of the prompt.
    said = RunnableLambda(ask).invoke(QUESTION) if name == "by_vector" else ask(QUESTION)
    assert said == ANSWER
    sample = only(world)
    assert (texts(sample), sample.question, sample.answer) == (top(), QUESTION, ANSWER)
    spans = world.exporter.get_finished_spans()
    (span,) = [span for span in spans if span.name.startswith("retrieval")]
    found = dict(span.attributes or {})
    assert found.get("gen_ai.retrieval.top_k") == (None if name == "retriever" else 2)
    assert found["gen_ai.data_source.id"] == "InMemoryVectorStore"
    scores = [context.score for context in sample.contexts or ()]
    assert all(score is not None for score in scores) is (name == "with_score")


def test_a_callback_alone_does_not_see_a_search(
    plain: World, caplog: pytest.LogCaptureFixture
) -> None:
    ask = RunnableLambda(asked(SEARCHES["similarity_search"]))
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        for _ in range(3):
            ask.invoke(QUESTION, config(plain))
            plain.evals.flush(300)
    assert plain.seen() == []
    assert plain.evals.stats().without_retrieval == 3
    (hint,) = [one for one in caplog.records if "no retrieved text" in one.getMessage()]
    assert hint.levelno == logging.WARNING
    assert "enable(evals)" in hint.getMessage()


def test_disable_gives_the_methods_back(plain: World) -> None:
    before = {name: vars(InMemoryVectorStore).get(name) for name in dir(InMemoryVectorStore)}
    enable(plain.evals)
    enable(plain.evals)
    assert vars(InMemoryVectorStore)["similarity_search"] is not before["similarity_search"]
    disable()
    after = {name: vars(InMemoryVectorStore).get(name) for name in dir(InMemoryVectorStore)}
    assert after == before
    assert "__init_subclass__" not in vars(VectorStore)


def test_a_class_that_is_defined_later_is_seen_and_its_errors_reach_the_caller(
    world: World,
) -> None:
    class Broken(InMemoryVectorStore):
        def similarity_search(self, query: str, k: int = 4, **_: Any) -> list[Document]:
            raise ConnectionError(query)

    search: Any = RunnableLambda(lambda _: Broken(Bags()).similarity_search("here"))
    with pytest.raises(ConnectionError, match="here"):
        search.invoke(QUESTION)
    with pytest.raises(TypeError):
        Broken(Bags()).similarity_search()  # type: ignore[call-arg]
    world.evals.flush(300)
    assert world.evals.stats().dropped == {"error": 1}
