"""Laws of the capture of LlamaIndex that no single shape shows."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from types import AsyncGeneratorType, GeneratorType
from typing import Any
from unittest.mock import Mock

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.tools import AsyncBaseTool, ToolMetadata, ToolOutput

from rag_eval_hooks import Status
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.agents import asked, called, name_of
from tests.matrix.llama_index.chats import chat_over
from tests.matrix.llama_index.engines import corpora_with_tools
from tests.matrix.llama_index.fixtures import only, opened, samples, texts
from tests.matrix.llama_index.kit import Corpus, Draw, in_turn, pick, says
from tests.matrix.llama_index.own_streams import Own
from tests.matrix.llama_index.retrieval import masked_passages
from tests.matrix.llama_index.trouble import messages_of
from tests.matrix.world import World

plain_world, world, draw = fixtures.plain_world, fixtures.world, fixtures.draw
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_instrument_tags_become_metadata(draw: Draw) -> None:
    tags = {"session_id": "s-1", "user_id": "u-1", "question_id": "q-1", "reference": "At 07:40."}
    odd: Any = {"tags": ["beta"], "tenant": "acme", 1: "x", None: 2, ("a", 1): object()}
    corpus = Corpus(draw)
    with instrument_tags({**tags, **odd}):
        corpus.engine(says(draw.answer())).query(corpus.question)
    sample = only(draw.world)
    assert {name: getattr(sample, name) for name in tags} == tags
    assert (sample.tags, sample.metadata["tenant"]) == (("beta",), "acme")
    assert draw.world.evals.stats().incidents == {}


def test_context_has_id_score_and_metadata_of_its_node(draw: Draw) -> None:
    corpus = Corpus(draw, metadata=True)
    corpus.engine(says(draw.answer())).query(corpus.question)
    nodes = corpus.retriever.retrieve(corpus.question)
    found = [(one.id, one.score, one.metadata) for one in only(draw.world).contexts or ()]
    assert found == [(one.node_id, one.score, one.node.metadata) for one in nodes]


def test_masked_text_is_in_no_field_of_the_sample_and_on_no_span(world: World) -> None:
    for seed in range(8):
        asked, secret = masked_passages(Draw(seed, "query", world))
        asked.run()
        assert world.seen()
        spans = [dict(span.attributes or {}) for span in world.exporter.get_finished_spans()]
        shown = [[sample.to_dict() for sample in samples(world)], spans]
        assert secret not in json.dumps(shown, ensure_ascii=False), seed


# Failures of ours.


def test_failure_in_our_handler_is_counted_and_logged_without_content(
    draw: Draw, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    corpus, evals = Corpus(draw), draw.world.evals
    broken = Mock(side_effect=ValueError(corpus.question))
    monkeypatch.setattr(evals.recorder, "documents", broken)
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        corpus.engine(says(draw.answer())).query(corpus.question)
    assert evals.stats().incidents["capture exit: ValueError"] >= 1
    assert corpus.question not in caplog.text


# Questions, tools and blocks.


def test_condensed_question_is_metadata(draw: Draw) -> None:
    corpus, asked = Corpus(draw), draw.question()
    chat_over(corpus, "condense_plus_context", draw.sentence()).chat(asked)
    sample = only(draw.world)
    assert (sample.question, sample.metadata["retrieval_queries"]) == (asked, [corpus.question])


def test_tools_of_an_agent_have_ids_of_calls_and_queries_that_are_no_question(draw: Draw) -> None:
    corpora, tools, _ = corpora_with_tools(draw, 3)
    calls = [called(tool, corpus) for tool, corpus in zip(tools, corpora, strict=True)]
    agent = FunctionAgent(tools=tools, llm=in_turn(draw.sentence(), *calls))

    async def run() -> None:
        await agent.run(user_msg=draw.question())

    asyncio.run(run())
    assert only(draw.world).metadata["retrieval_queries"]
    spans = [dict(span.attributes or {}) for span in draw.world.exporter.get_finished_spans()]
    shown = [one for one in spans if "gen_ai.tool.name" in one]
    ids = {name_of(tool): f"call-{name_of(tool)}" for tool in tools}
    assert {one["gen_ai.tool.name"]: one.get("gen_ai.tool.call.id") for one in shown} == ids


def test_tool_that_acts_is_no_lookup_even_inside_its_async_call(draw: Draw) -> None:
    class Send(AsyncBaseTool):
        metadata = ToolMetadata(name="send_email", description="Send an email.")

        def call(self, input: Any) -> ToolOutput:
            return ToolOutput(content=input, tool_name="", raw_input={}, raw_output=None)

        async def acall(self, input: Any) -> ToolOutput:
            return self.call(draw.sentence())

    model = in_turn(draw.sentence(), pick("send_email", input="x"))
    asyncio.run(asked(FunctionAgent(tools=[Send()], llm=model), draw.question())())
    assert draw.world.seen() == []


def test_paused_block_captures_nothing_that_starts_in_it(draw: Draw) -> None:
    registration, corpus = enable(draw.world.evals), Corpus(draw)
    engine = corpus.engine(says(draw.answer()))

    async def paused() -> None:
        with registration.paused():
            await asyncio.gather(*(engine.aquery(corpus.question) for _ in range(4)))

    async def both() -> None:
        await asyncio.gather(paused(), engine.aquery(corpus.question))

    asyncio.run(both())
    engine.query(corpus.question)
    assert len(samples(draw.world)) == 2


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


# Streams of a user's own query engine: the answer is the text that the application read, or absent.


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
