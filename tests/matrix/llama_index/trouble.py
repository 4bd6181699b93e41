"""Threads, tags, and everything that goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle

from rag_eval_hooks import Status
from tests.matrix.llama_index import kit
from tests.matrix.shape import Shape
from tests.matrix.world import World

GROUP = "application, trouble"


class Broken(BaseRetriever):
    """Raises."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise ConnectionError("no index")


def dead(messages: Sequence[ChatMessage]) -> str:
    raise ConnectionError("no model")


def engine(**more: Any) -> Any:
    return kit.index().as_query_engine(
        **{"llm": kit.reader(), "streaming": True, "similarity_top_k": 2, **more}
    )


def one(name: str, body: Callable[[World, str], Any], **expected: Any) -> Shape:
    return kit.case(GROUP, name, body, **{"answer": lambda q: None, **expected})


def in_threads(world: World, way: str) -> None:
    shared = kit.index().as_query_engine(llm=kit.reader(), similarity_top_k=2)
    threads = [threading.Thread(target=shared.query, args=(q,)) for q in kit.QUESTIONS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_in_another_thread(world: World, way: str) -> None:
    """A stream is read where nothing tells of the query."""
    streams = [engine().query(question) for question in kit.QUESTIONS]
    threads = [threading.Thread(target=lambda s=s: list(s.response_gen)) for s in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_in_turns(world: World, way: str) -> None:
    """Streams are read token by token in turns, after both queries."""
    streams = [engine().query(question).response_gen for question in kit.QUESTIONS]
    while streams:
        streams = [stream for stream in streams if next(stream, None) is not None]


async def read_in_tasks(world: World, way: str) -> None:

    async def read(response: Any) -> None:
        assert [token async for token in response.async_response_gen()]

    responses = [await engine(llm=kit.reader(delay=0.001)).aquery(q) for q in kit.QUESTIONS]
    await asyncio.gather(*map(read, responses))


@contextlib.contextmanager
def expecting_failure() -> Iterator[None]:
    try:
        yield
    except ConnectionError:
        return
    raise AssertionError("The engine's exception did not reach the caller.")


def raises(failing: Callable[[], Any]) -> Callable[[World, str], Any]:

    async def later() -> None:
        with expecting_failure():
            await failing().aquery(kit.QUESTION)

    def body(world: World, way: str) -> Any:
        if way == "aquery":
            return later()
        with expecting_failure():
            failing().query(kit.QUESTION)
        return None

    return body


class Undaunted(CustomQueryEngine):
    """Catches what its retriever raises, and asks the LLM without nodes."""

    def custom_query(self, query_str: str) -> str:
        nodes: list[NodeWithScore] = []
        with contextlib.suppress(ConnectionError):
            nodes = Broken().retrieve(query_str)
        assert not nodes
        return str(kit.reader().complete(f"Query: {query_str}\nAnswer: "))


def answered_anyway(world: World, way: str) -> Any:
    return kit.CALL[way](Undaunted(), kit.QUESTION)


def broken_stream(world: World, way: str) -> None:
    with contextlib.suppress(ConnectionError):
        kit.CALL["stream"](engine(llm=kit.reader(breaks_after=3)), kit.QUESTION)


def part(world: World, way: str) -> Any:
    if way == "astream":
        return _part()
    stream = engine().query(kit.QUESTION)
    next(iter(stream.response_gen))
    return None


async def _part() -> None:
    response = await engine().aquery(kit.QUESTION)
    stream = response.async_response_gen()
    await anext(stream)
    await stream.aclose()
    await response.response_gen.aclose()
    del response
    gc.collect()
    await asyncio.sleep(0.01)


def unread(world: World, way: str) -> None:
    engine().query(kit.QUESTION)
    gc.collect()


async def cancelled(world: World, way: str) -> None:
    model = kit.reader(delay=60)
    task = asyncio.create_task(engine(streaming=False, llm=model).aquery(kit.QUESTION))
    await kit.until_asked(model)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def alone(world: World, way: str) -> None:
    """A retriever alone, and a model alone, are no interaction."""
    kit.index().as_retriever().retrieve(kit.QUESTION)
    kit.reader().complete(kit.QUESTION)
    list(kit.reader().stream_chat([ChatMessage(role="user", content=kit.QUESTION)]))


def both(name: str, body: Callable[[World, str], Any]) -> Shape:
    return kit.case(GROUP, name, body, questions=kit.QUESTIONS)


SHAPES = (
    both("threads", in_threads),
    both("streams read in other threads", read_in_another_thread),
    both("streams read in turns", read_in_turns),
    both("streams read in tasks", read_in_tasks),
    one(
        "retriever raises",
        raises(lambda: RetrieverQueryEngine.from_args(Broken(), llm=kit.reader())),
        ways=kit.WAYS,
        contexts=lambda q: None,
        status=Status.ERROR,
        spans=("retrieval Broken",),
    ),
    one(
        "retriever raises, answered anyway",
        answered_anyway,
        ways=kit.WAYS,
        contexts=lambda q: None,
        answer=lambda q: kit.answer_to(q, ()),
        spans=("chat scripted", "retrieval Broken"),
    ),
    one(
        "LLM raises",
        raises(lambda: engine(streaming=False, llm=kit.Scripted(reply=dead))),
        ways=kit.WAYS,
        status=Status.ERROR,
    ),
    one("stream that breaks", broken_stream, ways=("stream",), status=Status.ERROR),
    one("stream read in part", part, ways=("stream", "astream"), status=Status.CLOSED),
    # Old versions call the LLM before the stream is read.
    one("stream dropped unread", unread, status=Status.CLOSED, spans=None),
    one("cancelled", cancelled, status=Status.CANCELLED),
    kit.case(GROUP, "retriever alone, model alone", alone, questions=()),
)
