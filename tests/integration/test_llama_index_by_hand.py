"""LlamaIndex's retriever and LLM called one by one in one request."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("llama_index.core")
from llama_index.core.base.llms import types
from llama_index.core.llms import ChatMessage
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool

from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.kit import Scripted, prompt_text
from tests.matrix.llama_index.variants import Corpus, answered, says
from tests.matrix.world import World
from tests.support.hand_requests import Request, as_request, random_request
from tests.support.size import size
from tests.support.variation import Variation, seeds

world = fixtures.world


class Store(BaseRetriever):
    def __init__(self, known: Mapping[str, Request]) -> None:
        self._known = known
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._known[query_bundle.query_str].documents
        return [NodeWithScore(node=TextNode(text=text), score=0.5) for text in found]


class Desk:
    """Retriever and LLM that know some requests."""

    def __init__(self, requests: Sequence[Request]) -> None:
        known = {one.question: one for one in requests}

        def reply(messages: Sequence[ChatMessage]) -> str:
            asked = prompt_text(messages)
            return next(one.answer for question, one in known.items() if question in asked)

        self.retriever = Store(known)
        self.llm = Scripted(reply=reply)


def prompt(one: Request, nodes: Sequence[NodeWithScore]) -> str:
    found = "\n---\n".join(node.get_content() for node in nodes)
    return f"Notes:\n{found}\nQuestion: {one.question}\nAnswer:"


def messages(one: Request, nodes: Sequence[NodeWithScore]) -> list[ChatMessage]:
    return [ChatMessage(role="user", content=prompt(one, nodes))]


def complete(desk: Desk, one: Request) -> None:
    nodes = desk.retriever.retrieve(one.question)
    assert desk.llm.complete(prompt(one, nodes)).text == one.answer


def chat(desk: Desk, one: Request) -> None:
    nodes = desk.retriever.retrieve(one.question)
    assert desk.llm.chat(messages(one, nodes)).message.content == one.answer


def stream_chat(desk: Desk, one: Request) -> None:
    nodes = desk.retriever.retrieve(one.question)
    said = [chunk.message.content for chunk in desk.llm.stream_chat(messages(one, nodes))]
    assert said[-1] == one.answer


async def achat(desk: Desk, one: Request) -> None:
    nodes = await desk.retriever.aretrieve(one.question)
    assert (await desk.llm.achat(messages(one, nodes))).message.content == one.answer


async def astream_chat(desk: Desk, one: Request) -> None:
    nodes = await desk.retriever.aretrieve(one.question)
    said = await desk.llm.astream_chat(messages(one, nodes))
    assert [chunk.message.content async for chunk in said][-1] == one.answer


WAYS: Sequence[Callable[[Desk, Request], Any]] = (complete, chat, stream_chat, achat, astream_chat)


def samples(world: World) -> list[Request]:
    return [as_request(seen.sample) for seen in world.seen()]


@pytest.mark.parametrize("way", WAYS)
def test_one_question_is_one_interaction(way: Callable[..., Any], world: World) -> None:
    """Question, contexts and answer are those of the request, in the request's own trace."""
    requests = []
    for seed in range(size(3, 30)):
        one = random_request(random.Random(f"{way.__name__} {seed}"))
        requests.append(one)
        with world.provider.get_tracer("server").start_as_current_span("GET /ask"):
            done = way(Desk([one]), one)
            if done is not None:
                asyncio.run(done)
    assert sorted(samples(world), key=str) == sorted(requests, key=str)
    assert world.traces() == len(requests)
    assert world.evals.stats().without_retrieval == 0


@pytest.mark.parametrize("way", size([stream_chat, astream_chat], WAYS))
def test_requests_at_once_are_never_mixed(way: Callable[..., Any], world: World) -> None:
    """A hundred requests at once: each sample is that of one request, and none is missing."""
    requests = [random_request(random.Random(seed)) for seed in range(100)]
    desk = Desk(requests)

    async def together() -> None:
        await asyncio.gather(*(way(desk, one) for one in requests))

    if way in (achat, astream_chat):
        asyncio.run(together())
    else:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda one: way(desk, one), requests))
    assert sorted(samples(world), key=str) == sorted(requests, key=str)


@pytest.mark.skipif(not hasattr(types, "ToolCallBlock"), reason="tool calls are no blocks yet")
@pytest.mark.parametrize("seed", seeds(5))
def test_a_loop_around_a_model_with_tools_is_asked_by_the_user(world: World, seed: int) -> None:
    """Arguments that a model gave to a tool are no question, as a mapping or as JSON."""
    draw = Variation(seed)
    corpus, answer = Corpus(draw, 3), draw.sentence()
    given: Any = {"wanted": draw.word()}
    given = json.dumps(given, ensure_ascii=False) if draw.chance.random() < 0.5 else given
    picked = types.ToolCallBlock(tool_call_id="1", tool_name="search", tool_kwargs=given)
    replies = iter([ChatMessage(role="assistant", blocks=[picked]), answer])

    def search(wanted: str) -> str:
        return "\n".join(node.get_content() for node in corpus.retriever.retrieve(wanted))

    tool = FunctionTool.from_defaults(search)
    llm = Scripted(reply=lambda _: next(replies))
    messages = [ChatMessage(role="user", content=corpus.question)]
    messages.append(llm.chat(messages).message)
    arguments = json.loads(given) if isinstance(given, str) else given
    messages.append(ChatMessage(role="tool", content=str(tool(**arguments))))
    llm.chat(messages)
    (seen,) = world.seen()
    assert (seen.sample.question, seen.sample.answer) == (corpus.question, answer)


class Threaded(CustomQueryEngine):
    """Retrieves in a thread that knows nothing of the query."""

    corpus: Any
    model: Any

    def custom_query(self, query_str: str) -> str:
        with ThreadPoolExecutor(1) as pool:
            return self._answer(pool.submit(self.corpus.retriever.retrieve, query_str).result())

    async def acustom_query(self, query_str: str) -> str:
        loop = asyncio.get_running_loop()
        found = loop.run_in_executor(None, self.corpus.retriever.retrieve, query_str)
        return self._answer(await found)

    def _answer(self, nodes: Sequence[NodeWithScore]) -> str:
        return str(self.model.complete("\n".join(node.get_content() for node in nodes)).text)


@pytest.mark.parametrize("seed", seeds(5))
def test_a_query_whose_retriever_ran_in_a_bare_thread_is_right(world: World, seed: int) -> None:
    """Its documents are linked to it by its model's prompt, and it does not count as without."""
    draw = Variation(seed)
    corpus = Corpus(draw, draw.chance.randint(1, 4))
    answer = answered(draw)
    engine = Threaded(corpus=corpus, model=says(answer))
    if draw.chance.random() < 0.5:
        engine.query(corpus.question)
    else:
        asyncio.run(engine.aquery(corpus.question))
    assert samples(world) == [Request(corpus.question, tuple(corpus.shown()), answer)]
    assert world.evals.stats().without_retrieval == 0
