"""Agents in conversations: earlier turns, and a reader who leaves."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from rag_eval_hooks import Status
from tests.matrix.langchain import kit
from tests.matrix.langchain.agents import (
    AGENT,
    GROUP,
    OTHER,
    TOOL_SPANS,
    artifact,
    asks,
    count,
    nothing,
    pick,
    search,
    searching,
    stepping,
)
from tests.matrix.langchain.compat import AGENTS_MISSING, agent
from tests.matrix.langchain.graphs import call_graph
from tests.matrix.shape import Expected
from tests.matrix.world import World

TURNS = [
    Expected(question=q, contexts=kit.top(q), answer=kit.answer_to(q, kit.top(q)), spans=TOOL_SPANS)
    for q in kit.QUESTIONS
]
WAYS = ("invoke", "stream", "ainvoke")


@kit.scene(GROUP, "several turns with a checkpointer", TURNS, WAYS, AGENTS_MISSING)
def turns(world: World, way: str) -> None:
    """Several turns of a conversation; artifacts of earlier ones stand in the state."""

    def step(question: str) -> AIMessage:
        chosen = kit.COUNT if question.startswith("How many") else kit.SEARCH
        return pick((chosen, question))

    saver = import_module("langgraph.checkpoint.memory").MemorySaver()
    app = agent(stepping(step), [search, count], checkpointer=saver)
    config = kit.config(world, configurable={"thread_id": "t1"})
    for question in (*kit.QUESTIONS, "How many words are these?"):
        call_graph(app, asks(question), config, way)


CANCELLED = Expected(
    question=kit.QUESTION, contexts=kit.top(), answer=None, status=Status.CANCELLED, spans=None
)


@kit.scene(GROUP, "a cancelled stream", [CANCELLED], ("astream",), AGENTS_MISSING)
def cancelled(world: World, way: str) -> None:
    model = searching()
    model.delay = 0.02
    app = agent(model, [search])
    config = kit.config(world)

    async def read() -> None:
        modes = ["updates", "messages"]
        async for _, state in app.astream(asks(kit.QUESTION), config, stream_mode=modes):
            if isinstance(state, tuple) and isinstance(state[0], ToolMessage):
                asyncio.current_task().cancel()  # type: ignore[union-attr]

    async def request() -> None:
        task = asyncio.create_task(read())
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(request())


def remembered(question: str) -> dict[str, Any]:
    """A conversation that the caller keeps, with the artifact of an earlier turn in it."""
    documents = kit.store().similarity_search(OTHER, k=2)
    earlier = [
        HumanMessage(OTHER),
        pick((kit.SEARCH, OTHER)),
        ToolMessage(kit.joined(documents), tool_call_id=f"c0{kit.SEARCH}", artifact=documents),
        AIMessage("They may do little."),
    ]
    return {"messages": [*earlier, HumanMessage(question)]}


kit.shape(
    GROUP,
    "a conversation that the caller keeps",
    spans=TOOL_SPANS,
    **{**AGENT, "inputs": remembered},
)(artifact)


kit.shape(
    GROUP,
    "no retrieval in a conversation with artifacts",
    captured=False,
    **{**AGENT, "inputs": remembered},
)(nothing)
