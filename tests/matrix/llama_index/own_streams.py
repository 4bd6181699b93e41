"""Query engines of the user's own, whose streams yield what they like."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.query_engine import CustomQueryEngine

from rag_eval_hooks import Status
from tests.matrix.llama_index.kit import (
    QUERY_SPANS,
    STREAMS,
    TWO_CALLS,
    Asked,
    Corpus,
    Draw,
    says,
    shape,
)
from tests.matrix.llama_index.scripted import PIECE

GROUP = "query engines"
Make = Callable[[Iterator[str], Corpus], Iterator[str]]


class Own(CustomQueryEngine):
    """Retrieves, and streams what `make` does with the model's words; late, only when read."""

    corpus: Any
    answer: str
    make: Make
    late: bool = False

    def words(self) -> Iterator[str]:
        nodes = self.corpus.retriever.retrieve(self.corpus.question)
        text = "\n".join([*(node.get_content() for node in nodes), self.corpus.question])
        asked = ChatMessage(role="user", content=text)
        return (part.delta or "" for part in says(self.answer).stream_chat([asked]))

    def custom_query(self, query_str: str) -> StreamingResponse:
        said = iter(()) if self.late else self.words()

        def late() -> Iterator[str]:
            yield from self.make(self.words(), self.corpus)

        stream: Any = late() if self.late else self.make(said, self.corpus)
        return StreamingResponse(stream)

    async def acustom_query(self, query_str: str) -> AsyncStreamingResponse:
        said = self.words()

        async def later() -> AsyncGenerator[str, None]:
            for part in self.make(said, self.corpus):
                yield part

        return AsyncStreamingResponse(later())


def loud(text: str) -> str:
    return text.upper().replace(" ", "_")


def shouted(said: Iterator[str], corpus: Corpus) -> Iterator[str]:
    for part in said:
        yield loud(part)


def cut(said: Iterator[str], corpus: Corpus) -> Iterator[str]:
    yield from itertools.islice(said, 3)


def rated(said: Iterator[str], corpus: Corpus) -> Iterator[str]:
    answer = ""
    for word in said:
        answer += word
        yield word
    says("7").complete(f"{corpus.question}: {answer}")
    yield " (7)"


def nested(said: Iterator[str], corpus: Corpus) -> Iterator[str]:
    answer = "".join(said)
    yield "<"
    yield from corpus.engine(says(answer), streaming=True).query(corpus.question).response_gen
    yield ">"


def own(make: Make, given: Callable[[str], str], spans: Sequence[str] | None = QUERY_SPANS) -> None:

    def asked(draw: Draw) -> Asked:
        corpus, answer = Corpus(draw), draw.sentence()
        engine = Own(corpus=corpus, answer=answer, make=make)
        return corpus.asked(engine, given(answer), spans=spans)

    shape(GROUP, *STREAMS, name=f"stream that is {make.__name__}")(asked)


own(shouted, loud)
own(cut, lambda answer: answer[: 3 * PIECE])
own(rated, lambda answer: f"{answer} (7)", TWO_CALLS)
own(nested, lambda answer: f"<{answer}>", None)


def breaks(said: Iterator[str], corpus: Corpus) -> Iterator[str]:
    yield from said
    raise ConnectionError("after the last word")


@shape(GROUP, "stream")
def stream_that_raises_at_its_end(draw: Draw) -> Asked:
    corpus, answer = Corpus(draw), draw.sentence()

    def run() -> None:
        response: Any = Own(corpus=corpus, answer=answer, make=breaks).query(corpus.question)
        with contextlib.suppress(ConnectionError):
            list(response.response_gen)

    return Asked(run, corpus.question, corpus.shown(), answer, Status.ERROR, QUERY_SPANS)


@shape(GROUP, "stream")
def streams_that_retrieve_while_they_are_read(draw: Draw) -> Asked:
    corpora, other = [Corpus(draw) for _ in range(2)], draw.question()
    answers, said = [draw.sentence() for _ in range(2)], draw.sentence()

    def run() -> None:
        engines = [
            Own(corpus=corpus, answer=answer, make=shouted, late=True)
            for corpus, answer in zip(corpora, answers, strict=True)
        ]
        responses: list[Any] = [e.query(e.corpus.question) for e in engines]
        streams = [response.response_gen for response in responses]
        with draw.world.evals.interaction(other) as another:
            while streams:
                streams = [stream for stream in streams if next(stream, None) is not None]
            another.contexts([])
            another.answer(said)

    own = zip(corpora, answers, strict=True)
    return Asked(run, other, [], said, also=[c.asked(None, loud(answer)) for c, answer in own])
