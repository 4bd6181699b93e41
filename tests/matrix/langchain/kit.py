"""Parts of the LangChain shapes: a corpus in a real store, scripted models, the ways."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from rag_eval_hooks.capture.copied import content_text
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.shape import Expected, Shape, bag, named
from tests.matrix.world import World
from tests.support.variation import Variation, Wording, run_seed

WORDS = Wording(run_seed())
"""Language and words of all texts of this run."""
NAMED = Variation(run_seed() + 1_000_003)
"""Draws names of keys, steps and tools, of which none is a word of the texts."""
SEARCH, COUNT = NAMED.name(), NAMED.name()
"""Names of the tools of agents."""
ASKED, FOUND, SHOWN, SAID, TRIES = (NAMED.name() for _ in range(5))
"""Keys of what pipelines hand on: question, documents, their joined text, answer, a number."""
_PASSAGES = (
    "The ferry to Skarn leaves at 07:40 from the north quay on every working day of the year.",
    "The ferry from Skarn to the mainland returns at 18:15, and in summer also at 21:30.",
    "Bicycles travel free of charge on all sailings outside the months of July and August.",
    "Dogs must be on a lead while they are on the car deck, and may not enter the restaurant.",
    "A season ticket costs 310 crowns and is sold at the office beside the south gate only.",
    "The restaurant on board opens half an hour after departure and serves fish soup and rye.",
)
PASSAGES = tuple(map(WORDS, _PASSAGES))
QUESTION = WORDS("At what time does the ferry to Skarn leave the quay?")
QUESTIONS = (QUESTION, WORDS("What does a season ticket at the office cost?"))


class Bags(Embeddings):
    def embed_query(self, text: str) -> list[float]:
        return bag(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return list(map(bag, texts))


def store(passages: Sequence[str] = PASSAGES) -> InMemoryVectorStore:
    made = InMemoryVectorStore(Bags())
    documents = [
        Document(page_content=text, id=f"p{n}", metadata={"page": n})
        for n, text in enumerate(passages)
    ]
    made.add_documents(documents)
    return made


def top(question: str = QUESTION, k: int = 2, passages: Sequence[str] = PASSAGES) -> list[str]:
    return [found.page_content for found in store(passages).similarity_search(question, k=k)]


Reply = Callable[[list[BaseMessage]], AIMessage | str]


class Chat(BaseChatModel):
    """A chat model whose reply is a function of its prompt; streams word by word."""

    reply: Reply
    model: str = "scripted"
    delay: float = 0.0
    begun: int = 0

    @property
    def _llm_type(self) -> str:
        return self.model

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model}

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._message(messages))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.begun += 1
        await asyncio.sleep(self.delay)
        return self._generate(messages)

    def _stream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in self._chunks(messages):
            yield ChatGenerationChunk(message=chunk)

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.begun += 1
        for chunk in self._chunks(messages):
            await asyncio.sleep(self.delay)
            yield ChatGenerationChunk(message=chunk)

    def _message(self, messages: list[BaseMessage]) -> AIMessage:
        reply = self.reply(messages)
        return reply if isinstance(reply, AIMessage) else AIMessage(content=reply)

    def _chunks(self, messages: list[BaseMessage]) -> list[AIMessageChunk]:
        message = self._message(messages)
        if message.tool_calls:
            calls = [
                {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": n}
                for n, c in enumerate(message.tool_calls)
            ]
            return [AIMessageChunk(content=message.content, tool_call_chunks=calls)]
        parts = re.split(r"(?<= )", str(message.content))
        return [AIMessageChunk(content=part) for part in parts]


def message_text(message: BaseMessage) -> str:
    return content_text(message.content)


def prompt_text(messages: Sequence[BaseMessage]) -> str:
    return "\n".join(str(message.content) for message in messages)


def answer_to(question: str, contexts: Sequence[str]) -> str:
    return WORDS.answer(question, len(contexts))


def reader(question: str | None = None, **more: Any) -> Chat:
    """A model that counts the passages in its prompt and repeats the question after `Question:`."""

    def reply(messages: list[BaseMessage]) -> str:
        prompt = prompt_text(messages)
        asked = question or re.findall(r"Question: (.*)", prompt)[-1]
        return answer_to(asked, [text for text in PASSAGES if text[:60] in prompt])

    return Chat(reply=reply, **more)


PROMPT = ChatPromptTemplate.from_template(f"Use only:\n{{{SHOWN}}}\n\nQuestion: {{{ASKED}}}")


def joined(documents: Sequence[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def ask(question: str, documents: Sequence[Document]) -> str:
    chain = PROMPT | reader() | StrOutputParser()
    return chain.invoke({SHOWN: joined(documents), ASKED: question})


def base(k: int = 2) -> Any:
    return store().as_retriever(search_kwargs={"k": k})


def answering(retriever: Any, model: Runnable[Any, Any] | None = None) -> Runnable[Any, str]:
    inputs: Any = {SHOWN: retriever | joined, ASKED: RunnablePassthrough()}
    chain: Runnable[Any, str] = inputs | PROMPT | (model or reader()) | StrOutputParser()
    return chain


SYNC_WAYS = ("invoke", "batch", "stream")
CHAIN_WAYS = (*SYNC_WAYS, "ainvoke", "abatch", "astream", "astream")
try:
    from langgraph.graph.state import CompiledStateGraph

    _HAS_V3 = hasattr(CompiledStateGraph, "stream_events")
except ImportError:
    _HAS_V3 = False
GRAPH_WAYS = (*CHAIN_WAYS, *(("stream_events_v3", "astream_events_v3") if _HAS_V3 else ()))


def call(way: str, chain: Any, inputs: Sequence[Any], config: RunnableConfig) -> None:
    if way == "batch":
        chain.batch(list(inputs), config)
    elif way == "abatch":
        asyncio.run(chain.abatch(list(inputs), config))
    elif way.startswith("a"):
        asyncio.run(call_together(way, chain, inputs, config))
    else:
        more = {"version": "v3"} if way == "stream_events_v3" else {}
        for one in inputs:
            out = getattr(chain, way.removesuffix("_v3"))(one, config, **more)
            if way != "invoke":
                list(out)


async def call_together(
    way: str, chain: Any, inputs: Sequence[Any], config: RunnableConfig
) -> None:
    version = {"astream_events": "v2", "astream_events_v3": "v3"}.get(way)
    more = {"version": version} if version else {}

    async def read(one: Any) -> None:
        out = getattr(chain, way.removesuffix("_v3"))(one, config, **more)
        if way == "ainvoke":
            await out
            return
        async for _ in await out if version == "v3" else out:
            pass

    await asyncio.gather(*map(read, inputs))


def leave(stream: Any) -> None:
    if hasattr(stream, "__next__"):
        next(stream)
        stream.close()
        return

    async def left() -> None:
        await anext(stream)
        await stream.aclose()
        await asyncio.sleep(0.05)

    asyncio.run(left())


Build = TypeVar("Build", bound=Callable[..., Any])
Run = Callable[[World, str], None]
RETRIEVED = ("chat scripted", "retrieval InMemoryVectorStore")
SHAPES: list[Shape] = []
"""All shapes of LangChain, in the order in which their modules are imported."""


def shape(
    group: str,
    name: str = "",
    *,
    contexts: Callable[[str], Sequence[str] | None] | None = None,
    answer: Callable[[str], str | None] | None = None,
    spans: Sequence[str] | None = RETRIEVED,
    ways: Sequence[str] = CHAIN_WAYS,
    inputs: Callable[[str], Any] = str,
    config: Callable[[str], dict[str, Any]] = lambda way: {},
    questions: Sequence[str] = QUESTIONS,
    captured: bool = True,
    **more: Any,
) -> Callable[[Build], Build]:
    seen = contexts or top
    told = answer or (lambda question: answer_to(question, seen(question) or ()))

    def expected() -> list[Expected]:
        asked = questions if captured else ()
        return [Expected(question=q, contexts=seen(q), answer=told(q), spans=spans) for q in asked]

    def register(build: Build) -> Build:
        def run(world: World, way: str) -> None:
            handler = RagEvalCallbackHandler(world.evals)
            told_config: Any = {"callbacks": [handler], **config(way)}
            call(way, build(), [inputs(question) for question in questions], told_config)

        scene(group, expected, ways, name=name or named(build), **more)(run)
        return build

    return register


def due(question: str = QUESTION, **more: Any) -> Expected:
    contexts = top(question)
    told = {"contexts": contexts, "answer": answer_to(question, contexts), "spans": RETRIEVED}
    return Expected(question=question, **{**told, **more})


def config(world: World, **more: Any) -> Any:
    return {"callbacks": [RagEvalCallbackHandler(world.evals)], **more}


def scene(
    group: str,
    expected: Sequence[Expected] | Callable[[], Sequence[Expected]],
    ways: Sequence[str] = ("invoke",),
    missing: str | None = None,
    name: str = "",
    **more: Any,
) -> Callable[[Run], Run]:
    def wanted(_way: str) -> Sequence[Expected]:
        return expected() if callable(expected) else expected

    def register(run: Run) -> Run:
        called = name or named(run)
        SHAPES.append(Shape(group, called, ways, run, wanted, missing=missing, **more))
        return run

    return register
