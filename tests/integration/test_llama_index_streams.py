"""Streams of LlamaIndex that are read later, in part, or never, and streams of the user's own."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from types import AsyncGeneratorType, GeneratorType
from typing import Any

import pytest
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.query_engine import CustomQueryEngine

from rag_eval_hooks import Status
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.fixtures import only, opened, samples, texts
from tests.matrix.llama_index.kit import Corpus, Draw, says
from tests.matrix.llama_index.own_streams import Own, shouted
from tests.matrix.llama_index.trouble import messages_of
from tests.matrix.world import World

plain_world, world, draw = fixtures.plain_world, fixtures.world, fixtures.draw
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def endings(world: World) -> list[tuple[str | None, Status]]:
    return [(sample.answer, sample.status) for sample in samples(world)]


# LlamaIndex's own streams.


# Streams of a model called by hand.


@pytest.mark.parametrize(
    ("way", "status"), [("read", Status.OK), ("part", Status.CLOSED), ("stated", Status.OK)]
)
def test_stream_of_a_model_read_after_its_interaction(way: str, status: Status, draw: Draw) -> None:
    corpus, answer, stated = Corpus(draw), draw.sentence(), draw.sentence()
    with draw.world.evals.interaction(corpus.question) as interaction:
        nodes = corpus.retriever.retrieve(corpus.question)
        stream: Any = says(answer).stream_chat(messages_of(corpus.question, nodes))
        if way == "stated":
            interaction.answer(stated)
    next(stream)
    if way == "read":
        list(stream)
    del stream
    gc.collect()
    assert endings(draw.world) == [({"read": answer, "stated": stated}.get(way), status)]
    assert texts(only(draw.world)) == corpus.shown()


# Streams of query engines of the user's own: the answer is what was read, or absent.


class Given(CustomQueryEngine):
    corpus: Any
    given: Callable[[], Any]

    def custom_query(self, query_str: str) -> Any:
        self.corpus.retriever.retrieve(query_str)
        return self.given()

    async def acustom_query(self, query_str: str) -> Any:
        return self.custom_query(query_str)


def stream_of(world: World, make: Callable[[], Any]) -> Any:
    corpus = Corpus(Draw(0, "query", world))
    engine = Given(corpus=corpus, given=lambda: StreamingResponse(make()))
    response: Any = engine.query(corpus.question)
    return response.response_gen


def test_generator_stays_one_to_its_reader(world: World) -> None:
    """`send`, `throw`, the returned value and the name are those of the generator itself."""
    heard: list[Any] = []

    def made() -> Generator[str, Any, str]:
        heard.append((yield "one "))
        try:
            yield "two "
        except KeyError as error:
            heard.append(error)
            yield "three "
        return "done"

    stream, error = stream_of(world, made), KeyError("x")
    assert (type(stream), stream.__name__) == (GeneratorType, "made")
    assert (next(stream), stream.send("hello"), stream.throw(error)) == ("one ", "two ", "three ")
    with pytest.raises(StopIteration) as end:
        next(stream)
    assert (end.value.value, heard) == ("done", ["hello", error])
    assert endings(world) == [("one two three ", Status.OK)]


async def test_async_generator_stays_one_to_its_reader(world: World) -> None:
    heard: list[Any] = []

    async def made() -> AsyncGenerator[str, Any]:
        heard.append((yield "one "))
        try:
            yield "two "
        except KeyError as error:
            heard.append(error)
            yield "three "

    corpus, error = Corpus(Draw(0, "query", world)), KeyError("x")
    engine = Given(corpus=corpus, given=lambda: AsyncStreamingResponse(made()))
    response: Any = await engine.aquery(corpus.question)
    stream = response.response_gen
    assert (type(stream), stream.__name__) == (AsyncGeneratorType, "made")
    said = [await anext(stream), await stream.asend("hello"), await stream.athrow(error)]
    assert (said, heard) == (["one ", "two ", "three "], ["hello", error])
    await stream.aclose()
    assert endings(world) == [("one two three ", Status.CLOSED)]


def test_dropped_stream_drops_its_generator(world: World) -> None:
    over: list[str] = []

    def made() -> Iterator[str]:
        try:
            yield "one "
        finally:
            over.append("over")

    stream = stream_of(world, made)
    next(stream)
    gone = weakref.ref(stream)
    del stream
    gc.collect()
    assert (gone(), over) == (None, ["over"])
    assert endings(world) == [("one ", Status.CLOSED)]


def test_stream_that_is_not_watched_has_no_answer(plain_world: World) -> None:
    """In an interaction by hand, an unknown answer is not that of an earlier call."""
    registration = enable(plain_world.evals, watch_streams=False)
    draw = Draw(0, "query", plain_world)
    corpus, own = Corpus(draw), Own(corpus=Corpus(draw), answer=draw.sentence(), make=shouted)
    with plain_world.evals.interaction(corpus.question):
        corpus.engine(says(draw.answer())).query(corpus.question)
        stream = stream_of(plain_world, own.words)
        assert "rag_eval" not in str(stream.gi_code.co_filename)
        assert "".join(stream) == own.answer
    registration.disable()
    assert endings(plain_world) == [(None, Status.OK)]


def test_unread_answer_that_is_kept_keeps_nothing_of_its_request() -> None:
    with opened(INTERACTION_SECONDS=0.05) as world:
        draw = Draw(0, "query", world)
        corpus, answer = Corpus(draw), draw.sentence()
        engine: Any = Own(corpus=corpus, answer=answer, make=lambda said, _: said)
        kept = engine.query(corpus.question)
        (interaction,) = world.evals.recorder._open.values()
        gone = weakref.ref(interaction.root)
        del interaction
        while len(world.evals.recorder):
            world.evals.stats()
        assert endings(world) == [(None, Status.ABANDONED)]
        world.evals._samples.clear()
        world.memory.results.clear()
        gc.collect()
        assert gone() is None
        assert "".join(kept.response_gen) == answer
