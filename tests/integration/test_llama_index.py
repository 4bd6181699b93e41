"""Laws of the capture of LlamaIndex that no single shape shows."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import RetrieverTool
from pydantic import BaseModel, ConfigDict

from rag_eval_hooks import Status
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index import chats, fixtures, kit
from tests.matrix.llama_index.agents import caller
from tests.matrix.llama_index.combined import retry, sub_questions
from tests.matrix.llama_index.flows import own_workflow
from tests.matrix.llama_index.helpers import engine, samples
from tests.matrix.world import World

own_loop, plain_world, world = fixtures.own_loop, fixtures.plain_world, fixtures.world
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]


def handlers() -> tuple[int, int]:
    root = get_dispatcher()
    return len(root.span_handlers), len(root.event_handlers)


def test_enable_is_idempotent_and_can_be_taken_back(plain_world: World) -> None:
    """Enabled twice there is one registration; disabled, everything is as it was."""
    before = handlers()
    registration = enable(plain_world.evals)
    assert enable(plain_world.evals) is registration
    assert handlers() == (before[0] + 1, before[1] + 1)
    registration.disable()
    registration.disable()
    assert handlers() == before
    engine().query(kit.QUESTION)
    assert not samples(plain_world)


def test_instrument_tags_are_metadata(world: World) -> None:
    """Session, user, question id, reference and free keys come from the instrument tags."""
    tags = {
        "session_id": "s-1",
        "user_id": "u-1",
        "question_id": "q-1",
        "reference": "At 07:40.",
        "tags": ["beta"],
        "tenant": "acme",
    }
    with instrument_tags(tags):
        engine().query(kit.QUESTION)
    (sample,) = samples(world)
    assert (sample.session_id, sample.user_id, sample.question_id) == ("s-1", "u-1", "q-1")
    assert (sample.reference, sample.tags) == ("At 07:40.", ("beta",))
    assert sample.metadata["tenant"] == "acme"


def test_contexts_carry_id_score_and_metadata(world: World) -> None:
    """A context is the node's text with its id, the score, and scalar metadata."""
    engine().query(kit.QUESTION)
    first = (samples(world)[0].contexts or ())[0]
    node = kit.index().as_retriever(similarity_top_k=2).retrieve(kit.QUESTION)[0]
    assert (first.text, first.id, first.score) == (node.text, node.node_id, node.score)
    assert first.metadata == {"page": kit.PASSAGES.index(first.text)}


def test_what_fails_in_our_handlers_is_counted(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """LlamaIndex swallows what handlers raise; we count it, and log it once without content."""

    def broken(*_: object, **__: object) -> None:
        raise ValueError(kit.QUESTION)

    monkeypatch.setattr(world.evals.recorder, "documents", broken)
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        engine().query(kit.QUESTION)
    assert world.evals.stats().incidents["capture exit: ValueError"] >= 1
    assert kit.QUESTION not in caplog.text


class Unwritable(BaseModel):
    """A structured answer that has no JSON."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    held: Any = None


class Unreadable(TextNode):
    """A node whose text cannot be read by us."""

    def get_content(self, *_: Any, **__: Any) -> str:
        raise ValueError(kit.QUESTION)


@pytest.mark.parametrize("given", [Unwritable(held=object()), [NodeWithScore(node=Unreadable())]])
def test_what_cannot_be_read_does_not_stay_open(world: World, given: Any) -> None:
    """A result that cannot be copied is counted, and its interaction ends all the same."""
    dispatcher = get_dispatcher("tests")

    @dispatcher.span
    def request(query: str) -> Any:
        engine().query(query)
        return given

    request(kit.QUESTION)
    assert len(world.evals.recorder) == 0
    (sample,) = samples(world)
    assert (sample.question, sample.answer, sample.status) == (kit.QUESTION, None, Status.OK)
    raises = isinstance(given, list)
    assert list(world.evals.stats().incidents) == ["capture exit: ValueError"] * raises


def test_openinference_beside_us(world: World) -> None:
    """With OpenInference's instrumentor on, capture is the same, and so is its own trace."""
    instrumentation = pytest.importorskip("openinference.instrumentation.llama_index")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = instrumentation.LlamaIndexInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        engine().query(kit.QUESTION)
        assert "".join(engine(streaming=True).query(kit.QUESTIONS[1]).response_gen)
        asyncio.run(_read(kit.QUESTION))
    finally:
        instrumentor.uninstrument()
    found = [(s.question, s.answer, s.status) for s in samples(world)]
    due = sorted([kit.QUESTION, kit.QUESTION, kit.QUESTIONS[1]])
    assert found == [(q, kit.answer_to(q, kit.top(q)), Status.OK) for q in due]
    assert exporter.get_finished_spans()


async def _read(question: str) -> None:
    response = await engine(streaming=True).aquery(question)
    assert [token async for token in response.async_response_gen()]


def chat(mode: str) -> Any:
    """A chat engine with a past, whose model condenses every question to the first one."""

    def reply(messages: Any) -> str:
        prompt = kit.prompt_text(messages)
        is_condensing = "standalone question" in prompt.lower()
        return kit.QUESTION if is_condensing else kit.answer_to(kit.QUESTION, kit.top())

    past = [ChatMessage(role="user", content="Hello."), ChatMessage(content="Hello.")]
    return kit.index().as_chat_engine(
        chat_mode=ChatMode(mode),
        llm=kit.Scripted(reply=reply),
        similarity_top_k=2,
        memory=ChatMemoryBuffer.from_defaults(chat_history=past, token_limit=3000),
    )


@pytest.mark.parametrize("mode", ["condense_question", "condense_plus_context"])
def test_a_condensed_question_is_metadata(mode: str, world: World) -> None:
    """The question is what the user said; what a model made of it stands beside it."""
    chat(mode).chat("And when does it leave?")
    (sample,) = samples(world)
    assert sample.question == "And when does it leave?"
    assert sample.metadata["condensed_question"] == kit.QUESTION
    assert "retrieval_queries" not in sample.metadata


def asked_by_agent() -> None:
    asyncio.run(run_agent())


async def run_agent() -> None:
    agents = pytest.importorskip("llama_index.core.agent.workflow")
    tool = RetrieverTool.from_defaults(
        kit.index().as_retriever(similarity_top_k=2),
        name=kit.FERRIES,
        description="Finds passages.",
    )
    await agents.FunctionAgent(tools=[tool], llm=caller()).run(user_msg=kit.QUESTION)


def asked_in_sub_questions() -> None:
    sub_questions(failing=False).query("When, and at what price?")


def asked_again() -> None:
    retry(passes=False).query(kit.QUESTION)


@pytest.mark.parametrize("ask", [asked_by_agent, asked_in_sub_questions, asked_again])
def test_other_queries_are_no_condensed_question(ask: Any, world: World) -> None:
    """Queries of tools, sub-questions and further tries are no condensed question."""
    ask()
    (sample,) = samples(world)
    assert "condensed_question" not in sample.metadata
    assert sample.metadata["retrieval_queries"]


def test_an_interaction_beside_a_running_workflow_is_its_own(
    world: World, own_loop: asyncio.AbstractEventLoop
) -> None:
    """An interaction opened while a workflow runs that was only started is no part of it."""

    async def side_by_side() -> None:
        running: Any = own_workflow().run(**{kit.ASKED: kit.QUESTION})
        with world.evals.interaction(kit.QUESTIONS[1]):
            await engine().aquery(kit.QUESTIONS[1])
        await running

    own_loop.run_until_complete(side_by_side())
    found = {s.question: (s.answer, [c.text for c in s.contexts or ()]) for s in samples(world)}
    assert found == {q: (kit.answer_to(q, kit.top(q)), kit.top(q)) for q in kit.QUESTIONS}


def test_chat_without_retrieval_is_no_interaction(world: World) -> None:
    """A `SimpleChatEngine` answers without retrieved text."""
    engine = SimpleChatEngine.from_defaults(llm=kit.Scripted(reply=lambda _: "Hello."))
    engine.chat(kit.QUESTION)
    assert "".join(engine.stream_chat(kit.QUESTION).response_gen)
    assert not samples(world)


def test_each_turn_of_a_chat_has_its_own(world: World) -> None:
    """In a chat of several turns each has its own question, contexts and answer."""
    made = chats.engine("context")
    for question in kit.QUESTIONS:
        made.chat(question)
    found = {s.question: ([c.text for c in s.contexts or ()], s.answer) for s in samples(world)}
    assert found == {q: (kit.top(q), kit.answer_to(q, kit.top(q))) for q in kit.QUESTIONS}
