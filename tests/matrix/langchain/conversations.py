"""Agents in conversations: earlier turns, and a reader who leaves."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from rag_eval_hooks import Status
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain import kit
from tests.matrix.langchain.agents import (
    AGENT,
    GROUP,
    OTHER,
    TOOL_SPANS,
    artifact,
    asks,
    count,
    none_expected,
    nothing,
    pick,
    search,
    searching,
    stepping,
)
from tests.matrix.langchain.compat import AGENTS_MISSING, agent
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World


def turns() -> Shape:
    """Several turns of a conversation; artifacts of earlier ones stand in the state."""

    def run(world: World, way: str) -> None:
        saver = import_module("langgraph.checkpoint.memory").MemorySaver()

        def step(question: str) -> AIMessage:
            chosen = kit.COUNT if question.startswith("How many") else kit.SEARCH
            return pick((chosen, question))

        app = agent(stepping(step), [search, count], checkpointer=saver)
        config: Any = {
            "callbacks": [RagEvalCallbackHandler(world.evals)],
            "configurable": {"thread_id": "t1"},
        }
        for question in (*kit.QUESTIONS, "How many words are these?"):
            if way == "invoke":
                app.invoke(asks(question), config)
            elif way == "stream":
                list(app.stream(asks(question), config))
            else:
                asyncio.run(app.ainvoke(asks(question), config))

    expected = [
        Expected(
            question=q, contexts=kit.top(q), answer=kit.answer_to(q, kit.top(q)), spans=TOOL_SPANS
        )
        for q in kit.QUESTIONS
    ]
    name, ways = "several turns with a checkpointer", ("invoke", "stream", "ainvoke")
    return kit.scene(GROUP, name, run, expected, ways, AGENTS_MISSING)


def cancelled() -> Shape:
    def run(world: World, way: str) -> None:
        model = searching()
        model.delay = 0.02
        app = agent(model, [search])
        config = kit.config(world)

        async def read() -> None:
            async for _, state in app.astream(
                asks(kit.QUESTION), config, stream_mode=["updates", "messages"]
            ):
                if isinstance(state, tuple) and isinstance(state[0], ToolMessage):
                    asyncio.current_task().cancel()  # type: ignore[union-attr]

        async def request() -> None:
            task = asyncio.create_task(read())
            await asyncio.wait([task])
            assert task.cancelled()

        asyncio.run(request())

    expected = Expected(
        question=kit.QUESTION,
        contexts=kit.top(),
        answer=None,
        status=Status.CANCELLED,
        spans=None,
    )
    name, ways = "a cancelled stream", ("astream",)
    return kit.scene(GROUP, name, run, [expected], ways, AGENTS_MISSING)


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


SHAPES = (
    turns(),
    kit.shape(
        GROUP,
        "a conversation that the caller keeps",
        artifact,
        spans=TOOL_SPANS,
        **{**AGENT, "inputs": remembered},
    ),
    none_expected(
        kit.shape(
            GROUP,
            "no retrieval in a conversation with artifacts",
            nothing,
            **{**AGENT, "inputs": remembered},
        )
    ),
    cancelled(),
)
