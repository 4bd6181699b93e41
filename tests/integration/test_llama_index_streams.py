"""Streams of LlamaIndex that are read later, in part, or never."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import Any

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import (
    ChatMessage,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle

from rag_eval_hooks import Status
from tests.matrix.llama_index import fixtures, kit
from tests.matrix.llama_index.helpers import engine, samples
from tests.matrix.llama_index.variants import Corpus, says
from tests.matrix.world import World
from tests.support.variation import Variation, seeds

own_loop, world = fixtures.own_loop, fixtures.world
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]


@pytest.mark.parametrize("seed", seeds(3))
def test_a_dropped_stream_ends_whatever_the_number_of_its_sources(world: World, seed: int) -> None:
    """Nothing of ours keeps the generator of a response with many sources."""
    draw = Variation(seed)
    corpus = Corpus(draw, draw.chance.randint(100, 200))
    corpus.engine(says(draw.sentence()), streaming=True).query(corpus.question)
    gc.collect()
    (sample,) = samples(world)
    assert (sample.question, sample.status) == (corpus.question, Status.CLOSED)


def test_a_stream_is_scored_without_another_request(world: World) -> None:
    """A streamed answer is offered when it was read, though nothing else is reported."""
    assert "".join(engine(streaming=True).query(kit.QUESTION).response_gen)
    while not world.memory.results:
        pass
    assert world.memory.results[0].sample.answer == kit.answer_to(kit.QUESTION, kit.top())


def test_the_stream_is_the_users_own(world: World) -> None:
    """A response and its generator are neither wrapped nor replaced."""
    response = engine(streaming=True).query(kit.QUESTION)
    generator = response.response_gen
    assert type(generator).__name__ == "generator"
    assert "rag_eval" not in str(generator.gi_code.co_filename)
    list(generator)


def test_a_stream_read_before_it_is_returned(
    world: World, own_loop: asyncio.AbstractEventLoop
) -> None:
    """The answer is what was read of it, within the request that returns the response."""
    dispatcher = get_dispatcher("tests")

    @dispatcher.span
    def request(query: str) -> Any:
        response = engine(streaming=True).query(query)
        assert str(response)
        return response

    @dispatcher.span
    async def arequest(query: str) -> Any:
        response = await engine(streaming=True).aquery(query)
        assert await response._async_str()
        return response

    request(kit.QUESTION)
    own_loop.run_until_complete(arequest(kit.QUESTIONS[1]))
    found = {sample.question: (sample.answer, sample.status) for sample in samples(world)}
    assert found == {q: (kit.answer_to(q, kit.top(q)), Status.OK) for q in kit.QUESTIONS}


class Completing(CustomLLM):
    """Completes only, word by word; LlamaIndex makes its chat of that."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="completing")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="At 07:40.")

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        def words() -> CompletionResponseGen:
            yield CompletionResponse(text="At ", delta="At ")
            yield CompletionResponse(text="At 07:40.", delta="07:40.")

        return words()


def test_a_streamed_chat_of_a_completion_model_is_one_call(world: World) -> None:
    """The completion inside a streamed chat is that chat: one span, and its text."""
    dispatcher = get_dispatcher("tests")

    @dispatcher.span
    async def request(query: str) -> str:
        await kit.index().as_retriever(similarity_top_k=2).aretrieve(query)
        messages = [ChatMessage(role="user", content=query)]
        parts = [part async for part in await Completing().astream_chat(messages)]
        return str(parts[-1].message.content)

    assert asyncio.run(request(kit.QUESTION)) == "At 07:40."
    (seen,) = world.seen()
    assert (seen.sample.answer, seen.sample.status) == ("At 07:40.", Status.OK)
    assert len([span for span in seen.spans if span.strip().startswith("chat")]) == 1


class FindsNothing(BaseRetriever):
    """Has no nodes."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return []


def finds_nothing() -> Any:
    return RetrieverQueryEngine.from_args(FindsNothing(), llm=kit.reader(), streaming=True)


@pytest.mark.parametrize("way", ["read", "dropped", "closed"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_stream_of_an_empty_retrieval(
    way: str, asynchronous: bool, world: World, own_loop: asyncio.AbstractEventLoop
) -> None:
    """Read it is the fixed answer; dropped or closed unread it is closed as any stream is."""

    async def asked() -> None:
        response = await finds_nothing().aquery(kit.QUESTION)
        if way == "read":
            assert [token async for token in response.async_response_gen()]
        elif way == "closed":
            await response.response_gen.aclose()

    if asynchronous:
        own_loop.run_until_complete(asked())
    else:
        response = finds_nothing().query(kit.QUESTION)
        if way == "read":
            assert list(response.response_gen)
        elif way == "closed":
            response.response_gen.close()
        del response
    (sample,) = samples(world)
    due = ("Empty Response", Status.OK) if way == "read" else (None, Status.CLOSED)
    assert (sample.answer, sample.status) == due


def test_a_reply_that_cannot_be_read_ends_its_model_call(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts of a reply that raise leave the model's run ended, not a stream that was closed."""

    def broken(_: object) -> None:
        raise ValueError

    monkeypatch.setattr("rag_eval_hooks_llama_index.models.reply_facts", broken)
    assert "".join(engine(streaming=True).query(kit.QUESTION).response_gen)
    (sample,) = samples(world)
    assert (sample.answer, sample.status) == (kit.answer_to(kit.QUESTION, kit.top()), Status.OK)
    assert world.evals.stats().incidents["capture model replied: ValueError"] >= 1


def prompt_of(question: str) -> list[ChatMessage]:
    nodes = kit.index().as_retriever(similarity_top_k=2).retrieve(question)
    text = "\n".join(node.get_content() for node in nodes)
    return [ChatMessage(role="user", content=f"Use only:\n{text}\nQuestion: {question}")]


@pytest.mark.parametrize(
    ("way", "answer", "status"),
    [
        ("read", kit.answer_to(kit.QUESTION, kit.top()), Status.OK),
        ("part", None, Status.CLOSED),
        ("dropped", None, Status.CLOSED),
        ("breaks", None, Status.ERROR),
        ("stated", "So it is.", Status.OK),
    ],
)
def test_a_models_stream_read_after_its_interaction(
    way: str, answer: str | None, status: Status, world: World
) -> None:
    """The stream of a model called by hand may be read when the block is left."""
    llm = kit.reader(breaks_after=3 if way == "breaks" else None)
    with world.evals.interaction(kit.QUESTION) as interaction:
        stream: Any = llm.stream_chat(prompt_of(kit.QUESTION))
        if way == "stated":
            interaction.answer("So it is.")
    if way in ("read", "breaks"):
        with contextlib.suppress(ConnectionError):
            list(stream)
    elif way == "part":
        next(stream)
    del stream
    gc.collect()
    (sample,) = samples(world)
    assert (sample.answer, sample.status) == (answer, status)
    assert [c.text for c in sample.contexts or ()] == kit.top()
    assert not world.disorder({})


def test_models_streams_read_in_tasks_after_their_interactions(
    world: World, own_loop: asyncio.AbstractEventLoop
) -> None:
    """So may several, in tasks of their own; each has its own answer."""

    async def asked(question: str) -> Any:
        async with world.evals.interaction(question):
            return await kit.reader(delay=0.001).astream_chat(prompt_of(question))

    async def read(stream: Any) -> None:
        assert [part async for part in stream]

    async def all_of_them() -> None:
        streams = [await asked(question) for question in kit.QUESTIONS]
        await asyncio.gather(*map(read, streams))

    own_loop.run_until_complete(all_of_them())
    found = {sample.question: (sample.answer, sample.status) for sample in samples(world)}
    assert found == {q: (kit.answer_to(q, kit.top(q)), Status.OK) for q in kit.QUESTIONS}


def test_a_models_stream_that_broke_within_its_interaction(world: World) -> None:
    """A broken stream that the application made good in the block is no failure of it."""
    with world.evals.interaction(kit.QUESTION):
        prompt = prompt_of(kit.QUESTION)
        with pytest.raises(ConnectionError):
            list(kit.reader(breaks_after=3).stream_chat(prompt))
        kit.reader().chat(prompt)
    (sample,) = samples(world)
    assert (sample.answer, sample.status) == (kit.answer_to(kit.QUESTION, kit.top()), Status.OK)
