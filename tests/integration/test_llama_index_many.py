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
from rag_eval_hooks_llama_index import enable
from rag_eval_hooks_llama_index.instrumentation import RagEvalSpanHandler
from tests.matrix.llama_index.agents import retriever_tool
from tests.matrix.llama_index.helpers import engine, samples
from tests.matrix.llama_index.kit import FERRIES, Scripted, index, pick
from tests.matrix.world import World
from tests.support.size import size
from tests.support.variation import Variation, seeds

pytest_plugins = ["tests.matrix.llama_index.fixtures"]
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]

DUE = {
    "plain": Status.OK,
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
    """A model that is down."""
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


COUNT = size(100, 500)


async def one(number: int, made: dict[str, Any]) -> None:
    """One of many requests; what becomes of it goes by its number."""
    question = f"Request {number}: at what time does the ferry to Skarn leave the quay?"
    kind = KINDS[number % len(KINDS)]
    with instrument_tags({"session_id": f"s-{number}"}):
        if kind in ("plain", "fails"):
            with contextlib.suppress(ConnectionError):
                await made[kind].aquery(question)
            return
        asked = Shouting(kind=kind) if kind.startswith("own") else made["stream"]
        response = await asked.aquery(question)
        await asyncio.sleep(0.001 * (number % 7))
        await consume(response, kind)


@pytest.fixture
def world() -> Iterator[World]:
    """One whose sinks may wait for a busy machine."""
    made = World(SINK_SECONDS=60)
    registration = enable(made.evals)
    yield made
    registration.disable()
    made.close()


def test_many_at_once_do_not_mix(world: World) -> None:
    """Of many concurrent queries, with failures and dropped streams, none is mixed up or lost."""
    made = {
        "plain": engine(llm=Scripted(reply=numbered, delay=0.001)),
        "stream": engine(llm=Scripted(reply=numbered, delay=0.001), streaming=True),
        "fails": engine(llm=Scripted(reply=failing, delay=0.001)),
    }

    async def all_at_once() -> None:
        await asyncio.gather(*(one(number, made) for number in range(COUNT)))

    asyncio.run(all_at_once())
    gc.collect()
    found = samples(world)
    assert len(found) == COUNT
    for sample in found:
        number = sample.question.split(":")[0].removeprefix("Request ")
        kind = KINDS[int(number) % len(KINDS)]
        answer = f"This is the answer to request {number}."
        assert sample.session_id == f"s-{number}"
        assert sample.status == DUE[kind]
        assert len(sample.contexts or ()) == 2
        if sample.status is Status.OK:
            assert sample.answer == (answer.upper() if kind == "own" else answer)
    assert not world.disorder({})
    stats = world.evals.stats()
    tenth = COUNT // 10
    assert stats.scored == 3 * tenth
    assert stats.dropped == {"error": 2 * tenth, "closed": 4 * tenth, "cancelled": tenth}
    assert leaked(world) == 0


def asks(made: Any, number: int) -> Any:
    """The coroutine of one of several kinds of requests."""
    question = f"Request {number}: at what time does the ferry to Skarn leave the quay?"

    async def streamed() -> None:
        response = await made["stream"].aquery(question)
        assert [token async for token in response.async_response_gen()]

    async def called() -> None:
        await made["plain"].aquery(question)

    async def chatted() -> None:
        await made["chat"]().achat(question)

    async def by_agent() -> None:
        await made["agent"](number).run(user_msg=question)

    kinds = [streamed, called, chatted, by_agent]
    return kinds[number % len(kinds)]()


@pytest.mark.parametrize("seed", seeds(size(1, 3)))
def test_requests_that_are_cancelled_at_random_mix_up_nothing(world: World, seed: int) -> None:
    """Of mixed requests, 30 % cancelled at any moment: none is mixed up, lost, doubled or open."""
    chance = Variation(seed).chance
    model = Scripted(reply=numbered, delay=0.01)
    made = {
        "plain": engine(llm=model),
        "stream": engine(llm=model, streaming=True),
        "chat": lambda: index().as_chat_engine(ChatMode.CONTEXT, llm=model, similarity_top_k=2),
        "agent": searching,
    }
    cancelled = set(chance.sample(range(COUNT), 3 * COUNT // 10))
    cut: list[bool] = []

    async def one(number: int) -> None:
        task = asyncio.ensure_future(asks(made, number))
        if number in cancelled:
            await asyncio.sleep(chance.random() * COUNT / 100)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        cut.append(task.cancelled())

    async def all_at_once() -> None:
        await asyncio.gather(*map(one, range(COUNT)))

    asyncio.run(all_at_once())
    gc.collect()
    found = samples(world)
    questions = Counter(sample.question for sample in found)
    for sample in found:
        number = int(sample.question.split(":")[0].removeprefix("Request "))
        assert sample.status is Status.OK or number in cancelled
        if sample.status is Status.OK:
            assert sample.answer == f"This is the answer to request {number}."
            assert len(sample.contexts or ()) == 2
    assert max(questions.values()) == 1
    assert any(cut)
    assert sum(s.status is Status.OK for s in found) >= COUNT - len(cancelled)
    assert not world.disorder({})
    assert leaked(world) == 0


def searching(number: int) -> Any:
    """An agent that searches once."""
    from llama_index.core.agent.workflow import FunctionAgent

    question = f"Request {number}: at what time does the ferry to Skarn leave the quay?"

    def reply(messages: Any) -> Any:
        done = any(message.role == MessageRole.TOOL for message in messages)
        answer = f"This is the answer to request {number}."
        return answer if done else pick(FERRIES, input=question)

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
    """Runs and streams that are still known."""
    handlers = get_dispatcher().span_handlers
    (ours,) = [handler for handler in handlers if isinstance(handler, RagEvalSpanHandler)]
    return len(world.evals.recorder._runs) + len(ours.registration._events._parents._streams)
