"""Agents, workflows of the user's own, and calls by hand."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from typing import Any

from llama_index.core import __version__
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool

from rag_eval_hooks import Status
from tests.matrix.llama_index.flows import own_streaming, own_workflow
from tests.matrix.llama_index.kit import (
    ASKED,
    FERRIES,
    QUESTION,
    QUESTIONS,
    WORDS,
    Scripted,
    answer_to,
    case,
    index,
    pick,
    prompt_text,
    reader,
    shape,
    top,
    until_asked,
)
from tests.matrix.shape import Shape
from tests.matrix.world import World

__all__ = ["SHAPES"]

_LINKED = (0, 14, 22)
NO_TOOL_THREADS = (
    None
    if tuple(map(int, re.findall(r"\d+", __version__)[:3])) >= _LINKED
    else "before 0.14.22 nothing tells which call a thread belongs to"
)
GROUP = "agents, workflows"


def query_tool() -> QueryEngineTool:
    """A query engine as a tool."""
    engine = index().as_query_engine(llm=reader(), similarity_top_k=2)
    return QueryEngineTool.from_defaults(engine, name=FERRIES, description=WORDS("Knows ferries."))


def retriever_tool() -> RetrieverTool:
    """A retriever as a tool."""
    retriever = index().as_retriever(similarity_top_k=2)
    return RetrieverTool.from_defaults(retriever, name=FERRIES, description=WORDS("Finds."))


def asked_in(messages: Sequence[ChatMessage]) -> str:
    """The question that the user asked."""
    prompt = prompt_text(messages)
    return [question for question in QUESTIONS if question in prompt][-1]


def caller(**more: Any) -> Scripted:
    """Calls the tool once, then answers from what it gave."""

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        # Old versions leave what tools said in an earlier turn in the memory.
        last = max(n for n, message in enumerate(messages) if message.role == MessageRole.USER)
        if not any(message.role == MessageRole.TOOL for message in messages[last:]):
            return pick(FERRIES, input=asked_in(messages))
        return said(asked_in(messages))

    return Scripted(reply=reply, **more)


def thinker() -> Scripted:
    """The same in the words of ReAct."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        asked = asked_in(messages)
        if not any((m.content or "").startswith("Observation:") for m in messages):
            return f'Thought: I need it.\nAction: {FERRIES}\nAction Input: {{"input": "{asked}"}}'
        return f"Thought: I can answer now.\nAnswer: {said(asked)}"

    return Scripted(reply=reply)


def said(question: str) -> str:
    """Return the answer of both."""
    return answer_to(question, ["what the tool says"])


ENGINE_SPANS = (
    "chat scripted",
    "chat scripted",
    f"execute_tool {FERRIES}",
    "  chat scripted",
    "  retrieval VectorIndexRetriever",
    "    embeddings bags",
)
RETRIEVER_SPANS = (
    "chat scripted",
    "chat scripted",
    f"execute_tool {FERRIES}",
    "  retrieval VectorIndexRetriever",
    "    embeddings bags",
)


def found_by_tool(question: str) -> list[str]:
    """Return what `retriever_tool` finds: it puts its argument's name into the query."""
    return top(f"input is {question}")


def agent(kind: str, tool: Any) -> Any:
    """An agent with one tool."""
    if kind == "function":
        return FunctionAgent(tools=[tool], llm=caller())
    return ReActAgent(tools=[tool], llm=thinker())


async def streamed(world: World, way: str) -> None:
    """An agent whose events are read while it runs."""
    handler = agent("function", retriever_tool()).run(user_msg=QUESTION)
    assert [event async for event in handler.stream_events()]
    await handler


async def cancelled(world: World, way: str) -> None:
    """An agent that is cancelled after it has retrieved."""
    model = caller(delay=1.0)
    made = FunctionAgent(tools=[retriever_tool()], llm=model, streaming=False)
    handler = made.run(user_msg=QUESTION)
    await until_asked(model, 2)
    if hasattr(handler, "cancel_run"):
        await handler.cancel_run()
    with contextlib.suppress(Exception):
        await handler


async def own(world: World, way: str) -> None:
    """A workflow of the user's own, twice at once in one task."""
    await asyncio.gather(*(own_workflow().run(**{ASKED: question}) for question in QUESTIONS))


async def own_read(world: World, way: str) -> None:
    """The same that gives out a stream."""

    async def ask(question: str) -> None:
        response: Any = await own_streaming().run(**{ASKED: question})
        assert "".join([token async for token in response.async_response_gen()])

    await asyncio.gather(*map(ask, QUESTIONS))


async def started_at_once(world: World, way: str) -> None:
    """Workflows that were all started before the first was awaited."""
    for run in [own_workflow().run(**{ASKED: question}) for question in QUESTIONS]:
        await run


async def by_hand(world: World, way: str) -> None:
    """Retriever and LLM called by hand, which have no common parent."""

    def prompt(question: str, nodes: Sequence[Any]) -> str:
        texts = "\n".join(node.get_content() for node in nodes)
        return f"Use only:\n{texts}\nQuestion: {question}"

    async def ask(question: str) -> None:
        async with world.evals.interaction(question):
            nodes = await index().as_retriever(similarity_top_k=2).aretrieve(question)
            said = ChatMessage(role="user", content=prompt(question, nodes))
            await reader().achat([said])

    if way == "async":
        await asyncio.gather(*map(ask, QUESTIONS))
        return
    for question in QUESTIONS:
        with world.evals.interaction(question):
            nodes = index().as_retriever(similarity_top_k=2).retrieve(question)
            reader().complete(prompt(question, nodes))


async def retrieves_nothing(world: World, way: str) -> None:
    """An agent that calls a tool of another kind: no interaction."""
    tool = FunctionTool.from_defaults(lambda input: WORDS("No idea."), name=FERRIES)
    await agent("function", tool).run(user_msg=QUESTION)


def of_agent(kind: str, name: str) -> tuple[Shape, Shape]:
    """An agent with either kind of tool."""
    ways = ("run",)
    return (
        shape(
            GROUP,
            f"{name} with QueryEngineTool",
            lambda s: agent(kind, query_tool()),
            answer=said,
            spans=ENGINE_SPANS,
            ways=ways,
        ),
        shape(
            GROUP,
            f"{name} with RetrieverTool",
            lambda s: agent(kind, retriever_tool()),
            contexts=found_by_tool,
            answer=said,
            spans=RETRIEVER_SPANS,
            ways=ways,
        ),
    )


SHAPES = (
    *of_agent("function", "FunctionAgent"),
    *of_agent("react", "ReActAgent"),
    case(
        GROUP,
        "FunctionAgent, events streamed",
        streamed,
        contexts=found_by_tool,
        answer=said,
        spans=RETRIEVER_SPANS,
    ),
    case(
        GROUP,
        "FunctionAgent, cancelled",
        cancelled,
        contexts=found_by_tool,
        answer=lambda q: None,
        status=Status.CANCELLED,
        spans=None,
    ),
    case(GROUP, "workflow of the user's own", own, questions=QUESTIONS),
    case(GROUP, "workflow that gives out a stream", own_read, questions=QUESTIONS),
    case(GROUP, "workflows started at once", started_at_once, questions=QUESTIONS),
    case(
        GROUP,
        "by hand, inside an interaction",
        by_hand,
        ways=("sync", "async"),
        questions=QUESTIONS,
    ),
    case(GROUP, "agent that retrieves nothing", retrieves_nothing, questions=()),
)
