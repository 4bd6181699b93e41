"""Helpers for drawn shapes of LlamaIndex: indexes, scripted models, and ways of calling."""

from __future__ import annotations

import asyncio
import functools
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from llama_index.core import Settings, VectorStoreIndex, set_global_tokenizer
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.core.tools import QueryEngineTool, RetrieverTool, ToolMetadata

from rag_eval_hooks import Status
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index.scripted import Scripted, pick, prompt_text
from tests.matrix.shape import Expected, Shape, bag, named, words
from tests.matrix.world import World
from tests.support.variation import Variation, run_seed

# Exported for shapes.
__all__ = ["Scripted", "pick", "prompt_text", "words"]

# The default tokenizer is downloaded.
set_global_tokenizer(str.split)

DRAWS = tuple(f"draw {number}" for number in range(8))
"""Ways of a shape that draws how it is called."""
WAYS = ("query", "aquery")
STREAMS = ("stream", "astream")
READ_WAYS = (*WAYS, *STREAMS)
CHAT_WAYS = ("chat", "achat", "stream_chat", "astream_chat")
QUERY_SPANS = ("chat scripted", "retrieval VectorIndexRetriever", "  embeddings bags")
TWO_CALLS = ("chat scripted", *QUERY_SPANS)


def _status_of_failed_step() -> Status:
    """Workflows of the first generation cancel a run whose step raised."""
    with suppress(PackageNotFoundError):
        if version("llama-index-workflows").startswith("1."):
            return Status.CANCELLED
    return Status.ERROR


STEP_FAILED = _status_of_failed_step()


class Bags(BaseEmbedding):
    model_name: str = "bags"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return bag(text)


# Nothing may fall back to a model of a provider.
Settings.llm = Scripted(reply=lambda _: "No model was given.")
Settings.embed_model = Bags()


@functools.cache
def index_of(texts: tuple[str, ...]) -> VectorStoreIndex:
    """Return an index of texts, made once for all who ask for it."""
    nodes = [TextNode(text=text, id_=f"p{n}") for n, text in enumerate(texts)]
    return VectorStoreIndex(nodes, embed_model=Bags())


@dataclass
class Asked:
    """One request: how it is asked, and how it must be captured; without a question, not at all."""

    run: Callable[[], Any]
    question: str | None = None
    contexts: Sequence[str] | Callable[[], Sequence[str]] | None = ()
    answer: str | Callable[[], str] | None = None
    status: Status = Status.OK
    spans: Sequence[str] | None = None
    any_order: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    # Further requests of the same run.
    also: Sequence[Asked] = ()

    def expected(self) -> list[Expected]:
        further = [one for each in self.also for one in each.expected()]
        if self.question is None:
            return further
        contexts = self.contexts() if callable(self.contexts) else self.contexts
        answer = self.answer() if callable(self.answer) else self.answer
        told: dict[str, Any] = {"status": self.status, "spans": self.spans}
        told |= {"contexts": contexts, "answer": answer, "any_order": self.any_order}
        return [Expected(question=self.question, **told), *further]


class Draw(Variation):
    def __init__(self, seed: int, way: str, world: World) -> None:
        super().__init__(seed)
        self.way, self.world = way, world

    @property
    def streaming(self) -> bool:
        return self.way in STREAMS

    def one_of(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    def answer(self) -> str:
        made: str = self.one_of(self.short, self.word, self.sentence, self.passage)()
        return made

    def call(self, asked: Any, question: str) -> Callable[[], Any]:
        way = self.way if self.way in CALL else self.one_of(*WAYS)
        return lambda: CALL[way](asked, question)


class Corpus:
    def __init__(self, draw: Draw, count: int = 2, *, metadata: bool = False) -> None:
        self.draw = draw
        self.question = draw.question()
        self.nodes = [TextNode(text=text, id_=draw.name()) for text in draw.passages(count)]
        for node in self.nodes if metadata else ():
            node.metadata = {draw.name(): draw.short(), "year": draw.chance.randint(1900, 2030)}
        self.reindex()

    def reindex(self, **more: Any) -> None:
        self.index = VectorStoreIndex(self.nodes, embed_model=Bags(), **more)

    @property
    def retriever(self) -> Any:
        return self.index.as_retriever(similarity_top_k=len(self.nodes))

    def shown(self, question: str | None = None) -> list[str]:
        found = self.retriever.retrieve(question or self.question)
        return [node.node.get_content(metadata_mode=MetadataMode.LLM) for node in found]

    def engine(self, model: Any, **more: Any) -> Any:
        return self.index.as_query_engine(
            **{"llm": model, "similarity_top_k": len(self.nodes), **more}
        )

    def asked(self, engine: Any, answer: Any, **expected: Any) -> Asked:
        """Return the question to an engine, whose model is shown all passages unless it is said."""
        expected.setdefault("contexts", self.shown())
        return Asked(
            self.draw.call(engine, self.question), self.question, answer=answer, **expected
        )

    def tool(self, said: str | None = None) -> Any:
        metadata = ToolMetadata(name=self.draw.name(), description=self.draw.sentence())
        if said is None:
            return RetrieverTool(retriever=self.retriever, metadata=metadata)
        return QueryEngineTool(query_engine=self.engine(says(said)), metadata=metadata)


def says(*answers: str, **more: Any) -> Scripted:
    left = list(answers)
    return Scripted(reply=lambda _: left.pop(0) if len(left) > 1 else left[0], **more)


def in_turn(answer: str, *calls: ChatMessage, **more: Any) -> Scripted:
    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        # Old versions leave what tools said in an earlier turn in the memory.
        last = max((n for n, one in enumerate(messages) if one.role == MessageRole.USER), default=0)
        done = sum(message.role == MessageRole.TOOL for message in messages[last:])
        return calls[done] if done < len(calls) else answer

    return Scripted(reply=reply, **more)


Call = Callable[[Any, str], Any]


def _stream(engine: Any, question: str) -> None:
    assert "".join(engine.query(question).response_gen)


def _stream_chat(engine: Any, question: str) -> None:
    assert "".join(engine.stream_chat(question).response_gen)


async def read(response: Any) -> None:
    assert "".join([token async for token in response.async_response_gen()])


async def _astream(engine: Any, question: str) -> None:
    await read(await engine.aquery(question))


async def _astream_chat(engine: Any, question: str) -> None:
    await read(await engine.astream_chat(question))


async def _run(agent: Any, question: str) -> None:
    await agent.run(user_msg=question)


CALL: dict[str, Call] = {
    "query": lambda engine, question: engine.query(question),
    "aquery": lambda engine, question: engine.aquery(question),
    "stream": _stream,
    "astream": _astream,
    "chat": lambda engine, question: engine.chat(question),
    "achat": lambda engine, question: engine.achat(question),
    "stream_chat": _stream_chat,
    "astream_chat": _astream_chat,
    "run": _run,
}
SHAPES: list[Shape] = []
"""All shapes of LlamaIndex, in the order in which their modules are imported."""
Make = Callable[[Draw], Asked]


def shape(
    group: str, *ways: str, name: str = "", missing: str | None = None
) -> Callable[[Make], Make]:

    def register(make: Make) -> Make:
        called = name or named(make)
        made: dict[str, list[Asked]] = {}

        def run(world: World, way: str) -> None:
            first = run_seed() + zlib.crc32(f"{called} {way}".encode())
            twice = way.startswith("a") or way == "run"
            made[way] = several = [make(Draw(first + n, way, world)) for n in range(1 + twice)]
            traced(world, several[0].options, [asked.run for asked in several])

        def expected(way: str) -> list[Expected]:
            return [due for asked in made[way] for due in asked.expected()]

        SHAPES.append(Shape(group, called, ways or DRAWS, run, expected, missing))
        return make

    return register


def traced(world: World, options: dict[str, Any], calls: Sequence[Callable[[], Any]]) -> None:
    with asyncio.Runner() as runner:
        # Sync calls of LlamaIndex run async code in the thread's loop.
        asyncio.set_event_loop(runner.get_loop())
        registration = enable(world.evals, **options) if world.captures else None
        try:
            given = [call() for call in calls]
            runner.run(gathered([one for one in given if asyncio.iscoroutine(one)]))
        finally:
            if registration is not None:
                registration.disable()
    asyncio.set_event_loop(None)


async def gathered(coroutines: Sequence[Any]) -> None:
    await asyncio.gather(*coroutines)
