"""Many requests to LlamaIndex at once."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import AsyncStreamingResponse
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.query_engine import CustomQueryEngine

from rag_eval_hooks import Status
from rag_eval_hooks_llama_index import Instrumentation
from tests.matrix.llama_index.agents import name_of
from tests.matrix.llama_index.fixtures import opened, samples
from tests.matrix.llama_index.kit import Corpus, Draw, Scripted, in_turn, pick, says
from tests.matrix.world import World
from tests.support.size import size
from tests.support.variation import Variation

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
COUNT = size(40, 600)


@pytest.fixture
def world() -> Iterator[World]:
    with opened(SINK_SECONDS=60) as made:
        yield made


class Shouting(CustomQueryEngine):
    """Asks another engine while it is read, and changes what that says."""

    inner: Any
    kind: str

    def custom_query(self, query_str: str) -> Any:
        raise NotImplementedError

    async def acustom_query(self, query_str: str) -> Any:
        await self.inner.retriever.aretrieve(query_str)

        async def words() -> AsyncIterator[str]:
            answer = await self.inner.aquery(query_str)
            async for word in answer.async_response_gen():
                yield word.upper()
            if self.kind == "own breaks":
                raise ConnectionError
            if self.kind == "own cancelled":
                await asyncio.sleep(60)

        return AsyncStreamingResponse(words())  # type: ignore[arg-type]


def failing(messages: Any) -> str:
    raise ConnectionError


class Request:
    """One of many requests, each over its own passages and of its own kind."""

    def __init__(self, number: int, kind: str, world: World) -> None:
        self.number, self.kind = number, kind
        draw = Draw(number, "aquery", world)
        self.corpus = Corpus(draw)
        self.question = f"Request {number}: {self.corpus.question}"
        self.answer = f"This is the answer to request {number}."
        self.model = says(self.answer, delay=0.001)

    async def ask(self) -> None:
        with (
            instrument_tags({"session_id": f"s-{self.number}"}),
            contextlib.suppress(ConnectionError, TimeoutError),
        ):
            await ASKING.get(self.kind, Request.stream)(self)

    async def plain(self) -> None:
        await self.corpus.engine(self.model).aquery(self.question)

    async def fails(self) -> None:
        await self.corpus.engine(Scripted(reply=failing, delay=0.001)).aquery(self.question)

    async def chat(self) -> None:
        engine = self.corpus.index.as_chat_engine("context", llm=self.model, similarity_top_k=2)  # type: ignore[arg-type]
        await engine.achat(self.question)

    async def agent(self) -> None:
        tool = self.corpus.tool()
        model = in_turn(self.answer, pick(name_of(tool), input=self.question), delay=0.01)
        await FunctionAgent(tools=[tool], llm=model, streaming=False).run(user_msg=self.question)

    async def stream(self) -> None:
        """Read as much of a stream as the kind says."""
        engine: Any = self.corpus.engine(self.model, streaming=True)
        if self.kind.startswith("own"):
            engine = Shouting(inner=engine, kind=self.kind)
        response: Any = await engine.aquery(self.question)
        await asyncio.sleep(0.001 * (self.number % 7))
        tokens = response.async_response_gen()
        if self.kind.endswith("part"):
            await anext(tokens)
            await tokens.aclose()
            await response.response_gen.aclose()
        elif not self.kind.endswith("dropped"):
            async with asyncio.timeout(1.5 if self.kind == "own cancelled" else None):
                async for _ in tokens:
                    pass


ASKING: dict[str, Callable[[Request], Any]] = {
    "plain": Request.plain,
    "fails": Request.fails,
    "chat": Request.chat,
    "agent": Request.agent,
}
DUE = {
    **dict.fromkeys(("plain", "chat", "agent", "stream", "own"), Status.OK),
    **dict.fromkeys(("fails", "own breaks"), Status.ERROR),
    **dict.fromkeys(("part", "dropped", "own part", "own dropped"), Status.CLOSED),
    "own cancelled": Status.CANCELLED,
}
KINDS = tuple(DUE)


@pytest.mark.parametrize("share", [0.0, 0.3], ids=["none cancelled", "30 % cancelled"])
def test_many_requests_at_once_are_not_mixed_lost_doubled_or_left_open(
    world: World, share: float
) -> None:
    chance = Variation(0).chance
    cancelled = set(chance.sample(range(COUNT), round(share * COUNT)))
    requests = [Request(n, KINDS[n % len(KINDS)], world) for n in range(COUNT)]

    async def cut_short(request: Request) -> None:
        task = asyncio.ensure_future(request.ask())
        if request.number in cancelled:
            await asyncio.sleep(chance.random() * COUNT / 100)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def all_at_once() -> None:
        await asyncio.gather(*map(cut_short, requests))

    asyncio.run(all_at_once())
    gc.collect()
    found = samples(world)
    numbers = [int(s.question.split(":")[0].removeprefix("Request ")) for s in found]
    assert max(Counter(numbers).values()) == 1
    assert COUNT - len(cancelled) <= len(found) <= COUNT
    for number, sample in zip(numbers, found, strict=True):
        request = requests[number]
        assert sample.session_id == f"s-{number}"
        if number not in cancelled:
            assert sample.status is DUE[request.kind]
            assert len(sample.contexts or ()) == 2
        if sample.status is Status.OK:
            said = request.answer
            assert sample.answer == (said.upper() if request.kind == "own" else said)
    assert not world.disorder({})
    assert leaked(world) == 0


def test_cancelled_calls_of_a_model_leave_nothing_open(world: World) -> None:
    """Long before the time limit."""
    model = says("never", delay=60.0)

    async def one() -> None:
        task = asyncio.ensure_future(model.achat([ChatMessage(content="Who is it?")]))
        await asyncio.sleep(0.001)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def all_at_once() -> None:
        await asyncio.gather(*(one() for _ in range(200)))
        assert len(world.evals.recorder) == 0

    asyncio.run(all_at_once())
    assert samples(world) == []
    assert not world.disorder({})
    assert leaked(world) == 0


def leaked(world: World) -> int:
    handlers = get_dispatcher().span_handlers
    (ours,) = [handler for handler in handlers if isinstance(handler, Instrumentation)]
    return len(world.evals.recorder._runs) + len(ours._answers._makers)
