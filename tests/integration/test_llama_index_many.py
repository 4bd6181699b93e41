"""Many requests to LlamaIndex at once."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.base.response.schema import AsyncStreamingResponse
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.query_engine import CustomQueryEngine

from rag_eval_hooks import Status
from rag_eval_hooks_llama_index import Instrumentation, enable
from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.agents import retriever_tool
from tests.matrix.llama_index.helpers import engine, samples
from tests.matrix.llama_index.kit import FERRIES, Scripted, index, pick
from tests.matrix.world import World
from tests.support.size import size
from tests.support.variation import Variation

own_loop = fixtures.own_loop
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]

DUE = {
    "plain": Status.OK,
    "chat": Status.OK,
    "agent": Status.OK,
    "stream": Status.OK,
    "fails": Status.ERROR,
    "part": Status.CLOSED,
    "dropped": Status.CLOSED,
    "own": Status.OK,
    "own part": Status.CLOSED,
    "own dropped": Status.CLOSED,
    "own breaks": Status.ERROR,
    "own cancelled": Status.CANCELLED,
}
KINDS = tuple(DUE)


def numbered(messages: Any) -> str:
    """Answers with the number of the request that the prompt is of."""
    prompt = "\n".join(message.content or "" for message in messages)
    number = prompt.rsplit("Request ", 1)[1].split(":")[0]
    return f"This is the answer to request {number}."


def failing(messages: Any) -> str:
    raise ConnectionError


class Shouting(CustomQueryEngine):
    """Asks another engine while it is read, and changes what that says."""

    kind: str

    def custom_query(self, query_str: str) -> Any:
        raise NotImplementedError

    async def acustom_query(self, query_str: str) -> Any:
        inner = engine(llm=Scripted(reply=numbered, delay=0.001), streaming=True)
        await inner.retriever.aretrieve(query_str)

        async def words() -> AsyncIterator[str]:
            answer = await inner.aquery(query_str)
            async for word in answer.async_response_gen():
                yield word.upper()
            if self.kind == "own breaks":
                raise ConnectionError
            if self.kind == "own cancelled":
                await asyncio.sleep(60)

        return AsyncStreamingResponse(words())  # type: ignore[arg-type]


async def consume(response: Any, kind: str) -> None:
    """Reads as much of a stream as its kind says."""
    stream = response.async_response_gen()
    if kind.endswith("part"):
        await anext(stream)
        await stream.aclose()
        await response.response_gen.aclose()
    elif not kind.endswith("dropped"):
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1.5 if kind == "own cancelled" else None):
                async for _ in stream:
                    pass


COUNT = size(120, 600)


def question_of(number: int) -> str:
    return f"Request {number}: at what time does the ferry to Skarn leave the quay?"


async def one(number: int, kind: str) -> None:
    """One of many requests, as its kind says."""
    question, model = question_of(number), Scripted(reply=numbered, delay=0.001)
    with instrument_tags({"session_id": f"s-{number}"}):
        if kind == "plain":
            await engine(llm=model).aquery(question)
        elif kind == "fails":
            with contextlib.suppress(ConnectionError):
                await engine(llm=Scripted(reply=failing, delay=0.001)).aquery(question)
        elif kind == "chat":
            chat = index().as_chat_engine(ChatMode.CONTEXT, llm=model, similarity_top_k=2)
            await chat.achat(question)
        elif kind == "agent":
            await searching(number).run(user_msg=question)
        else:
            own = kind.startswith("own")
            asked: Any = Shouting(kind=kind) if own else engine(llm=model, streaming=True)
            response = await asked.aquery(question)
            await asyncio.sleep(0.001 * (number % 7))
            await consume(response, kind)


@pytest.fixture
def world() -> Iterator[World]:
    made = World(SINK_SECONDS=60)
    registration = enable(made.evals)
    yield made
    registration.disable()
    made.close()


@pytest.mark.parametrize("share", [0.0, 0.3], ids=["none cancelled", "30 % cancelled"])
def test_many_at_once_do_not_mix(world: World, share: float) -> None:
    """Of mixed requests, some cancelled at any moment, none is mixed up, lost, doubled or open."""
    chance = Variation(0).chance
    cancelled = set(chance.sample(range(COUNT), round(share * COUNT)))

    async def cut_short(number: int) -> None:
        task = asyncio.ensure_future(one(number, KINDS[number % len(KINDS)]))
        if number in cancelled:
            await asyncio.sleep(chance.random() * COUNT / 100)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def all_at_once() -> None:
        await asyncio.gather(*map(cut_short, range(COUNT)))

    asyncio.run(all_at_once())
    gc.collect()
    found = samples(world)
    by_number = Counter(sample.question.split(":")[0] for sample in found)
    assert max(by_number.values()) == 1
    assert COUNT - len(cancelled) <= len(found) <= COUNT
    for sample in found:
        number = sample.question.split(":")[0].removeprefix("Request ")
        kind = KINDS[int(number) % len(KINDS)]
        answer = f"This is the answer to request {number}."
        assert sample.session_id == f"s-{number}"
        if int(number) not in cancelled:
            assert sample.status is DUE[kind]
            assert len(sample.contexts or ()) == 2
        if sample.status is Status.OK:
            assert sample.answer == (answer.upper() if kind == "own" else answer)
    assert not world.disorder({})
    assert leaked(world) == 0


def searching(number: int) -> Any:
    from llama_index.core.agent.workflow import FunctionAgent

    def reply(messages: Any) -> Any:
        done = any(message.role == MessageRole.TOOL for message in messages)
        answer = f"This is the answer to request {number}."
        return answer if done else pick(FERRIES, input=question_of(number))

    model = Scripted(reply=reply, delay=0.01)
    return FunctionAgent(tools=[retriever_tool()], llm=model, streaming=False)


def test_cancelled_calls_of_a_model_leave_nothing_open(world: World) -> None:
    """Calls of a bare model, each cancelled: none is open, long before the time limit."""
    model = Scripted(reply=lambda _: "never", delay=60.0)

    async def one() -> None:
        said = [ChatMessage(role="user", content="Who is it?")]
        task = asyncio.ensure_future(model.achat(said))
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
    return len(world.evals.recorder._runs) + len(ours._answers.streams)
