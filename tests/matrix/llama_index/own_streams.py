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
from tests.matrix.llama_index.kit import (
    QUERY_SPANS,
    QUESTION,
    QUESTIONS,
    WORDS,
    answer_to,
    case,
    index,
    reader,
    shape,
    told,
    top,
)
from tests.matrix.llama_index.scripted import PIECE
from tests.matrix.shape import Shape
from tests.matrix.world import World

__all__ = ["SHAPES", "Own", "words"]

GROUP = "query engines"
RATED, HERE, OTHER = f" {told('Rated.')}", f"{told('Here.')} ", WORDS("Another question?")
Make = Callable[[Iterator[str], str], Iterator[str]]


def words(question: str) -> Iterator[str]:
    """Yield the model's words about the passages for a question."""
    nodes = index().as_retriever(similarity_top_k=2).retrieve(question)
    text = "\n".join(node.get_content() for node in nodes)
    asked = ChatMessage(role="user", content=f"Use only:\n{text}\nQuestion: {question}")
    return (part.delta or "" for part in reader().stream_chat([asked]))


class Own(CustomQueryEngine):
    """Retrieves, and streams what `make` does with the model's words.

    Attributes:
        make: From the model's words and the question to what is yielded.
        late: Whether it retrieves only when the stream is read.
    """

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
    """A line of each text."""
    return [f"- {text[4:28]}\n" for text in texts]


def extractive(streaming: bool) -> RetrieverQueryEngine:
    """An engine with a synthesizer of the user's own."""
    synthesizer = Excerpts(llm=reader(), streaming=streaming)
    return RetrieverQueryEngine(index().as_retriever(similarity_top_k=2), synthesizer)


def loud(text: str) -> str:
    """Changed, in whatever language."""
    return text.upper().replace(" ", "_")


def shouted(said: Iterator[str], question: str) -> Iterator[str]:
    """As `loud`."""
    for part in said:
        yield loud(part)


def cut(said: Iterator[str], question: str) -> Iterator[str]:
    """Three pieces of it."""
    yield from itertools.islice(said, 3)


def rated(said: Iterator[str], question: str) -> Iterator[str]:
    """With a rating, for which a model is called again."""
    answer = ""
    for word in said:
        answer += word
        yield word
    reader().complete(f"{question}: {answer}")
    yield RATED


def chained(said: Iterator[str], question: str) -> Iterator[str]:
    """No generator."""
    return itertools.chain([HERE], said)


def mapped(said: Iterator[str], question: str) -> Iterator[str]:
    """No generator either."""
    return map(loud, said)


def nested(said: Iterator[str], question: str) -> Iterator[str]:
    """The stream of another engine within this one."""
    engine: Any = index().as_query_engine(llm=reader(), similarity_top_k=2, streaming=True)
    yield "<"
    yield from engine.query(question).response_gen
    yield ">"
    assert list(said)


def breaks(said: Iterator[str], question: str) -> Iterator[str]:
    """All of it, and an exception."""
    yield from said
    raise ConnectionError("after the last word")


def plain(question: str) -> str:
    """Return the model's answer."""
    return answer_to(question, top(question))


def own(name: str, make: Make, answer: Callable[[str], str], spans: Any = QUERY_SPANS) -> Shape:
    """One that is read to its end."""
    return shape(
        GROUP,
        f"CustomQueryEngine, {name}",
        lambda s: Own(make=make),
        answer=answer,
        spans=spans,
        ways=("stream", "astream"),
    )


def stream_of(make: Make, question: str, **more: Any) -> Any:
    """The stream that an engine gives out."""
    response: Any = Own(make=make, **more).query(question)
    return response.response_gen


def broken(world: World, way: str) -> None:
    """One that raises after the model has ended."""
    with contextlib.suppress(ConnectionError):
        list(stream_of(breaks, QUESTION))


def retrieves_while_read(world: World, way: str) -> None:
    """Streams that retrieve when they are read, in turns and within another interaction."""
    streams = [stream_of(shouted, q, late=True) for q in QUESTIONS]
    with world.evals.interaction(OTHER) as another:
        while streams:
            streams = [stream for stream in streams if next(stream, None) is not None]
        another.answer(told(OTHER))


SHAPES = (
    own("hands on", lambda said, q: (word for word in said), plain),
    own("changes", shouted, lambda q: loud(plain(q))),
    own("cuts", cut, lambda q: plain(q)[: 3 * PIECE]),
    own("adds", rated, lambda q: plain(q) + RATED, ("chat scripted", *QUERY_SPANS)),
    own("chain", chained, lambda q: HERE + plain(q)),
    own("map", mapped, lambda q: loud(plain(q))),
    own("nested", nested, lambda q: f"<{plain(q)}>", None),
    shape(
        GROUP,
        "synthesizer of the user's own",
        extractive,
        answer=lambda q: "".join(excerpts(top(q))),
        spans=QUERY_SPANS[1:],
    ),
    case(
        GROUP,
        "CustomQueryEngine, raises at its end",
        broken,
        ways=("stream",),
        status=Status.ERROR,
    ),
    case(
        GROUP,
        "CustomQueryEngine, retrieves while it is read",
        retrieves_while_read,
        ways=("stream",),
        questions=(OTHER, *QUESTIONS),
        contexts=lambda q: None if q == OTHER else top(q),
        answer=lambda q: told(OTHER) if q == OTHER else loud(plain(q)),
        spans=None,
    ),
)
