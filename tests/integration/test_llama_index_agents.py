"""Agents and workflows of LlamaIndex, in whatever version: answers, statuses, ids of calls."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core import agent as agents
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.query_engine import RouterQueryEngine
from llama_index.core.schema import Document
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool, ToolMetadata

from rag_eval_hooks.sample import Status
from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.agents import NO_TOOL_THREADS
from tests.matrix.llama_index.helpers import samples
from tests.matrix.llama_index.kit import ASYNC, CALL, Scripted, until_asked
from tests.matrix.llama_index.nested_engines import Everything
from tests.matrix.llama_index.variants import Corpus, says
from tests.matrix.world import World
from tests.support.size import size
from tests.support.variation import Variation, seeds
from tests.waiting import until

own_loop, world = fixtures.own_loop, fixtures.world
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]
RUNNERS = hasattr(agents, "AgentRunner")
RUNNER_WAYS = {
    "FunctionCallingAgent": ("chat", "achat"),
    "ReActAgent": ("chat", "achat", "stream_chat", "astream_chat"),
}


def picking(name: str, call_id: str, **arguments: Any) -> ChatMessage:
    """Return a reply that calls a tool, with an id of its own."""
    made = {"tool_id": call_id, "tool_name": name, "tool_kwargs": arguments}
    return ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [made]})


def tool_of(draw: Variation, corpus: Corpus, name: str) -> Any:
    """Return a tool of one of the kinds that retrieve."""

    def search(input: str) -> str:
        return "\n".join(n.get_content() for n in corpus.retriever.retrieve(input))

    metadata = ToolMetadata(name=name, description=draw.name())
    engine = corpus.engine(says(draw.sentence()))
    return draw.chance.choice(
        [
            FunctionTool.from_defaults(search, name=name, description=draw.name()),
            QueryEngineTool(query_engine=engine, metadata=metadata),
            RetrieverTool(retriever=corpus.retriever, metadata=metadata),
        ]
    )


def script(kind: str, name: str, query: str, answer: str) -> Scripted:
    """Return a model that calls a tool once and then answers, in the words of an agent."""

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        texts = [message.content or "" for message in messages]
        done = any(message.role == MessageRole.TOOL for message in messages)
        if kind == "FunctionCallingAgent":
            return answer if done else picking(name, "call-1", input=query)
        if not any(text.startswith("Observation:") for text in texts):
            return f'Thought: I need it.\nAction: {name}\nAction Input: {{"input": "{query}"}}'
        return f"Thought: I can answer now.\nAnswer: {answer}"

    return Scripted(reply=reply)


@pytest.mark.skipif(not RUNNERS, reason="this version has no AgentRunner any more")
@pytest.mark.parametrize("seed", seeds(size(2, 5)))
@pytest.mark.parametrize(("kind", "way"), [(k, w) for k, ways in RUNNER_WAYS.items() for w in ways])
def test_an_agent_runner_is_one_interaction(world: World, kind: str, way: str, seed: int) -> None:
    """Question, contexts and answer of an agent of old versions are what the user saw."""
    draw = Variation(seed)
    corpus, name, question, answer = Corpus(draw, 2), draw.name(), draw.question(), draw.sentence()
    model = script(kind, name, corpus.question, answer)
    agent = getattr(agents, kind).from_tools([tool_of(draw, corpus, name)], llm=model)
    shown = corpus.shown()
    if way in ASYNC:
        asyncio.get_event_loop().run_until_complete(CALL[way](agent, question))
    else:
        CALL[way](agent, question)
    # Old versions read a stream in a thread that may end after its reader.
    until(lambda: any(s.question == question for s in samples(world)))
    sample = next(s for s in samples(world) if s.question == question)
    assert [context.text for context in sample.contexts or ()] == shown
    assert sample.answer == answer
    assert sample.status is Status.OK


@pytest.mark.parametrize("seed", seeds(size(2, 5)))
async def test_spans_of_tools_have_the_ids_of_their_calls(world: World, seed: int) -> None:
    """Each tool's span has the id that the model gave to the call."""
    workflow_agents = pytest.importorskip("llama_index.core.agent.workflow")
    draw = Variation(seed)
    corpora = [Corpus(draw, 1) for _ in range(draw.chance.randint(1, 3))]
    calls = {draw.name(): draw.name() for _ in corpora}
    tools = [tool_of(draw, corpus, name) for corpus, name in zip(corpora, calls, strict=True)]
    replies = [
        picking(name, call_id, input=corpus.question)
        for corpus, (name, call_id) in zip(corpora, calls.items(), strict=True)
    ]
    answer = draw.sentence()

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        done = sum(message.role == MessageRole.TOOL for message in messages)
        return replies[done] if done < len(replies) else answer

    agent = workflow_agents.FunctionAgent(tools=tools, llm=Scripted(reply=reply))
    await agent.run(user_msg=draw.question())
    world.evals.flush()
    shown = {
        span.attributes["gen_ai.tool.name"]: span.attributes.get("gen_ai.tool.call.id")
        for span in world.exporter.get_finished_spans()
        if span.attributes and "gen_ai.tool.name" in span.attributes
    }
    assert shown == calls


def search_tool(draw: Variation, name: str, hits: object) -> FunctionTool:
    """Return a tool whose function, sync or async, is the application's or a package's.

    No event shows what it finds.
    """

    def look(subject: str) -> object:
        return hits

    async def look_later(subject: str) -> object:
        return hits

    package = draw.chance.choice(["llama_index.tools", draw.name()])
    look.__module__ = look_later.__module__ = f"{package}.{draw.name()}"
    if draw.chance.random() < 0.5:
        return FunctionTool.from_defaults(look, name=name, description="Searches.")
    return FunctionTool.from_defaults(async_fn=look_later, name=name, description="Searches.")


@pytest.mark.parametrize("seed", seeds(size(6, 30)))
async def test_a_tool_that_searches_without_events_is_read(world: World, seed: int) -> None:
    """The output of an agent's tool is context, whoever wrote its function, sync or async."""
    workflow_agents = pytest.importorskip("llama_index.core.agent.workflow")
    draw = Variation(seed)
    texts = draw.passages(draw.chance.randint(1, 4))
    name, question, answer = draw.name(), draw.question(), draw.short()
    rows = [{draw.name(): text, "url": f"https://{draw.name()}"} for text in texts]
    documents = [Document(text=text) for text in texts]
    hits = draw.chance.choice([rows, json.dumps(rows), documents])

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        done = any(message.role == MessageRole.TOOL for message in messages)
        return answer if done else picking(name, "call-1", subject=draw.name())

    tools = [search_tool(draw, name, hits)]
    agent = workflow_agents.FunctionAgent(tools=tools, llm=Scripted(reply=reply))
    await agent.run(user_msg=question)
    (sample,) = samples(world)
    assert [context.text for context in sample.contexts or ()] == texts
    assert (sample.question, sample.answer) == (question, answer)


@pytest.mark.parametrize("seed", seeds(5))
async def test_a_cancelled_agent_is_no_success(world: World, seed: int) -> None:
    """An agent that is cancelled after its tool retrieved has no answer and is not scored."""
    workflow_agents = pytest.importorskip("llama_index.core.agent.workflow")
    draw = Variation(seed)
    corpus, name, question = Corpus(draw, 2), draw.name(), draw.question()
    model = script("FunctionCallingAgent", name, corpus.question, draw.sentence())
    said = model.reply

    def reply(messages: Sequence[ChatMessage]) -> Any:
        model.delay = 600.0
        return said(messages)

    model.reply = reply
    agent = workflow_agents.FunctionAgent(
        tools=[tool_of(draw, corpus, name)], llm=model, streaming=False
    )
    handler = agent.run(user_msg=question)
    await until_asked(model, 2)
    if hasattr(handler, "cancel_run") and draw.chance.random() < 0.7:
        await handler.cancel_run()
    else:
        handler.cancel()
    # What a version raises is its own.
    with contextlib.suppress(Exception, asyncio.CancelledError):
        await handler
    await asyncio.sleep(0)
    (sample,) = samples(world)
    assert (sample.question, sample.answer, sample.status) == (question, None, Status.CANCELLED)


@pytest.mark.skipif(NO_TOOL_THREADS is not None, reason=str(NO_TOOL_THREADS))
@pytest.mark.parametrize("seed", seeds(size(2, 5)))
async def test_engines_that_a_running_loop_hands_to_a_thread_belong_to_the_question(
    world: World, seed: int
) -> None:
    """A thread in which LlamaIndex runs a sync call is a part of that call."""
    draw = Variation(seed)
    corpora = [Corpus(draw, 2) for _ in range(draw.chance.randint(2, 3))]
    tools = [
        QueryEngineTool(
            query_engine=corpus.engine(says(draw.sentence())),
            metadata=ToolMetadata(name=draw.name(), description=draw.name()),
        )
        for corpus in corpora
    ]
    answers, questions = [draw.sentence() for _ in range(2)], [draw.question() for _ in range(2)]
    due = sorted(text for corpus in corpora for text in corpus.shown())
    for question, answer in zip(questions, answers, strict=True):
        engine = RouterQueryEngine(
            selector=Everything(), query_engine_tools=tools, llm=says(answer)
        )
        await engine.aquery(question)
    seen = samples(world)
    assert sorted((s.question, s.answer) for s in seen) == sorted(
        zip(questions, answers, strict=True)
    )
    for sample in seen:
        assert sorted(context.text for context in sample.contexts or ()) == due
