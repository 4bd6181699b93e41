"""Pipelines as teams build them, beyond what tutorials show."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

from rag_eval_hooks import Status
from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import (
    GRAPHS_MISSING,
)
from tests.matrix.langchain.graphs import line, searched
from tests.matrix.langchain.lcel import plain
from tests.matrix.world import World

GROUP = "as teams build them"


def told() -> Any:
    return kit.PROMPT | kit.reader() | StrOutputParser()


class AsyncOnly(BaseRetriever):
    """A store with an async client alone."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        raise NotImplementedError

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return await kit.store().asimilarity_search(query, k=2)


config = kit.config


def _streamed(world: World, question: str) -> Iterator[str]:
    with world.evals.interaction(question):
        yield "The answer is:"
        yield from plain().stream(question, config(world))


async def _astreamed(world: World, question: str) -> AsyncIterator[str]:
    async with world.evals.interaction(question):
        yield "The answer is:"
        await asyncio.sleep(0)
        async for token in plain().astream(question, config(world)):
            yield token


def _in_turns(streams: list[Iterator[str]]) -> None:
    while streams:
        streams = [stream for stream in streams if next(stream, None) is not None]


async def _ain_turns(streams: list[AsyncIterator[str]]) -> None:
    while streams:
        streams = [stream for stream in streams if await anext(stream, None) is not None]


scene = functools.partial(kit.scene, GROUP)


ASYNC = tuple(way for way in kit.CHAIN_WAYS if way.startswith("a"))


@kit.shape(
    GROUP,
    "a retriever that is async only",
    ways=ASYNC,
    spans=("chat scripted", "retrieval AsyncOnly"),
)
def async_only() -> Any:
    inputs: Any = {kit.SHOWN: AsyncOnly() | kit.joined, kit.ASKED: RunnablePassthrough()}
    return inputs | told()


@scene(
    "streams in blocks, read in turns",
    [kit.due(q) for q in kit.QUESTIONS],
    ("generators", "async generators"),
)
def streams_in_turns(world: World, way: str) -> None:
    """Generators, each in a block of its own, are read in turns by one consumer."""
    if way == "generators":
        _in_turns([_streamed(world, question) for question in kit.QUESTIONS])
    else:
        asyncio.run(_ain_turns([_astreamed(world, question) for question in kit.QUESTIONS]))


@scene(
    "a step that takes too long",
    [kit.due(answer=None, status=Status.ERROR, spans=())],
    ("ainvoke",),
    GRAPHS_MISSING,
)
def too_slow(world: World, way: str) -> None:

    async def slow(state: Any) -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    app = line({"retrieve": searched, "slow": slow}).compile()
    # Long enough for the first step on a busy machine.
    app.step_timeout = 2.0
    with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
        asyncio.run(app.ainvoke({kit.ASKED: kit.QUESTION}, config(world)))
