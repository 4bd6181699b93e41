"""Streams of query engines of the application's own: the answer is what was read, or absent."""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from types import AsyncGeneratorType, GeneratorType
from typing import Any

import pytest
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.query_engine import CustomQueryEngine

from rag_eval_hooks import Status
from rag_eval_hooks_llama_index import enable
from rag_eval_hooks_llama_index.streams import StreamReading
from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.helpers import engine, samples
from tests.matrix.llama_index.kit import QUESTION, QUESTIONS, answer_to, index, top
from tests.matrix.llama_index.own_streams import Own, words
from tests.matrix.llama_index.scripted import PIECE
from tests.matrix.world import World

own_loop, plain_world, world = fixtures.own_loop, fixtures.plain_world, fixtures.world
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]
PLAIN = answer_to(QUESTION, top())


class Given(CustomQueryEngine):
    """Retrieves, and gives out any response."""

    given: Callable[[], Any]

    def custom_query(self, query_str: str) -> Any:
        index().as_retriever(similarity_top_k=2).retrieve(query_str)
        return self.given()

    async def acustom_query(self, query_str: str) -> Any:
        return self.custom_query(query_str)


def ask(stream: Any) -> Any:
    return stream_of(lambda: stream)


def stream_of(make: Callable[[], Any]) -> Any:
    response: Any = Given(given=lambda: StreamingResponse(make())).query(QUESTION)
    return response.response_gen


async def aask(stream: Any) -> Any:
    response: Any = await Given(given=lambda: AsyncStreamingResponse(stream)).aquery(QUESTION)
    return response.response_gen


def endings(world: World) -> list[tuple[str | None, Status, str | None]]:
    return [(s.answer, s.status, s.error_type) for s in samples(world)]


class Talking:
    """A generator that can be talked to, and tells how it ended."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def made(self) -> Generator[str, Any, str]:
        try:
            self.heard.append((yield "one "))
            try:
                yield "two "
            except KeyError as error:
                self.heard.append(error)
                yield "three "
        finally:
            self.heard.append("over")
        return "done"

    async def amade(self) -> AsyncGenerator[str, Any]:
        inner = self.made()
        sent = None
        while True:
            try:
                part = inner.send(sent)
            except StopIteration:
                return
            try:
                sent = yield part
            except KeyError as error:
                yield inner.throw(error)
            finally:
                self.heard.append("stepped")


def test_a_generator_stays_one_to_its_reader(world: World) -> None:
    """`send`, `throw`, the returned value and the name are those of the generator itself."""
    talking, error = Talking(), KeyError("x")
    stream = ask(talking.made())
    assert (type(stream), stream.__name__) == (GeneratorType, "made")
    assert (next(stream), stream.send("hello"), stream.throw(error)) == ("one ", "two ", "three ")
    with pytest.raises(StopIteration) as end:
        next(stream)
    assert (end.value.value, talking.heard) == ("done", ["hello", error, "over"])
    assert endings(world) == [("one two three ", Status.OK, None)]


async def test_an_async_generator_stays_one_to_its_reader(world: World) -> None:
    """So are `asend` and `athrow`."""
    talking, error = Talking(), KeyError("x")
    stream = await aask(talking.amade())
    assert (type(stream), stream.__name__) == (AsyncGeneratorType, "amade")
    said = [await anext(stream), await stream.asend("hello"), await stream.athrow(error)]
    assert (said, talking.heard[0]) == (["one ", "two ", "three "], "stepped")
    assert "hello" in talking.heard
    assert error in talking.heard
    await stream.aclose()
    assert endings(world) == [("one two three ", Status.CLOSED, None)]


class Noted(Iterator[str]):
    """An iterator of the application's own, which may be more than that."""

    def __next__(self) -> str:
        raise StopIteration


@pytest.mark.parametrize("given", [["one ", "two"], Noted(), io.StringIO("one")])
def test_a_stream_that_nothing_can_stand_in_for_stays_as_it_is(world: World, given: Any) -> None:
    """Its answer is unknown."""
    assert ask(given) is given
    assert endings(world) == [(None, Status.OK, None)]


def test_dropping_drops_the_generator(world: World) -> None:
    """Nothing of ours keeps a generator that its reader lets go; the interaction is closed."""
    talking = Talking()
    stream = ask(talking.made())
    next(stream)
    gone = weakref.ref(stream)
    del stream
    gc.collect()
    assert (gone(), talking.heard) == (None, ["over"])
    assert endings(world) == [("one ", Status.CLOSED, None)]


def test_two_readers_at_once_do_not_end_it(world: World) -> None:
    """A generator that complains of a second reader goes on for the first."""

    def entered() -> Iterator[str]:
        with contextlib.suppress(ValueError):
            next(stream)
        yield "one"

    stream = ask(entered())
    assert list(stream) == ["one"]
    assert endings(world) == [("one", Status.OK, None)]


def test_two_evaluators_get_one_answer(world: World, plain_world: World) -> None:
    """Both evaluators that watch a stream get its answer."""
    registration = enable(plain_world.evals)
    assert list(ask(word for word in ["one ", "two"])) == ["one ", "two"]
    registration.disable()
    assert endings(world) == endings(plain_world) == [("one two", Status.OK, None)]


def test_streams_can_be_left_alone(plain_world: World) -> None:
    """With `watch_streams=False` the stream is the application's own, its answer is not known."""
    registration = enable(plain_world.evals, watch_streams=False)
    stream = stream_of(lambda: words(QUESTION))
    assert type(stream).__name__ == "generator"
    assert "".join(stream) == PLAIN
    registration.disable()
    assert endings(plain_world) == [(None, Status.OK, None)]


@pytest.mark.parametrize("given", [[b"one"], ["one", 2], [None]])
def test_what_is_no_text_is_no_answer(given: list[Any], world: World) -> None:
    """A stream of anything but texts has no answer."""
    assert list(ask(iter(given))) == given
    assert endings(world) == [(None, Status.OK, None)]


def test_an_interaction_opened_by_a_stream_is_its_own(world: World) -> None:
    """Statements of a stream while it is read belong to the interaction that gave it out."""

    def stating() -> Iterator[str]:
        with world.evals.interaction(QUESTION) as interaction:
            interaction.contexts(["Stated."])
            yield "one"

    assert list(ask(stating())) == ["one"]
    (sample,) = samples(world)
    assert [context.text for context in sample.contexts or ()] == ["Stated."]
    assert sample.answer == "one"


def test_the_time_of_a_stream_is_that_of_its_reading(world: World) -> None:
    """Latency lasts until the end of a stream in which no model is called."""
    stream = ask(iter(["one "]))
    begun = time.time()
    while time.time() < begun + 0.02:
        pass
    assert list(stream) == ["one "]
    (sample,) = samples(world)
    assert sample.latency is not None
    assert sample.latency >= 0.02


def test_what_is_kept_of_a_stream_is_bounded() -> None:
    """Memory for a stream is bounded, whatever its length or number of empty parts."""
    reading = StreamReading(3)
    for _ in range(100):
        reading.note("")
        reading.note("x")
    assert (reading.text, reading._parts) == ("xxx", ["x"] * 3)


def test_what_was_read_before_is_not_the_answer(world: World) -> None:
    """Of a stream of LlamaIndex's own that an engine has begun to read, the rest is the answer."""

    def begun() -> Any:
        stream = engine(streaming=True).query(QUESTION).response_gen
        next(stream)
        return stream

    stream = stream_of(begun)
    assert "".join(stream) == PLAIN[PIECE:]
    assert endings(world) == [(PLAIN[PIECE:], Status.OK, None)]


def shouting(world: World, question: str) -> Iterator[str]:
    """A bare generator that retrieves and calls its model when it is read."""
    for word in words(question):
        yield word.upper()


def test_a_bare_generator_has_no_answer(world: World) -> None:
    """A generator that a span gives out cannot be watched: what it yields is not known."""
    dispatcher = get_dispatcher("tests")

    @dispatcher.span
    def request(query: str) -> Iterator[str]:
        return shouting(world, query)

    streams = [request(question) for question in QUESTIONS]
    with world.evals.interaction("Another question?") as another:
        read = [list(each) for each in itertools.zip_longest(*streams)]
        another.answer("Another answer.")
    assert len(read) > 1
    found = {s.question: (s.answer, [c.text for c in s.contexts or ()]) for s in samples(world)}
    assert found == {
        **{question: (None, top(question)) for question in QUESTIONS},
        "Another question?": ("Another answer.", []),
    }


@pytest.mark.parametrize("stream", [words, lambda q: iter([q]), lambda q: [q]])
def test_an_unknown_answer_is_not_an_earlier_one(
    stream: Callable[[str], Any], plain_world: World
) -> None:
    """In an interaction by hand, what the last call gave out counts, though it is not known."""
    registration = enable(plain_world.evals, watch_streams=False)
    with plain_world.evals.interaction(QUESTION):
        engine().query(QUESTIONS[1])
        list(stream_of(lambda: stream(QUESTION)))
    registration.disable()
    assert endings(plain_world) == [(None, Status.OK, None)]


@pytest.mark.parametrize("own", [True, False])
def test_an_unread_answer_keeps_nothing_of_its_interaction(own: bool) -> None:
    """A response that is kept and never read holds none of what was captured, once given up."""
    world = World(INTERACTION_SECONDS=0.05)
    registration = enable(world.evals)
    made: Any = Own(make=lambda said, _: said) if own else engine(streaming=True)
    kept = made.query(QUESTION)
    (interaction,) = world.evals.recorder._open.values()
    gone = weakref.ref(interaction.root)
    del interaction
    while len(world.evals.recorder):
        world.evals.stats()
    assert [sample.status for sample in samples(world)] == [Status.ABANDONED]
    world.evals._samples.clear()
    world.memory.results.clear()
    gc.collect()
    assert gone() is None
    assert "".join(kept.response_gen) == PLAIN
    registration.disable()
    world.close()
