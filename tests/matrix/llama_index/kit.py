"""Parts of the LlamaIndex shapes: a corpus in a real index, scripted LLMs, the ways."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core import Settings, VectorStoreIndex, set_global_tokenizer
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import TextNode

from rag_eval_hooks import Status
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index.scripted import Scripted, pick, prompt_text, until_asked
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World
from tests.support.variation import Variation, Wording, run_seed

# Exported for shapes.
__all__ = ["Scripted", "pick", "prompt_text", "until_asked"]

# The default tokenizer is downloaded.
set_global_tokenizer(str.split)

WORDS = Wording(run_seed())
"""Language and words of all texts of this run."""
NAMED = Variation(run_seed() + 2_000_003)
"""Draws names of keys, fields and tools, of which none is a word of the texts."""
FERRIES, TICKETS = NAMED.name(), NAMED.name()
"""Names of tools."""
ASKED = NAMED.name()
"""Name under which workflows are given their question."""
PLAIN = (
    "The ferry to Skarn leaves at 07:40 from the north quay on every working day of the year.",
    "The ferry from Skarn to the mainland returns at 18:15, and in summer also at 21:30.",
    "Bicycles travel free of charge on all sailings outside the months of July and August.",
    "Dogs must be on a lead while they are on the car deck, and may not enter the restaurant.",
    "A season ticket costs 310 crowns and is sold at the office beside the south gate only.",
    "The restaurant on board opens half an hour after departure and serves fish soup and rye.",
)
PASSAGES = tuple(map(WORDS, PLAIN))
QUESTION = WORDS("At what time does the ferry to Skarn leave the quay?")
QUESTIONS = (QUESTION, WORDS("What does a season ticket at the office cost?"))
BOTH = WORDS("When, and at what price?")
"""A question that holds two."""


def words(text: str) -> list[str]:
    return re.findall(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+", text.lower())


_WIDE_PARTS = re.compile(r"(?=([\u3400-\u9fff]{3}))")
_DIMENSIONS = 1024
_PLACES: dict[str, int] = {}


class Bags(BaseEmbedding):
    """Bags of words: deterministic, and near where words, or three wide characters, are shared.

    No two words of a text and its question share a dimension, and all values are whole: what is
    equally near is so exactly, whatever else a query says, and ranks by the index alone.
    """

    model_name: str = "bags"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        vector = [0.0] * _DIMENSIONS
        narrow = [word for word in words(text) if word < "\u3400"]
        for word in [*narrow, *_WIDE_PARTS.findall(text)] or [""]:
            vector[_PLACES.setdefault(word, len(_PLACES) % _DIMENSIONS)] = 1.0
        return vector


@functools.cache
def index(passages: tuple[str, ...] = PASSAGES) -> VectorStoreIndex:
    nodes = [
        # Pages are shown to no model: passages are found, and are contexts, by their bare texts.
        TextNode(
            text=text,
            id_=f"p{n}",
            metadata={"page": n},
            excluded_llm_metadata_keys=["page"],
            excluded_embed_metadata_keys=["page"],
        )
        for n, text in enumerate(passages)
    ]
    return VectorStoreIndex(nodes, embed_model=Bags())


# Made beforehand: the embeddings of its making are no part of any shape.
index()


def top(question: str = QUESTION, k: int = 2, passages: tuple[str, ...] = PASSAGES) -> list[str]:
    """The passages that the index gives for a question, best first."""
    found = index(passages).as_retriever(similarity_top_k=k).retrieve(question)
    return [node.get_content() for node in found]


def answer_to(question: str, contexts: Sequence[str]) -> str:
    """Return the answer of `reader` to a question over some contexts."""
    return WORDS.answer(question, len(contexts))


def told(text: str) -> str:
    """A reply in this run's words, long or short as its answers are."""
    return WORDS.answer(WORDS(text), 0)


def reader(**more: Any) -> Scripted:
    """An LLM that counts the passages in its prompt and repeats the question in it."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        prompt = prompt_text(messages)
        asked = [question for question in QUESTIONS if question in prompt]
        return answer_to(asked[-1], [text for text in PASSAGES if text[:60] in prompt])

    return Scripted(reply=reply, **more)


# Nothing may fall back to a model of a provider.
Settings.llm = reader()
Settings.embed_model = Bags()

ASYNC = ("aquery", "astream", "achat", "astream_chat", "run")
WAYS = ("query", "aquery")
READ_WAYS = (*WAYS, "stream", "astream")
QUERY_SPANS = (
    "chat scripted",
    "retrieval VectorIndexRetriever",
    "  embeddings bags",
)

Call = Callable[[Any, str], Any]


def _query(engine: Any, question: str) -> None:
    engine.query(question)


def _stream(engine: Any, question: str) -> None:
    assert "".join(engine.query(question).response_gen)


def _chat(engine: Any, question: str) -> None:
    engine.chat(question)


def _stream_chat(engine: Any, question: str) -> None:
    assert "".join(engine.stream_chat(question).response_gen)


async def _aquery(engine: Any, question: str) -> None:
    await engine.aquery(question)


async def _astream(engine: Any, question: str) -> None:
    response = await engine.aquery(question)
    assert "".join([token async for token in response.async_response_gen()])


async def _achat(engine: Any, question: str) -> None:
    await engine.achat(question)


async def _astream_chat(engine: Any, question: str) -> None:
    response = await engine.astream_chat(question)
    assert "".join([token async for token in response.async_response_gen()])


async def _run(agent: Any, question: str) -> None:
    await agent.run(user_msg=question)


CALL: dict[str, Call] = {
    "query": _query,
    "aquery": _aquery,
    "stream": _stream,
    "astream": _astream,
    "chat": _chat,
    "achat": _achat,
    "stream_chat": _stream_chat,
    "astream_chat": _astream_chat,
    "run": _run,
}


def call(way: str, build: Callable[[], Any], questions: Sequence[str]) -> None:
    """Asks all questions in one way: at once where it is async, each of its own pipeline."""
    if way in ASYNC:

        async def all_at_once() -> None:
            await asyncio.gather(*(CALL[way](build(), question) for question in questions))

        asyncio.run(all_at_once())
    else:
        for question in questions:
            CALL[way](build(), question)


def traced(body: Callable[[World, str], None]) -> Callable[[World, str], None]:
    """The body with LlamaIndex's instrumentation reporting to the world's evaluator."""

    def run(world: World, way: str) -> None:
        if not world.captures:
            body(world, way)
            return
        registration = enable(world.evals)
        # Sync calls of LlamaIndex run async code in the thread's loop; one of its own stays open.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            body(world, way)
        finally:
            registration.disable()
            loop.close()
            asyncio.set_event_loop(None)

    return run


def case(
    group: str,
    name: str,
    body: Callable[[World, str], Any],
    *,
    contexts: Callable[[str], Sequence[str] | None] = top,
    answer: Callable[[str], str | None] | None = None,
    status: Status = Status.OK,
    spans: Sequence[str] | Callable[[str], Sequence[str] | None] | None = QUERY_SPANS,
    ways: Sequence[str] = ("run",),
    questions: Sequence[str] = (QUESTION,),
    missing: str | None = None,
) -> Shape:
    """A shape of any body, sync or async, with one interaction for each question."""
    told = answer or (lambda question: answer_to(question, contexts(question) or ()))

    async def finished(made: Any) -> None:
        await made

    def run(world: World, way: str) -> None:
        if inspect.isawaitable(made := body(world, way)):
            asyncio.run(finished(made))

    def expected(way: str) -> list[Expected]:
        below = spans(way) if callable(spans) else spans
        return [
            Expected(question=q, contexts=contexts(q), answer=told(q), status=status, spans=below)
            for q in questions
        ]

    return Shape(
        group=group, name=name, ways=ways, run=traced(run), expected=expected, missing=missing
    )


def shape(
    group: str,
    name: str,
    build: Callable[[bool], Any],
    *,
    ways: Sequence[str] = READ_WAYS,
    questions: Sequence[str] = QUESTIONS,
    **expected: Any,
) -> Shape:
    """A shape that is one pipeline, asked some questions."""

    def body(world: World, way: str) -> None:
        call(way, lambda: build(way in ("stream", "astream")), questions)

    return case(group, name, body, ways=ways, questions=questions, **expected)
