"""Pipelines as teams build them, beyond what tutorials show."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableBranch, RunnableParallel, RunnablePassthrough
from langchain_core.runnables import chain as as_chain

from rag_eval_hooks import Status
from rag_eval_hooks_langchain import RagEvalCallbackHandler, record_contexts
from tests.matrix.langchain.compat import (
    CLASSIC_MISSING,
    GRAPHS_MISSING,
    classic,
)
from tests.matrix.langchain.graphs import ONE, chained, generate, graph, searched
from tests.matrix.langchain.kit import (
    ASKED,
    CHAIN_WAYS,
    FOUND,
    NAMED,
    PASSAGES,
    PROMPT,
    QUESTION,
    QUESTIONS,
    SAID,
    SHOWN,
    WORDS,
    Bags,
    Chat,
    answer_to,
    ask,
    joined,
    prompt_text,
    reader,
    shape,
    store,
    top,
)
from tests.matrix.langchain.lcel import plain
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World

__all__ = ["SHAPES"]

GROUP = "as teams build them"
OTHER = QUESTIONS[1]
OTHERS = NAMED.name()
TWO = ("chat scripted", "retrieval InMemoryVectorStore", "retrieval InMemoryVectorStore")


def base(k: int = 2) -> Any:
    return store().as_retriever(search_kwargs={"k": k})


def told() -> Any:
    return PROMPT | reader() | StrOutputParser()


def parallel() -> Any:
    """Two retrievers side by side, their documents put together."""
    found: Any = RunnableParallel({FOUND: base(1), OTHERS: base(3), ASKED: RunnablePassthrough()})
    context = RunnablePassthrough.assign(**{SHOWN: lambda x: joined([*x[FOUND], *x[OTHERS]])})
    return found | context | RunnablePassthrough.assign(**{SAID: told()})


def branching() -> Any:
    """A router between two chains."""
    return RunnableBranch((lambda question: WORDS("ticket") in question, plain(k=1)), plain())


def branched(question: str) -> list[str]:
    return top(question, 1 if WORDS("ticket") in question else 2)


def function() -> Any:
    """One function that calls a retriever and a model."""

    @as_chain
    def rag(question: str) -> dict[str, Any]:
        documents = base().invoke(question)
        return {SAID: ask(question, documents), SHOWN: documents}

    return rag


class AsyncOnly(BaseRetriever):
    """A store with an async client alone."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        raise NotImplementedError

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return await store().asimilarity_search(query, k=2)


def async_only() -> Any:
    inputs: Any = {SHOWN: AsyncOnly() | joined, ASKED: RunnablePassthrough()}
    return inputs | told()


def diverse() -> Any:
    retriever = store().as_retriever(search_type="mmr", search_kwargs={"k": 2, "lambda_mult": 1.0})
    inputs: Any = {SHOWN: retriever | joined, ASKED: RunnablePassthrough()}
    return inputs | told()


def several_vectors() -> Any:
    """Summaries are searched, the texts behind them are given."""
    vectors = import_module("langchain_core.vectorstores").InMemoryVectorStore(Bags())
    retriever = classic("retrievers.multi_vector.MultiVectorRetriever")(
        vectorstore=vectors,
        docstore=import_module("langchain_core.stores").InMemoryStore(),
        id_key="doc",
        search_kwargs={"k": 2},
    )
    short = [Document(text[:50], metadata={"doc": str(n)}) for n, text in enumerate(PASSAGES)]
    vectors.add_documents(short)
    retriever.docstore.mset([(str(n), Document(text)) for n, text in enumerate(PASSAGES)])
    inputs: Any = {SHOWN: retriever | joined, ASKED: RunnablePassthrough()}
    return inputs | told()


def by_summaries(question: str) -> list[str]:
    found = top(question, 2, [text[:50] for text in PASSAGES])
    return [text for start in found for text in PASSAGES if text.startswith(start)]


def remembering(world: World, way: str) -> None:
    """A chain with a memory of its own; the second question only makes sense with the first."""
    memory = classic("memory.ConversationBufferMemory")(
        memory_key="chat_history", return_messages=True, output_key="answer"
    )

    def reply(messages: list[BaseMessage]) -> str:
        prompt = prompt_text(messages)
        if "Standalone question" in prompt:
            return OTHER
        return answer_to(QUESTION, [text for text in PASSAGES if text[:60] in prompt])

    made = classic("chains.ConversationalRetrievalChain").from_llm(
        Chat(reply=reply), base(), memory=memory, return_source_documents=True
    )
    for question in (QUESTION, AND_ITS_PRICE):
        if way == "invoke":
            made.invoke({"question": question}, config(world))
        else:
            asyncio.run(made.ainvoke({"question": question}, config(world)))


def config(world: World, **more: Any) -> Any:
    return {"callbacks": [RagEvalCallbackHandler(world.evals)], **more}


def streams_in_turns(world: World, way: str) -> None:
    """Generators, each in a block of its own, are read in turns by one consumer."""
    if way == "generators":
        _in_turns([_streamed(world, question) for question in QUESTIONS])
    else:
        asyncio.run(_ain_turns([_astreamed(world, question) for question in QUESTIONS]))


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
    with world.evals.interaction(QUESTION) as it:
        assert record_contexts(store().similarity_search(QUESTION, k=2))
        it.answer(answer_to(QUESTION, top()))


def lists_of_modes(world: World, way: str) -> None:
    made = graph()
    made.add_node("retrieve", searched)
    made.add_node("generate", generate)
    app = chained(made, "retrieve", "generate").compile()
    modes = ["values", "updates", "messages"]
    if way == "stream":
        list(app.stream({ASKED: QUESTION}, config(world), stream_mode=modes, subgraphs=True))
        return

    async def read() -> None:
        async for _ in app.astream({ASKED: QUESTION}, config(world), stream_mode=modes):
            pass

    asyncio.run(read())


def endless(world: World, way: str) -> None:
    """A loop that never ends on its own."""
    made = graph()
    made.add_node("retrieve", searched)
    made.add_edge("__start__", "retrieve")
    made.add_edge("retrieve", "retrieve")
    app, told_config = made.compile(), config(world, recursion_limit=3)
    with contextlib.suppress(RecursionError):
        if way == "invoke":
            app.invoke({ASKED: QUESTION}, told_config)
        else:
            asyncio.run(app.ainvoke({ASKED: QUESTION}, told_config))


def too_slow(world: World, way: str) -> None:
    """A step takes longer than it may."""

    async def slow(state: Any) -> dict[str, Any]:
        await asyncio.sleep(5)
        return {}

    made = graph()
    made.add_node("retrieve", searched)
    made.add_node("slow", slow)
    app = chained(made, "retrieve", "slow").compile()
    app.step_timeout = 0.2
    with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
        asyncio.run(app.ainvoke({ASKED: QUESTION}, config(world)))


def due(question: str = QUESTION, **more: Any) -> Expected:
    contexts = more.pop("contexts", top(question))
    answer = more.pop("answer", answer_to(question, contexts or ()))
    return Expected(question=question, contexts=contexts, answer=answer, **more)


def scene(
    name: str,
    body: Callable[[World, str], None],
    expected: Sequence[Expected],
    ways: Sequence[str],
    missing: str | None = None,
    write: str = "",
) -> Shape:
    return Shape(
        group=GROUP,
        name=name,
        ways=ways,
        run=body,
        expected=lambda way: expected,
        missing=missing,
        write=write,
    )


def chains(name: str, build: Callable[[], Any], **more: Any) -> Shape:
    return shape(GROUP, name, build, **more)


ASYNC = tuple(way for way in CHAIN_WAYS if way.startswith("a"))
AND_ITS_PRICE = "And its price?"

SHAPES = (
    chains("retrievers side by side", parallel, contexts=lambda q: top(q, 3), spans=TWO),
    chains("a router between chains", branching, contexts=branched),
    chains("one decorated function", function),
    chains(
        "a retriever that is async only",
        async_only,
        ways=ASYNC,
        spans=("chat scripted", "retrieval AsyncOnly"),
    ),
    chains("maximal marginal relevance", diverse),
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
            due(AND_ITS_PRICE, contexts=top(OTHER), answer=answer_to(QUESTION, top()), spans=None),
        ],
        ("invoke", "ainvoke"),
        CLASSIC_MISSING,
    ),
    scene(
        "streams in blocks, read in turns",
        streams_in_turns,
        [due(q, spans=("chat scripted", "retrieval InMemoryVectorStore")) for q in QUESTIONS],
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
        "a loop that never ends",
        endless,
        [due(answer=None, status=Status.ERROR)],
        ("invoke", "ainvoke"),
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
