"""Query engines of the user's own, whose streams yield what they like."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.response_synthesizers import BaseSynthesizer

from rag_eval_hooks import Status
from tests.matrix.llama_index import kit
from tests.matrix.llama_index.scripted import PIECE
from tests.matrix.shape import Shape
from tests.matrix.world import World

GROUP = "query engines"
RATED, HERE, OTHER = (
    f" {kit.told('Rated.')}",
    f"{kit.told('Here.')} ",
    kit.WORDS("Another question?"),
)
Make = Callable[[Iterator[str], str], Iterator[str]]


def words(question: str) -> Iterator[str]:
    """Yield the model's words about the passages for a question."""
    nodes = kit.index().as_retriever(similarity_top_k=2).retrieve(question)
    text = "\n".join(node.get_content() for node in nodes)
    asked = ChatMessage(role="user", content=f"Use only:\n{text}\nQuestion: {question}")
    return (part.delta or "" for part in kit.reader().stream_chat([asked]))


class Own(CustomQueryEngine):
    """Retrieves, and streams what `make` does with the model's words."""

    make: Make
    late: bool = False

    def custom_query(self, query_str: str) -> StreamingResponse:
        said = () if self.late else words(query_str)

        def late() -> Iterator[str]:
            yield from self.make(words(query_str), query_str)

        stream: Any = late() if self.late else self.make(iter(said), query_str)
        return StreamingResponse(stream)

    async def acustom_query(self, query_str: str) -> AsyncStreamingResponse:
        said = words(query_str)

        async def later() -> AsyncGenerator[str, None]:
            for part in self.make(said, query_str):
                yield part

        return AsyncStreamingResponse(later())


class Excerpts(BaseSynthesizer):
    """Answers with the beginnings of what was found, without a model."""

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        """Has none."""

    def get_response(self, query_str: str, text_chunks: Sequence[str], **kwargs: Any) -> Any:
        parts = excerpts(text_chunks)
        return (part for part in parts) if self._streaming else "".join(parts)

    async def aget_response(self, query_str: str, text_chunks: Sequence[str], **kwargs: Any) -> Any:
        parts = excerpts(text_chunks)

        async def later() -> AsyncGenerator[str, None]:
            for part in parts:
                yield part

        return later() if self._streaming else "".join(parts)


def excerpts(texts: Sequence[str]) -> list[str]:
    return [f"- {text[4:28]}\n" for text in texts]


def extractive(streaming: bool) -> RetrieverQueryEngine:
    synthesizer = Excerpts(llm=kit.reader(), streaming=streaming)
    return RetrieverQueryEngine(kit.index().as_retriever(similarity_top_k=2), synthesizer)


def loud(text: str) -> str:
    return text.upper().replace(" ", "_")


def shouted(said: Iterator[str], question: str) -> Iterator[str]:
    for part in said:
        yield loud(part)


def cut(said: Iterator[str], question: str) -> Iterator[str]:
    yield from itertools.islice(said, 3)


def rated(said: Iterator[str], question: str) -> Iterator[str]:
    """With a rating, for which a model is called again."""
    answer = ""
    for word in said:
        answer += word
        yield word
    kit.reader().complete(f"{question}: {answer}")
    yield RATED


def chained(said: Iterator[str], question: str) -> Iterator[str]:
    return itertools.chain([HERE], said)


def nested(said: Iterator[str], question: str) -> Iterator[str]:
    engine: Any = kit.index().as_query_engine(llm=kit.reader(), similarity_top_k=2, streaming=True)
    yield "<"
    yield from engine.query(question).response_gen
    yield ">"
    assert list(said)


def breaks(said: Iterator[str], question: str) -> Iterator[str]:
    yield from said
    raise ConnectionError("after the last word")


def plain(question: str) -> str:
    return kit.answer_to(question, kit.top(question))


def own(name: str, make: Make, answer: Callable[[str], str], spans: Any = kit.QUERY_SPANS) -> Shape:
    return kit.shape(
        GROUP,
        f"CustomQueryEngine, {name}",
        lambda s: Own(make=make),
        answer=answer,
        spans=spans,
        ways=("stream", "astream"),
    )


def stream_of(make: Make, question: str, **more: Any) -> Any:
    response: Any = Own(make=make, **more).query(question)
    return response.response_gen


def broken(world: World, way: str) -> None:
    with contextlib.suppress(ConnectionError):
        list(stream_of(breaks, kit.QUESTION))


def retrieves_while_read(world: World, way: str) -> None:
    """Streams that retrieve when they are read, in turns and within another interaction."""
    streams = [stream_of(shouted, q, late=True) for q in kit.QUESTIONS]
    with world.evals.interaction(OTHER) as another:
        while streams:
            streams = [stream for stream in streams if next(stream, None) is not None]
        another.answer(kit.told(OTHER))


SHAPES = (
    own("changes", shouted, lambda q: loud(plain(q))),
    own("cuts", cut, lambda q: plain(q)[: 3 * PIECE]),
    own("adds", rated, lambda q: plain(q) + RATED, ("chat scripted", *kit.QUERY_SPANS)),
    own("chain", chained, lambda q: HERE + plain(q)),
    own("nested", nested, lambda q: f"<{plain(q)}>", None),
    kit.shape(
        GROUP,
        "synthesizer of the user's own",
        extractive,
        answer=lambda q: "".join(excerpts(kit.top(q))),
        spans=kit.QUERY_SPANS[1:],
    ),
    kit.case(
        GROUP,
        "CustomQueryEngine, raises at its end",
        broken,
        ways=("stream",),
        status=Status.ERROR,
    ),
    kit.case(
        GROUP,
        "CustomQueryEngine, retrieves while it is read",
        retrieves_while_read,
        ways=("stream",),
        questions=(OTHER, *kit.QUESTIONS),
        contexts=lambda q: None if q == OTHER else kit.top(q),
        answer=lambda q: kit.told(OTHER) if q == OTHER else loud(plain(q)),
        spans=None,
    ),
)
