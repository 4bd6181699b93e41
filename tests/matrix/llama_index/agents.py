"""Agents, workflows of the user's own, and calls by hand."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from llama_index.core import __version__
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool

from tests.matrix.llama_index import kit
from tests.matrix.llama_index.flows import own_streaming, own_workflow
from tests.matrix.shape import Shape
from tests.matrix.world import World

_LINKED = (0, 14, 22)
NO_TOOL_THREADS = (
    None
    if tuple(map(int, re.findall(r"\d+", __version__)[:3])) >= _LINKED
    else "before 0.14.22 nothing tells which call a thread belongs to"
)
GROUP = "agents, workflows"


def query_tool() -> QueryEngineTool:
    engine = kit.index().as_query_engine(llm=kit.reader(), similarity_top_k=2)
    return QueryEngineTool.from_defaults(
        engine, name=kit.FERRIES, description=kit.WORDS("Knows ferries.")
    )


def retriever_tool() -> RetrieverTool:
    retriever = kit.index().as_retriever(similarity_top_k=2)
    return RetrieverTool.from_defaults(retriever, name=kit.FERRIES, description=kit.WORDS("Finds."))


def asked_in(messages: Sequence[ChatMessage]) -> str:
    prompt = kit.prompt_text(messages)
    return [question for question in kit.QUESTIONS if question in prompt][-1]


def caller(**more: Any) -> kit.Scripted:
    """Calls the tool once, then answers from what it gave."""

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        # Old versions leave what tools said in an earlier turn in the memory.
        last = max(n for n, message in enumerate(messages) if message.role == MessageRole.USER)
        if not any(message.role == MessageRole.TOOL for message in messages[last:]):
            return kit.pick(kit.FERRIES, input=asked_in(messages))
        return said(asked_in(messages))

    return kit.Scripted(reply=reply, **more)


def thinker() -> kit.Scripted:

    def reply(messages: Sequence[ChatMessage]) -> str:
        asked = asked_in(messages)
        if not any((m.content or "").startswith("Observation:") for m in messages):
            return (
                f'Thought: I need it.\nAction: {kit.FERRIES}\nAction Input: {{"input": "{asked}"}}'
            )
        return f"Thought: I can answer now.\nAnswer: {said(asked)}"

    return kit.Scripted(reply=reply)


def said(question: str) -> str:
    return kit.answer_to(question, ["what the tool says"])


ENGINE_SPANS = (
    "chat scripted",
    "chat scripted",
    f"execute_tool {kit.FERRIES}",
    "  chat scripted",
    "  retrieval VectorIndexRetriever",
    "    embeddings bags",
)
RETRIEVER_SPANS = (
    "chat scripted",
    "chat scripted",
    f"execute_tool {kit.FERRIES}",
    "  retrieval VectorIndexRetriever",
    "    embeddings bags",
)


def found_by_tool(question: str) -> list[str]:
    """Return what `retriever_tool` finds: it puts its argument's name into the query."""
    return kit.top(f"input is {question}")


def agent(kind: str, tool: Any) -> Any:
    if kind == "function":
        return FunctionAgent(tools=[tool], llm=caller())
    return ReActAgent(tools=[tool], llm=thinker())


async def streamed(world: World, way: str) -> None:
    handler = agent("function", retriever_tool()).run(user_msg=kit.QUESTION)
    assert [event async for event in handler.stream_events()]
    await handler


async def own_read(world: World, way: str) -> None:

    async def ask(question: str) -> None:
        response: Any = await own_streaming().run(**{kit.ASKED: question})
        assert "".join([token async for token in response.async_response_gen()])

    await asyncio.gather(*map(ask, kit.QUESTIONS))


async def started_at_once(world: World, way: str) -> None:
    """Workflows that were all started before the first was awaited."""
    for run in [own_workflow().run(**{kit.ASKED: question}) for question in kit.QUESTIONS]:
        await run


async def by_hand(world: World, way: str) -> None:
    """Retriever and LLM called by hand, which have no common parent."""

    def prompt(question: str, nodes: Sequence[Any]) -> str:
        texts = "\n".join(node.get_content() for node in nodes)
        return f"Use only:\n{texts}\nQuestion: {question}"

    async def ask(question: str) -> None:
        async with world.evals.interaction(question):
            nodes = await kit.index().as_retriever(similarity_top_k=2).aretrieve(question)
            said = ChatMessage(role="user", content=prompt(question, nodes))
            await kit.reader().achat([said])

    if way == "async":
        await asyncio.gather(*map(ask, kit.QUESTIONS))
        return
    for question in kit.QUESTIONS:
        with world.evals.interaction(question):
            nodes = kit.index().as_retriever(similarity_top_k=2).retrieve(question)
            kit.reader().complete(prompt(question, nodes))


async def retrieves_nothing(world: World, way: str) -> None:
    """An agent that calls a tool of another kind: no interaction."""
    tool = FunctionTool.from_defaults(lambda input: kit.WORDS("No idea."), name=kit.FERRIES)
    await agent("function", tool).run(user_msg=kit.QUESTION)


def of_agent(kind: str, name: str) -> tuple[Shape, Shape]:
    ways = ("run",)
    return (
        kit.shape(
            GROUP,
            f"{name} with QueryEngineTool",
            lambda s: agent(kind, query_tool()),
            answer=said,
            spans=ENGINE_SPANS,
            ways=ways,
        ),
        kit.shape(
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
    kit.case(
        GROUP,
        "FunctionAgent, events streamed",
        streamed,
        contexts=found_by_tool,
        answer=said,
        spans=RETRIEVER_SPANS,
    ),
    kit.case(GROUP, "workflow that gives out a stream", own_read, questions=kit.QUESTIONS),
    kit.case(GROUP, "workflows started at once", started_at_once, questions=kit.QUESTIONS),
    kit.case(
        GROUP,
        "by hand, inside an interaction",
        by_hand,
        ways=("sync", "async"),
        questions=kit.QUESTIONS,
    ),
    kit.case(GROUP, "agent that retrieves nothing", retrieves_nothing, questions=()),
)
