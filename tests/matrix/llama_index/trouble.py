"""Calls one by one, threads, streams that are read elsewhere, and everything that goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.tools import FunctionTool

from rag_eval_hooks import Status
from tests.matrix.llama_index.kit import (
    QUERY_SPANS,
    WAYS,
    Asked,
    Corpus,
    Draw,
    Scripted,
    says,
    shape,
)
from tests.matrix.world import SERVER_SPAN
from tests.waiting import until_async

GROUP = "application, trouble"
NO_BLOCKS = None if hasattr(types, "ToolCallBlock") else "tool calls are no blocks yet"


@shape(GROUP, "sync")
def streams_read_in_other_threads(draw: Draw) -> Asked:
    corpora, answers = [Corpus(draw) for _ in range(2)], [draw.sentence() for _ in range(2)]
    engines = [c.engine(says(a), streaming=True) for c, a in zip(corpora, answers, strict=True)]

    def run() -> None:
        pairs = zip(engines, corpora, strict=True)
        with ThreadPoolExecutor(2) as pool:
            streams = [engine.query(corpus.question).response_gen for engine, corpus in pairs]
            assert all(pool.map(list, streams))

    pairs = zip(corpora, answers, strict=True)
    return Asked(run, also=[c.asked(None, answer, spans=QUERY_SPANS) for c, answer in pairs])


class Broken(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise ConnectionError("no index")


@contextlib.contextmanager
def expecting_failure() -> Iterator[None]:
    try:
        yield
    except ConnectionError:
        return
    raise AssertionError("The engine's exception did not reach the caller.")


@shape(GROUP, *WAYS)
def retriever_that_raises(draw: Draw) -> Asked:
    engine = RetrieverQueryEngine.from_args(Broken(), llm=says(draw.sentence()))
    question = draw.question()

    async def later() -> None:
        with expecting_failure():
            await engine.aquery(question)

    def run() -> Any:
        if draw.way == "aquery":
            return later()
        with expecting_failure():
            return engine.query(question)

    return Asked(run, question, None, None, Status.ERROR, ("retrieval Broken",))


@shape(GROUP, "stream", "astream")
def stream_read_in_part(draw: Draw) -> Asked:
    corpus = Corpus(draw)
    engine = corpus.engine(says(draw.sentence()), streaming=True)

    async def later() -> None:
        response = await engine.aquery(corpus.question)
        stream = response.async_response_gen()
        await anext(stream)
        await stream.aclose()
        await response.response_gen.aclose()

    def run() -> Any:
        if draw.way == "astream":
            return later()
        next(iter(engine.query(corpus.question).response_gen))
        return None

    return Asked(run, corpus.question, corpus.shown(), None, Status.CLOSED, QUERY_SPANS)


@shape(GROUP, "stream")
def stream_that_is_dropped(draw: Draw) -> Asked:
    """Nothing of ours keeps its generator, whatever the number of sources."""
    corpus = Corpus(draw, draw.one_of(2, 150))
    engine = corpus.engine(says(draw.sentence()), streaming=True)

    def run() -> None:
        engine.query(corpus.question)
        gc.collect()

    # Old versions call the LLM before the stream is read.
    contexts = corpus.shown() if len(corpus.nodes) == 2 else corpus.shown()[:50]
    return Asked(run, corpus.question, contexts, None, Status.CLOSED)


@shape(GROUP, "aquery")
def cancelled(draw: Draw) -> Asked:
    corpus, model = Corpus(draw), says(draw.sentence(), delay=60)

    async def run() -> None:
        task = asyncio.create_task(corpus.engine(model).aquery(corpus.question))
        await until_async(lambda: model.begun)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    return Asked(run, corpus.question, corpus.shown(), None, Status.CANCELLED, QUERY_SPANS)


# Retriever and model called one by one.


@shape(GROUP, "sync")
def retriever_alone_and_model_alone(draw: Draw) -> Asked:
    corpus, model = Corpus(draw), says(draw.sentence())

    def run() -> None:
        corpus.retriever.retrieve(corpus.question)
        model.complete(draw.question())
        list(model.stream_chat([ChatMessage(role="user", content=draw.question())]))

    return Asked(run)


def messages_of(question: str, nodes: Sequence[Any]) -> list[ChatMessage]:
    texts = "\n---\n".join(node.get_content() for node in nodes)
    return [ChatMessage(role="user", content=f"Notes:\n{texts}\nQuestion: {question}\nAnswer:")]


def synthesize(question: str, nodes: Sequence[Any], model: Scripted) -> None:
    get_response_synthesizer(llm=model).synthesize(question, list(nodes))


async def achat(question: str, nodes: Sequence[Any], model: Scripted) -> None:
    await model.achat(messages_of(question, nodes))


@shape(GROUP)
def one_by_one(draw: Draw) -> Asked:
    corpus, answer = Corpus(draw, draw.chance.randint(1, 4)), draw.answer()
    call, model = draw.one_of(synthesize, achat), says(answer)
    tracer, question = draw.world.provider.get_tracer("server"), corpus.question
    place = draw.one_of(
        contextlib.nullcontext,
        lambda: tracer.start_as_current_span(SERVER_SPAN),
        lambda: draw.world.evals.interaction(question),
    )

    async def later() -> None:
        with place():
            await call(question, await corpus.retriever.aretrieve(question), model)

    def run() -> Any:
        if call is achat:
            return later()
        with place():
            return call(question, corpus.retriever.retrieve(question), model)

    return Asked(run, question, corpus.shown(), answer)


@shape(GROUP, "sync", missing=NO_BLOCKS)
def loop_around_a_model_with_tools(draw: Draw) -> Asked:
    corpus, answer = Corpus(draw, 3), draw.sentence()
    given: Any = {"wanted": draw.word()}
    shown = draw.one_of(given, json.dumps(given, ensure_ascii=False))

    def search(wanted: str) -> str:
        return "\n".join(node.get_content() for node in corpus.retriever.retrieve(wanted))

    def run() -> None:
        block = types.ToolCallBlock(tool_call_id="1", tool_name="search", tool_kwargs=shown)
        replies = iter([ChatMessage(role="assistant", blocks=[block]), answer])
        model = Scripted(reply=lambda _: next(replies))
        messages = [ChatMessage(role="user", content=corpus.question)]
        messages.append(model.chat(messages).message)
        found = str(FunctionTool.from_defaults(search)(**given))
        model.chat([*messages, ChatMessage(role="tool", content=found)])

    return Asked(run, corpus.question, corpus.shown(given["wanted"]), answer)


class Threaded(CustomQueryEngine):
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


@shape(GROUP, *WAYS)
def retriever_in_a_bare_thread(draw: Draw) -> Asked:
    corpus, answer = Corpus(draw, draw.chance.randint(1, 4)), draw.answer()
    return corpus.asked(Threaded(corpus=corpus, model=says(answer)), answer)
