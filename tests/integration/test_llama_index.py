"""Laws of the capture of LlamaIndex that no single shape shows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import (
    ChatMessage,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import BaseModel, ConfigDict

from rag_eval_hooks import RagEval, Status
from rag_eval_hooks.sample import Sample
from rag_eval_hooks_llama_index import RagEvalHandler, enable
from tests.matrix.llama_index.kit import (
    PASSAGES,
    QUESTION,
    QUESTIONS,
    Bags,
    Scripted,
    answer_to,
    index,
    reader,
    top,
)
from tests.matrix.world import World

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Sync calls of LlamaIndex run async code in the thread's loop; one of its own stays open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()
    asyncio.set_event_loop(None)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    registration = enable(made.evals)
    yield made
    registration.disable()
    made.close()


@pytest.fixture
def plain_world() -> Iterator[World]:
    """Without the instrumentation."""
    made = World()
    yield made
    made.close()


def engine(**more: Any) -> Any:
    return index().as_query_engine(**{"llm": reader(), "similarity_top_k": 2, **more})


def samples(world: World) -> list[Sample]:
    return [seen.sample for seen in world.seen()]


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
    engine().query(QUESTION)
    assert not samples(plain_world)


def test_two_evaluators_see_the_same(world: World, plain_world: World) -> None:
    """Each evaluator that is enabled gets a sample of its own."""
    registration = enable(plain_world.evals)
    engine().query(QUESTION)
    registration.disable()
    assert [len(samples(each)) for each in (world, plain_world)] == [1, 1]


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
        engine().query(QUESTION)
    (sample,) = samples(world)
    assert (sample.session_id, sample.user_id, sample.question_id) == ("s-1", "u-1", "q-1")
    assert (sample.reference, sample.tags) == ("At 07:40.", ("beta",))
    assert sample.metadata["tenant"] == "acme"


def test_contexts_carry_id_score_and_metadata(world: World) -> None:
    """A context is the node's text with its id, the score, and scalar metadata."""
    engine().query(QUESTION)
    first = (samples(world)[0].contexts or ())[0]
    node = index().as_retriever(similarity_top_k=1).retrieve(QUESTION)[0]
    assert (first.text, first.id, first.score) == (node.text, node.node_id, node.score)
    assert first.metadata == {"page": 0}


class Imagined(Bags):
    """Embeds what a model imagines as the answer, or the query where it imagines nothing."""

    model_name: str = "imagined"
    fails: bool = False

    def _get_query_embedding(self, query: str) -> list[float]:
        if self.fails:
            raise ConnectionError("no embedding")
        imagined = Scripted(reply=lambda _: f"{query} At 07:40.", model="imagination")
        return super()._get_query_embedding(imagined.complete(query).text)


def imagining(**more: Any) -> Any:
    nodes = [TextNode(text=text, id_=f"p{n}") for n, text in enumerate(PASSAGES)]
    made = VectorStoreIndex(nodes, embed_model=Imagined(**more))
    return made.as_query_engine(llm=reader(), similarity_top_k=2)


def test_what_an_embedding_calls_belongs_to_its_request(world: World) -> None:
    """A model that is called within an embedding is a child of it, and no request of its own."""
    asked = imagining()
    asked.query(QUESTION)
    (seen,) = world.seen()
    assert seen.spans == (
        "chat scripted",
        "retrieval VectorIndexRetriever",
        "  embeddings imagined",
        "    chat imagination",
    )
    assert seen.sample.contexts is not None
    assert len(world.evals.recorder) == 0


def test_an_embedding_that_raises_ends_its_request(world: World) -> None:
    """What is raised in an inner part of an embedding is the failure of the request."""
    with world.evals.interaction(QUESTION), contextlib.suppress(ConnectionError):
        imagining(fails=True).query(QUESTION)
    (told,) = samples(world)
    assert told.question == QUESTION
    assert len(world.evals.recorder) == 0
    assert not world.evals.stats().incidents


def test_a_stream_never_read_is_abandoned() -> None:
    """A stream that is kept and not read holds its interaction until the time limit."""
    world = World(interaction_ttl=0.05)
    registration = enable(world.evals)
    kept = engine(streaming=True).query(QUESTION)
    assert len(world.evals.recorder) == 1
    while len(world.evals.recorder):
        world.evals.stats()
    registration.disable()
    assert [sample.status for sample in samples(world)] == [Status.ABANDONED]
    assert "".join(kept.response_gen) == answer_to(QUESTION, top())
    world.close()


def test_a_stream_is_scored_without_another_request(world: World) -> None:
    """What was streamed is offered when it was read, though nothing else is reported."""
    assert "".join(engine(streaming=True).query(QUESTION).response_gen)
    while not world.memory.results:
        pass
    assert world.memory.results[0].sample.answer == answer_to(QUESTION, top())


def test_the_stream_is_the_users_own(world: World) -> None:
    """Neither the response nor its generator is wrapped or replaced."""
    response = engine(streaming=True).query(QUESTION)
    generator = response.response_gen
    assert type(generator).__name__ == "generator"
    assert "rag_eval" not in str(generator.gi_code.co_filename)
    list(generator)


def test_callbacks_and_instrumentation_make_one_sample(world: World) -> None:
    """With both on, an interaction is one sample."""
    manager = CallbackManager([RagEvalHandler(world.evals)])
    made = engine()
    made.callback_manager = manager
    made.retriever.callback_manager = manager
    made._response_synthesizer.callback_manager = manager
    made.query(QUESTION)
    assert len(samples(world)) == 1


def by_callbacks(evals: RagEval, **more: Any) -> Any:
    """A query engine that reports to the older callback manager only."""
    made = engine(**more)
    manager = CallbackManager([RagEvalHandler(evals)])
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


def test_what_fails_in_our_handlers_is_counted(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """LlamaIndex swallows what handlers raise; we count it, and log it once without content."""

    def broken(*_: object) -> None:
        raise ValueError(QUESTION)

    monkeypatch.setattr(world.evals.recorder, "documents", broken)
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        engine().query(QUESTION)
    assert world.evals.stats().incidents["capture exit: ValueError"] >= 1
    assert QUESTION not in caplog.text


class Unwritable(BaseModel):
    """A structured answer that has no JSON."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    held: Any = None


class Unreadable(TextNode):
    """A node whose text cannot be read by us."""

    def get_content(self, *_: Any, **__: Any) -> str:
        raise ValueError(QUESTION)


@pytest.mark.parametrize("given", [Unwritable(held=object()), [NodeWithScore(node=Unreadable())]])
def test_what_cannot_be_read_does_not_stay_open(world: World, given: Any) -> None:
    """A result that raises when it is read is counted, and its interaction ends all the same."""
    dispatcher = get_dispatcher("tests")

    @dispatcher.span
    def request(query: str) -> Any:
        engine().query(query)
        return given

    request(QUESTION)
    assert len(world.evals.recorder) == 0
    (sample,) = samples(world)
    assert (sample.question, sample.answer, sample.status) == (QUESTION, None, Status.OK)
    (name,) = world.evals.stats().incidents
    assert name.startswith("capture exit: ")


def test_a_reply_that_cannot_be_read_ends_its_model_call(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts of a reply that raise leave the model's run ended, not a stream that was closed."""

    def broken(_: object) -> None:
        raise ValueError

    monkeypatch.setattr("rag_eval_hooks_llama_index.tracker.reply_facts", broken)
    assert "".join(engine(streaming=True).query(QUESTION).response_gen)
    (sample,) = samples(world)
    assert (sample.answer, sample.status) == (answer_to(QUESTION, top()), Status.OK)
    assert world.evals.stats().incidents["capture model_replied: ValueError"] >= 1


def test_callbacks_end_what_they_cannot_read(
    plain_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does the older callback manager's handler."""

    def broken(*_: object) -> None:
        raise ValueError

    made = by_callbacks(plain_world.evals)
    monkeypatch.setattr("rag_eval_hooks_llama_index.values.note_sources", broken)
    made.query(QUESTION)
    assert len(plain_world.evals.recorder) == 0
    assert [sample.status for sample in samples(plain_world)] == [Status.OK]
    assert plain_world.evals.stats().incidents["capture on_event_end: ValueError"] >= 1


def test_a_stream_read_before_it_is_returned(
    world: World, own_loop: asyncio.AbstractEventLoop
) -> None:
    """The answer is what was read of it, within the request that returns the response."""
    dispatcher = get_dispatcher("tests")

    @dispatcher.span
    def request(query: str) -> Any:
        response = engine(streaming=True).query(query)
        assert str(response)
        return response

    @dispatcher.span
    async def arequest(query: str) -> Any:
        response = await engine(streaming=True).aquery(query)
        assert await response._async_str()
        return response

    request(QUESTION)
    own_loop.run_until_complete(arequest(QUESTIONS[1]))
    found = {sample.question: (sample.answer, sample.status) for sample in samples(world)}
    assert found == {q: (answer_to(q, top(q)), Status.OK) for q in QUESTIONS}


class Completing(CustomLLM):
    """Completes only, word by word; LlamaIndex makes its chat of that."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="completing")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="At 07:40.")

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        def words() -> CompletionResponseGen:
            yield CompletionResponse(text="At ", delta="At ")
            yield CompletionResponse(text="At 07:40.", delta="07:40.")

        return words()


def test_a_streamed_chat_of_a_completion_model_is_one_call(world: World) -> None:
    """The completion inside a streamed chat is that chat: one span, and its text."""
    dispatcher = get_dispatcher("tests")

    @dispatcher.span
    async def request(query: str) -> str:
        await index().as_retriever(similarity_top_k=2).aretrieve(query)
        messages = [ChatMessage(role="user", content=query)]
        parts = [part async for part in await Completing().astream_chat(messages)]
        return str(parts[-1].message.content)

    assert asyncio.run(request(QUESTION)) == "At 07:40."
    (seen,) = world.seen()
    assert (seen.sample.answer, seen.sample.status) == ("At 07:40.", Status.OK)
    assert len([span for span in seen.spans if span.strip().startswith("chat")]) == 1


class FindsNothing(BaseRetriever):
    """Has no nodes."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return []


def finds_nothing() -> Any:
    """A streaming query engine over nothing."""
    return RetrieverQueryEngine.from_args(FindsNothing(), llm=reader(), streaming=True)


@pytest.mark.parametrize("way", ["read", "dropped", "closed"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_stream_of_an_empty_retrieval(
    way: str, asynchronous: bool, world: World, own_loop: asyncio.AbstractEventLoop
) -> None:
    """Read it is the fixed answer; dropped or closed unread it is closed as any stream is."""

    async def asked() -> None:
        response = await finds_nothing().aquery(QUESTION)
        if way == "read":
            assert [token async for token in response.async_response_gen()]
        elif way == "closed":
            await response.response_gen.aclose()

    if asynchronous:
        own_loop.run_until_complete(asked())
    else:
        response = finds_nothing().query(QUESTION)
        if way == "read":
            assert list(response.response_gen)
        elif way == "closed":
            response.response_gen.close()
        del response
    (sample,) = samples(world)
    due = ("Empty Response", Status.OK) if way == "read" else (None, Status.CLOSED)
    assert (sample.answer, sample.status) == due


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
        engine().query(QUESTION)
        assert "".join(engine(streaming=True).query(QUESTIONS[1]).response_gen)
        asyncio.run(_read(QUESTION))
    finally:
        instrumentor.uninstrument()
    found = [(s.question, s.answer, s.status) for s in samples(world)]
    due = [QUESTION, QUESTION, QUESTIONS[1]]
    assert found == [(q, answer_to(q, top(q)), Status.OK) for q in due]
    assert exporter.get_finished_spans()


async def _read(question: str) -> None:
    response = await engine(streaming=True).aquery(question)
    assert [token async for token in response.async_response_gen()]


async def _one(number: int, made: dict[str, Any]) -> str:
    """One of many requests; what becomes of it goes by its number."""
    question = f"Request {number}: at what time does the ferry to Skarn leave the quay?"
    kind = ("plain", "stream", "fails", "part", "dropped")[number % 5]
    with instrument_tags({"session_id": f"s-{number}"}):
        if kind == "fails":
            with contextlib.suppress(ConnectionError):
                await made["fails"].aquery(question)
        elif kind == "plain":
            await made["plain"].aquery(question)
        else:
            response = await made["stream"].aquery(question)
            await asyncio.sleep(0.001 * (number % 7))
            await _consume(response, kind)
    return kind


async def _consume(response: Any, kind: str) -> None:
    if kind == "stream":
        assert [token async for token in response.async_response_gen()]
    elif kind == "part":
        stream = response.async_response_gen()
        await anext(stream)
        await stream.aclose()
        await response.response_gen.aclose()


def test_many_at_once_do_not_mix(world: World) -> None:
    """Of 500 concurrent queries, with failures and dropped streams, none is mixed up or lost."""

    def numbered(messages: Any) -> str:
        prompt = "\n".join(message.content or "" for message in messages)
        number = prompt.rsplit("Request ", 1)[1].split(":")[0]
        return f"This is the answer to request {number}."

    def failing(messages: Any) -> str:
        raise ConnectionError

    made = {
        "plain": engine(llm=Scripted(reply=numbered, delay=0.001)),
        "stream": engine(llm=Scripted(reply=numbered, delay=0.001), streaming=True),
        "fails": engine(llm=Scripted(reply=failing, delay=0.001)),
    }

    async def all_at_once() -> list[str]:
        return list(await asyncio.gather(*(_one(number, made) for number in range(500))))

    kinds = asyncio.run(all_at_once())
    found = samples(world)
    assert len(found) == len(kinds) == 500
    due = {"plain": "ok", "stream": "ok", "fails": "error", "part": "closed", "dropped": "closed"}
    for sample in found:
        number = sample.question.split(":")[0].removeprefix("Request ")
        assert sample.session_id == f"s-{number}"
        assert sample.status == due[kinds[int(number)]]
        if sample.status is Status.OK:
            assert sample.answer == f"This is the answer to request {number}."
    assert not world.disorder({})
    stats = world.evals.stats()
    assert (stats.scored, stats.dropped) == (200, {"error": 100, "closed": 200})
