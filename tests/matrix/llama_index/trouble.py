"""Threads, tags, and everything that goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle

from rag_eval_hooks import Status
from tests.matrix.llama_index.kit import (
    CALL,
    QUERY_SPANS,
    QUESTION,
    QUESTIONS,
    WAYS,
    Scripted,
    answer_to,
    index,
    reader,
    top,
    traced,
    until_asked,
)
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World

__all__ = ["SHAPES"]

GROUP = "application, trouble"


class Broken(BaseRetriever):
    """Raises."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise ConnectionError("no index")


def dead(messages: Sequence[ChatMessage]) -> str:
    """A model that is down."""
    raise ConnectionError("no model")


def engine(**more: Any) -> Any:
    """A query engine that streams."""
    return index().as_query_engine(
        **{"llm": reader(), "streaming": True, "similarity_top_k": 2, **more}
    )


def one(
    name: str,
    body: Callable[[World, str], None],
    *,
    ways: Sequence[str],
    contexts: Sequence[str] | None = None,
    answer: str | None = None,
    status: Status = Status.OK,
    spans: Sequence[str] | None = QUERY_SPANS,
) -> Shape:
    """A shape with one interaction."""
    return Shape(
        group=GROUP,
        name=name,
        ways=ways,
        run=traced(body),
        expected=lambda way: [
            Expected(
                question=QUESTION,
                contexts=top(QUESTION) if contexts is None else contexts,
                answer=answer,
                status=status,
                spans=spans,
            )
        ],
    )


def in_threads(world: World, way: str) -> None:
    """Bare threads share one engine."""
    shared = index().as_query_engine(llm=reader(), similarity_top_k=2)
    threads = [threading.Thread(target=shared.query, args=(q,)) for q in QUESTIONS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_in_another_thread(world: World, way: str) -> None:
    """A stream is read where nothing tells of the query."""
    streams = [engine().query(question) for question in QUESTIONS]
    threads = [threading.Thread(target=lambda s=s: list(s.response_gen)) for s in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_in_turns(world: World, way: str) -> None:
    """Streams are read token by token in turns, after both queries."""
    streams = [engine().query(question).response_gen for question in QUESTIONS]
    while streams:
        streams = [stream for stream in streams if next(stream, None) is not None]


def read_in_tasks(world: World, way: str) -> None:
    """The same in tasks of their own."""

    async def read(response: Any) -> None:
        assert [token async for token in response.async_response_gen()]

    async def both() -> None:
        responses = [await engine(llm=reader(delay=0.001)).aquery(q) for q in QUESTIONS]
        await asyncio.gather(*map(read, responses))

    asyncio.run(both())


def raises(failing: Callable[[], Any]) -> Callable[[World, str], None]:
    """The engine's exception reaches the caller."""

    def body(world: World, way: str) -> None:
        made = CALL[way](failing(), QUESTION) if way == "query" else None
        assert made is None
        raise AssertionError("nothing was raised")

    def expecting(world: World, way: str) -> None:
        with contextlib.suppress(ConnectionError):
            if way == "query":
                body(world, way)
            asyncio.run(CALL[way](failing(), QUESTION))

    return expecting


class Undaunted(CustomQueryEngine):
    """Catches what its retriever raises, and asks the LLM without nodes."""

    def custom_query(self, query_str: str) -> str:
        nodes: list[NodeWithScore] = []
        with contextlib.suppress(ConnectionError):
            nodes = Broken().retrieve(query_str)
        assert not nodes
        return str(reader().complete(f"Query: {query_str}\nAnswer: "))


def answered_anyway(world: World, way: str) -> None:
    """The application's answer is the LLM's alone."""
    answered = CALL[way](Undaunted(), QUESTION)
    if way == "aquery":
        asyncio.run(answered)


def broken_stream(world: World, way: str) -> None:
    """A stream that breaks in its middle."""
    with contextlib.suppress(ConnectionError):
        CALL["stream"](engine(llm=reader(breaks_after=3)), QUESTION)


def part(world: World, way: str) -> None:
    """A stream is dropped after its first token."""
    if way == "stream":
        stream = engine().query(QUESTION)
        next(iter(stream.response_gen))
        del stream
    else:
        asyncio.run(_part())


async def _part() -> None:
    response = await engine().aquery(QUESTION)
    stream = response.async_response_gen()
    await anext(stream)
    await stream.aclose()
    await response.response_gen.aclose()
    del response
    gc.collect()
    await asyncio.sleep(0.01)


def unread(world: World, way: str) -> None:
    """A stream is dropped unread."""
    engine().query(QUESTION)
    gc.collect()


def cancelled(world: World, way: str) -> None:
    """A task is cancelled while the model thinks."""

    async def run() -> None:
        model = reader(delay=60)
        task = asyncio.create_task(engine(streaming=False, llm=model).aquery(QUESTION))
        await until_asked(model)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())


def alone(world: World, way: str) -> None:
    """A retriever alone, and a model alone, are no interaction."""
    index().as_retriever().retrieve(QUESTION)
    reader().complete(QUESTION)
    list(reader().stream_chat([ChatMessage(role="user", content=QUESTION)]))


def both(name: str, body: Callable[[World, str], None]) -> Shape:
    """Both questions at once."""
    return Shape(
        group=GROUP,
        name=name,
        ways=("all",),
        run=traced(body),
        expected=lambda way: [
            Expected(question=q, contexts=top(q), answer=answer_to(q, top(q)), spans=QUERY_SPANS)
            for q in QUESTIONS
        ],
    )


SHAPES = (
    both("threads", in_threads),
    both("streams read in other threads", read_in_another_thread),
    both("streams read in turns", read_in_turns),
    both("streams read in tasks", read_in_tasks),
    Shape(
        group=GROUP,
        name="retriever raises",
        ways=WAYS,
        run=traced(raises(lambda: RetrieverQueryEngine.from_args(Broken(), llm=reader()))),
        expected=lambda way: [
            Expected(
                question=QUESTION,
                contexts=None,
                answer=None,
                status=Status.ERROR,
                spans=("retrieval Broken",),
            )
        ],
    ),
    Shape(
        group=GROUP,
        name="retriever raises, answered anyway",
        ways=("query", "aquery"),
        run=traced(answered_anyway),
        expected=lambda way: [
            Expected(
                question=QUESTION,
                contexts=None,
                answer=answer_to(QUESTION, ()),
                spans=("chat scripted", "retrieval Broken"),
            )
        ],
    ),
    one(
        "LLM raises",
        raises(lambda: engine(streaming=False, llm=Scripted(reply=dead))),
        ways=WAYS,
        status=Status.ERROR,
    ),
    one("stream that breaks", broken_stream, ways=("stream",), status=Status.ERROR),
    one("stream read in part", part, ways=("stream", "astream"), status=Status.CLOSED),
    one(
        "stream dropped unread",
        unread,
        ways=("stream",),
        status=Status.CLOSED,
        # Old versions call the LLM before the stream is read.
        spans=None,
    ),
    one("cancelled", cancelled, ways=("aquery",), status=Status.CANCELLED),
    Shape(
        group=GROUP,
        name="retriever alone, model alone",
        ways=("all",),
        run=traced(alone),
        expected=lambda way: [],
    ),
)
