"""LlamaIndex's older callback manager, alone and beside the instrumentation."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from llama_index.core import Document, DocumentSummaryIndex, Settings
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ChatResponseGen
from llama_index.core.base.response.schema import StreamingResponse
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import QueryEngineTool

from rag_eval_hooks import RagEval, Status
from rag_eval_hooks_llama_index import RagEvalHandler
from tests.matrix.llama_index.agents import caller, said
from tests.matrix.llama_index.flows import own_workflow
from tests.matrix.llama_index.helpers import engine, samples
from tests.matrix.llama_index.kit import (
    ASKED,
    FERRIES,
    QUERY_SPANS,
    QUESTION,
    QUESTIONS,
    Bags,
    Scripted,
    answer_to,
    index,
    reader,
    top,
)
from tests.matrix.llama_index.variants import Corpus, answered, says
from tests.matrix.world import World
from tests.support.variation import Variation, seeds

pytest_plugins = ["tests.matrix.llama_index.fixtures"]
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]


def by_callbacks(evals: RagEval, *, handler: RagEvalHandler | None = None, **more: Any) -> Any:
    """A query engine that reports to the older callback manager only."""
    made = engine(**more)
    manager = CallbackManager([handler or RagEvalHandler(evals)])
    made.callback_manager = manager
    made.retriever.callback_manager = manager
    made._response_synthesizer.callback_manager = manager
    return made


@pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize", "simple_summarize"])
def test_callbacks_alone_capture_a_query(
    mode: str, plain_world: World, own_loop: asyncio.AbstractEventLoop
) -> None:
    """The older callback manager alone tells a query engine's interaction."""
    made = by_callbacks(plain_world.evals, response_mode=mode)
    made.query(QUESTION)
    own_loop.run_until_complete(made.aquery(QUESTIONS[1]))
    found = {
        s.question: ([c.text for c in s.contexts or ()], s.status) for s in samples(plain_world)
    }
    assert found == {question: (top(question), Status.OK) for question in QUESTIONS}
    assert not plain_world.disorder({})


def test_callbacks_alone_capture_a_stream(plain_world: World) -> None:
    """So they do a stream that is read later."""
    response = by_callbacks(plain_world.evals, streaming=True).query(QUESTION)
    assert len(plain_world.evals.recorder) == 1
    assert "".join(response.response_gen)
    (sample,) = samples(plain_world)
    assert (sample.answer, sample.status) == (answer_to(QUESTION, top()), Status.OK)


def test_callbacks_alone_tell_failures(plain_world: World) -> None:
    """An exception passes through them and is the interaction's status."""

    def dead(_: object) -> str:
        raise ConnectionError

    made = by_callbacks(plain_world.evals, llm=Scripted(reply=dead))
    with pytest.raises(ConnectionError):
        made.query(QUESTION)
    (sample,) = samples(plain_world)
    assert (sample.status, sample.error_type) == (Status.ERROR, "ConnectionError")
    assert not plain_world.disorder({})


def test_callbacks_end_what_they_cannot_read(
    plain_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does the older callback manager's handler."""

    def broken(*_: object) -> None:
        raise ValueError

    made = by_callbacks(plain_world.evals)
    monkeypatch.setattr("rag_eval_hooks_llama_index.handler.note_sources", broken)
    made.query(QUESTION)
    assert len(plain_world.evals.recorder) == 0
    assert [sample.status for sample in samples(plain_world)] == [Status.OK]
    assert plain_world.evals.stats().incidents["capture on_event_end: ValueError"] >= 1


@pytest.mark.parametrize("streaming", [False, True])
def test_callbacks_keep_nothing_of_an_exception(streaming: bool, plain_world: World) -> None:
    """An exception, also one of a stream's reading, is forgotten, and its frames are never held."""

    class Held:
        """Stands for what a frame holds."""

    gone = []

    class Dead(Scripted):
        def _message(self, messages: Sequence[ChatMessage]) -> ChatMessage:
            return ChatMessage(content=self._fail())

        def _pieces(self, message: ChatMessage) -> ChatResponseGen:
            self._fail()
            yield ChatResponse(message=message)

        def _fail(self) -> str:
            held = Held()
            gone.append(weakref.ref(held))
            raise ConnectionError

    class Breaking(Dead):
        def _message(self, messages: Sequence[ChatMessage]) -> ChatMessage:
            return ChatMessage(content="A word or two.")

    handler = RagEvalHandler(plain_world.evals)
    llm = (Breaking if streaming else Dead)(reply=lambda _: "")
    made = by_callbacks(plain_world.evals, handler=handler, llm=llm, streaming=streaming)
    llm.callback_manager = made.callback_manager
    for _ in range(3):
        with contextlib.suppress(ConnectionError):
            str(made.query(QUESTION))
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3
    assert not handler._errors
    assert [s.error_type for s in samples(plain_world)] == ["ConnectionError"] * 3
    assert not len(handler._answers.streams)


def query(made: Any) -> None:
    made.query(QUESTION)


def read(made: Any) -> None:
    assert "".join(made.query(QUESTION).response_gen)


def chat(made: Any) -> None:
    llm = reader(callback_manager=made.callback_manager)
    chatting = index().as_chat_engine(chat_mode=ChatMode.CONTEXT, llm=llm, similarity_top_k=2)
    assert "".join(chatting.stream_chat(QUESTION).response_gen)


async def aquery(made: Any) -> None:
    await made.aquery(QUESTION)


async def aread(made: Any) -> None:
    response = await made.aquery(QUESTION)
    assert [token async for token in response.async_response_gen()]


async def workflow(made: Any) -> None:
    await own_workflow().run(**{ASKED: QUESTION})


@pytest.mark.parametrize(
    ("call", "streaming"),
    [
        (query, False),
        (aquery, False),
        (read, True),
        (aread, True),
        (chat, False),
        (workflow, False),
    ],
)
def test_both_together_make_one_sample(
    call: Any, streaming: bool, world: World, own_loop: asyncio.AbstractEventLoop
) -> None:
    """With the handler in every place and the instrumentation on, an interaction is one sample."""
    manager = CallbackManager([RagEvalHandler(world.evals)])
    before, Settings.callback_manager = Settings.callback_manager, manager
    try:
        llm = reader(callback_manager=manager)
        made = by_callbacks(world.evals, llm=llm, streaming=streaming)
        done = call(made)
        if done is not None:
            own_loop.run_until_complete(done)
    finally:
        Settings.callback_manager = before
    (seen,) = world.seen()
    assert (seen.sample.answer, seen.sample.status) == (answer_to(QUESTION, top()), Status.OK)
    assert seen.spans == QUERY_SPANS
    assert not world.disorder({})


def test_an_agent_with_both_is_one_sample(
    world: World, own_loop: asyncio.AbstractEventLoop
) -> None:
    """So is an agent whose tool is a query engine with the handler."""
    agents = pytest.importorskip("llama_index.core.agent.workflow")
    tool = QueryEngineTool.from_defaults(
        by_callbacks(world.evals), name=FERRIES, description="Knows ferries."
    )
    agent = agents.FunctionAgent(tools=[tool], llm=caller())

    async def run() -> None:
        await agent.run(user_msg=QUESTION)

    own_loop.run_until_complete(run())
    (sample,) = samples(world)
    assert (sample.question, sample.answer) == (QUESTION, said(QUESTION))


def test_callbacks_alone_tell_the_answer_of_a_stream_of_its_own(plain_world: World) -> None:
    """The answer of a stream that an engine changes is what was read of it."""

    class Shouting(RetrieverQueryEngine):
        def _query(self, query_bundle: QueryBundle) -> Any:
            with self.callback_manager.event(
                CBEventType.QUERY, payload={EventPayload.QUERY_STR: query_bundle.query_str}
            ) as event:
                nodes = self.retrieve(query_bundle)
                answer: Any = self._response_synthesizer.synthesize(query_bundle, nodes)
                words = (word.upper() for word in answer.response_gen)
                response = StreamingResponse(words, nodes)
                event.on_end(payload={EventPayload.RESPONSE: response})
            return response

    plain = by_callbacks(plain_world.evals, streaming=True)
    made: Any = Shouting(plain.retriever, plain._response_synthesizer)
    made.callback_manager = plain.callback_manager
    assert "".join(made.query(QUESTION).response_gen)
    (sample,) = samples(plain_world)
    assert (sample.answer, sample.status) == (answer_to(QUESTION, top()).upper(), Status.OK)


@pytest.fixture(params=seeds(5))
def drawn(request: pytest.FixtureRequest, plain_world: World) -> Iterator[tuple[Variation, Corpus]]:
    """Draws of a seed, and a corpus whose engines report to the callback manager only."""
    draw = Variation(request.param)
    before = Settings.callback_manager
    Settings.callback_manager = CallbackManager([RagEvalHandler(plain_world.evals)])
    yield draw, Corpus(draw, draw.chance.randint(2, 4))
    Settings.callback_manager = before


def test_callbacks_alone_read_tags(drawn: tuple[Variation, Corpus], plain_world: World) -> None:
    """Session, user and tags of the application's own stand on the sample."""
    draw, corpus = drawn
    tags = {"session_id": draw.name(), "user_id": draw.short(), draw.name(): draw.word()}
    engine = corpus.engine(says(answered(draw)))
    with instrument_tags(tags):
        engine.query(corpus.question)
    sample = samples(plain_world)[-1]
    told = {"session_id": sample.session_id, "user_id": sample.user_id, **sample.metadata}
    assert told.items() >= tags.items()


def test_callbacks_alone_know_that_none_was_let_pass(
    drawn: tuple[Variation, Corpus], plain_world: World
) -> None:
    """Where a postprocessor drops every node, the answer has no contexts."""
    draw, corpus = drawn
    none_passes = SimilarityPostprocessor(similarity_cutoff=2.0)
    engine = corpus.engine(says(answered(draw)), node_postprocessors=[none_passes])
    answer = str(engine.query(corpus.question))
    (sample,) = samples(plain_world)
    assert (sample.question, sample.contexts, sample.answer) == (corpus.question, (), answer)


def test_callbacks_alone_take_building_for_no_question(
    drawn: tuple[Variation, Corpus], plain_world: World
) -> None:
    """An index that summarises its documents asks a model, and is no interaction."""
    draw, corpus = drawn
    own: dict[str, Any] = {} if draw.chance.random() < 0.5 else {"summary_query": draw.question()}
    DocumentSummaryIndex.from_documents(
        [Document(text=node.text) for node in corpus.nodes],
        llm=says(answered(draw)),
        embed_model=Bags(),
        transformations=[SentenceSplitter(tokenizer=str.split)],
        **own,
    )
    assert not samples(plain_world)
