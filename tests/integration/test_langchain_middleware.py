"""`RagEvalMiddleware` among the middleware of real agents."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import create_retriever_tool, tool

import rag_eval_hooks_langchain
from rag_eval_hooks_langchain import disable, enable
from tests.matrix.langchain.agents import asks, pick, said, searching
from tests.matrix.langchain.kit import QUESTION, SEARCH, Chat, base, top
from tests.matrix.world import World
from tests.support.langchain_requests import config, only, texts
from tests.support.variation import Variation, run_seed
from tests.waiting import until

agents = pytest.importorskip("langchain.agents")
middleware = pytest.importorskip("langchain.agents.middleware")
InMemorySaver = pytest.importorskip("langgraph.checkpoint.memory").InMemorySaver


SEARCHING = create_retriever_tool(base(), SEARCH, "Searches.")


def agent(world: World, says: Any = None, tools: Any = (SEARCHING,), **how: Any) -> Any:
    ours = rag_eval_hooks_langchain.RagEvalMiddleware(world.evals)
    model = searching() if says is None else Chat(reply=says)
    return agents.create_agent(model, list(tools), middleware=[ours], **how)


async def read(stream: Any) -> list[Any]:
    return [part async for part in stream]


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "invoke": lambda made, told: made.invoke(asks(QUESTION), told),
    "stream": lambda made, told: list(made.stream(asks(QUESTION), told, stream_mode="messages")),
    "ainvoke": lambda made, told: asyncio.run(made.ainvoke(asks(QUESTION), told)),
    "astream_events": lambda made, told: asyncio.run(
        read(made.astream_events(asks(QUESTION), told, version="v2"))
    ),
}


@pytest.mark.parametrize(
    ("way", "sees"),
    [("invoke", "callback"), ("stream", ""), ("ainvoke", "enabled"), ("astream_events", "")],
)
def test_an_agent_is_captured_once_by_every_way(way: str, sees: str, world: World) -> None:
    told: Any = {**(config(world) if sees == "callback" else {}), "metadata": {"session_id": "s"}}
    if sees == "enabled":
        enable(world.evals)
    try:
        WAYS[way](agent(world, name="ferry"), told)
    finally:
        disable()
    sample = only(world)
    assert (sample.question, sample.answer, sample.session_id) == (QUESTION, said(QUESTION), "s")
    assert texts(sample) == top()
    assert world.disorder({}) == ""
    names = sorted(span.name for span in world.exporter.get_finished_spans())
    found = [f"execute_tool {SEARCH}", "invoke_agent ferry", "retrieval InMemoryVectorStore"]
    assert names == ["chat scripted", "chat scripted", *found]


def test_each_turn_of_a_conversation_is_a_request(world: World) -> None:
    drawn = Variation(run_seed())
    questions = [drawn.question() for _ in range(3)]
    made = agent(world, checkpointer=InMemorySaver())
    for thread, how in (("one", {}), ("two", config(world))):
        for question in questions:
            made.invoke(asks(question), {**how, "configurable": {"thread_id": thread}})
    seen = [one.sample for one in world.seen()]
    assert [one.question for one in seen] == sorted(questions * 2)
    for one, other in zip(seen[::2], seen[1::2], strict=True):
        assert {one.session_id, other.session_id} == {"one", "two"}
        assert (texts(one), one.answer) == (texts(other), other.answer)


def test_a_reader_who_leaves_a_stream_cancels_the_request(world: World) -> None:
    stream = agent(world).stream(asks(QUESTION), stream_mode="updates")
    for _ in range(3):
        next(stream)
    stream.close()
    del stream
    gc.collect()
    until(lambda: not len(world.evals.recorder))
    world.evals.flush(300)
    stats = world.evals.stats()
    assert (stats.dropped, stats.incidents) == ({"cancelled": 1}, {})


def test_an_agent_in_a_tool_of_an_agent_is_part_of_it(world: World) -> None:
    inner = agent(world)

    @tool
    def expert(query: str) -> str:
        """Ask the expert who searches."""
        return str(inner.invoke(asks(query))["messages"][-1].content)

    def outer(messages: list[BaseMessage]) -> AIMessage:
        last = messages[-1]
        return pick(("expert", QUESTION)) if last.type == "human" else AIMessage(last.text)

    agent(world, says=outer, tools=[expert]).invoke(asks(QUESTION))
    assert (only(world).question, only(world).answer) == (QUESTION, said(QUESTION))
