"""Pipelines as teams build them, beyond what tutorials show."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableBranch, RunnablePassthrough
from langchain_core.runnables import chain as as_chain

from rag_eval_hooks import Status
from rag_eval_hooks_langchain import record_contexts
from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import (
    CLASSIC_MISSING,
    GRAPHS_MISSING,
    classic,
)
from tests.matrix.langchain.graphs import ONE, generate, line, searched
from tests.matrix.langchain.lcel import plain
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World

GROUP = "as teams build them"
OTHER = kit.QUESTIONS[1]
TWO = ("chat scripted", "retrieval InMemoryVectorStore", "retrieval InMemoryVectorStore")


def told() -> Any:
    return kit.PROMPT | kit.reader() | StrOutputParser()


def branching() -> Any:
    return RunnableBranch((lambda question: kit.WORDS("ticket") in question, plain(k=1)), plain())


def branched(question: str) -> list[str]:
    return kit.top(question, 1 if kit.WORDS("ticket") in question else 2)


def function() -> Any:

    @as_chain
    def rag(question: str) -> dict[str, Any]:
        documents = kit.base().invoke(question)
        return {kit.SAID: kit.ask(question, documents), kit.SHOWN: documents}

    return rag


class AsyncOnly(BaseRetriever):
    """A store with an async client alone."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        raise NotImplementedError

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return await kit.store().asimilarity_search(query, k=2)


def async_only() -> Any:
    inputs: Any = {kit.SHOWN: AsyncOnly() | kit.joined, kit.ASKED: RunnablePassthrough()}
    return inputs | told()


def several_vectors() -> Any:
    vectors = import_module("langchain_core.vectorstores").InMemoryVectorStore(kit.Bags())
    retriever = classic("retrievers.multi_vector.MultiVectorRetriever")(
        vectorstore=vectors,
        docstore=import_module("langchain_core.stores").InMemoryStore(),
        id_key="doc",
        search_kwargs={"k": 2},
    )
    short = [Document(text[:50], metadata={"doc": str(n)}) for n, text in enumerate(kit.PASSAGES)]
    vectors.add_documents(short)
    retriever.docstore.mset([(str(n), Document(text)) for n, text in enumerate(kit.PASSAGES)])
    inputs: Any = {kit.SHOWN: retriever | kit.joined, kit.ASKED: RunnablePassthrough()}
    return inputs | told()


def by_summaries(question: str) -> list[str]:
    found = kit.top(question, 2, [text[:50] for text in kit.PASSAGES])
    return [text for start in found for text in kit.PASSAGES if text.startswith(start)]


def remembering(world: World, way: str) -> None:
    """A chain with a memory of its own; the second question only makes sense with the first."""
    memory = classic("memory.ConversationBufferMemory")(
        memory_key="chat_history", return_messages=True, output_key="answer"
    )

    def reply(messages: list[BaseMessage]) -> str:
        prompt = kit.prompt_text(messages)
        if "Standalone question" in prompt:
            return OTHER
        return kit.answer_to(kit.QUESTION, [text for text in kit.PASSAGES if text[:60] in prompt])

    made = classic("chains.ConversationalRetrievalChain").from_llm(
        kit.Chat(reply=reply), kit.base(), memory=memory, return_source_documents=True
    )
    for question in (kit.QUESTION, AND_ITS_PRICE):
        if way == "invoke":
            made.invoke({"question": question}, config(world))
        else:
            asyncio.run(made.ainvoke({"question": question}, config(world)))


config = kit.config


def streams_in_turns(world: World, way: str) -> None:
    """Generators, each in a block of its own, are read in turns by one consumer."""
    if way == "generators":
        _in_turns([_streamed(world, question) for question in kit.QUESTIONS])
    else:
        asyncio.run(_ain_turns([_astreamed(world, question) for question in kit.QUESTIONS]))


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


def recorded(world: World, way: str) -> None:
    """A client that is no part of the framework searches and answers."""
    with world.evals.interaction(kit.QUESTION) as it:
        assert record_contexts(kit.store().similarity_search(kit.QUESTION, k=2))
        it.answer(kit.answer_to(kit.QUESTION, kit.top()))


def lists_of_modes(world: World, way: str) -> None:
    app = line({"retrieve": searched, "generate": generate}).compile()
    modes = ["values", "updates", "messages"]
    if way == "stream":
        list(
            app.stream({kit.ASKED: kit.QUESTION}, config(world), stream_mode=modes, subgraphs=True)
        )
        return

    async def read() -> None:
        async for _ in app.astream({kit.ASKED: kit.QUESTION}, config(world), stream_mode=modes):
            pass

    asyncio.run(read())


def too_slow(world: World, way: str) -> None:

    async def slow(state: Any) -> dict[str, Any]:
        await asyncio.sleep(5)
        return {}

    app = line({"retrieve": searched, "slow": slow}).compile()
    app.step_timeout = 0.2
    with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
        asyncio.run(app.ainvoke({kit.ASKED: kit.QUESTION}, config(world)))


def due(question: str = kit.QUESTION, **more: Any) -> Expected:
    contexts = more.pop("contexts", kit.top(question))
    answer = more.pop("answer", kit.answer_to(question, contexts or ()))
    return Expected(question=question, contexts=contexts, answer=answer, **more)


scene = functools.partial(kit.scene, GROUP)


def chains(name: str, build: Callable[[], Any], **more: Any) -> Shape:
    return kit.shape(GROUP, name, build, **more)


ASYNC = tuple(way for way in kit.CHAIN_WAYS if way.startswith("a"))
AND_ITS_PRICE = "And its price?"

SHAPES = (
    chains("a router between chains", branching, contexts=branched),
    chains("one decorated function", function),
    chains(
        "a retriever that is async only",
        async_only,
        ways=ASYNC,
        spans=("chat scripted", "retrieval AsyncOnly"),
    ),
    chains(
        "several vectors a document",
        several_vectors,
        contexts=by_summaries,
        spans=("chat scripted", "retrieval MultiVectorRetriever"),
        missing=CLASSIC_MISSING,
    ),
    scene(
        "a chain with a memory",
        remembering,
        [
            due(spans=None),
            due(
                AND_ITS_PRICE,
                contexts=kit.top(OTHER),
                answer=kit.answer_to(kit.QUESTION, kit.top()),
                spans=None,
            ),
        ],
        ("invoke", "ainvoke"),
        CLASSIC_MISSING,
    ),
    scene(
        "streams in blocks, read in turns",
        streams_in_turns,
        [due(q, spans=("chat scripted", "retrieval InMemoryVectorStore")) for q in kit.QUESTIONS],
        ("generators", "async generators"),
    ),
    scene(
        "recorded without any run",
        recorded,
        [due()],
        ("by hand",),
        write="with evals.interaction(question): record_contexts(documents)",
    ),
    scene(
        "several stream modes",
        lists_of_modes,
        [due(spans=ONE)],
        ("stream", "astream"),
        GRAPHS_MISSING,
    ),
    scene(
        "a step that takes too long",
        too_slow,
        [due(answer=None, status=Status.ERROR)],
        ("ainvoke",),
        GRAPHS_MISSING,
    ),
)
