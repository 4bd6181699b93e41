"""Agents in conversations: earlier turns, and a reader who leaves."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from rag_eval_hooks import Status
from rag_eval_hooks_langchain import RagEvalCallbackHandler
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
from tests.matrix.langchain.kit import (
    COUNT,
    QUESTION,
    QUESTIONS,
    SEARCH,
    answer_to,
    joined,
    shape,
    store,
    top,
)
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World

__all__ = ["SHAPES"]


def turns() -> Shape:
    """Several turns of a conversation; artifacts of earlier ones stand in the state."""

    def run(world: World, way: str) -> None:
        saver = import_module("langgraph.checkpoint.memory").MemorySaver()

        def step(question: str) -> AIMessage:
            chosen = COUNT if question.startswith("How many") else SEARCH
            return pick((chosen, question))

        app = agent(stepping(step), [search, count], checkpointer=saver)
        config: Any = {
            "callbacks": [RagEvalCallbackHandler(world.evals)],
            "configurable": {"thread_id": "t1"},
        }
        for question in (*QUESTIONS, "How many words are these?"):
            if way == "invoke":
                app.invoke(asks(question), config)
            elif way == "stream":
                list(app.stream(asks(question), config))
            else:
                asyncio.run(app.ainvoke(asks(question), config))

    def expected(way: str) -> list[Expected]:
        spans = TOOL_SPANS
        return [
            Expected(question=q, contexts=top(q), answer=answer_to(q, top(q)), spans=spans)
            for q in QUESTIONS
        ]

    return Shape(
        group=GROUP,
        name="several turns with a checkpointer",
        ways=("invoke", "stream", "ainvoke"),
        run=run,
        expected=expected,
        missing=AGENTS_MISSING,
    )


def cancelled() -> Shape:
    def run(world: World, way: str) -> None:
        model = searching()
        model.delay = 0.02
        app = agent(model, [search])
        config: Any = {"callbacks": [RagEvalCallbackHandler(world.evals)]}

        async def read() -> None:
            async for _, state in app.astream(
                asks(QUESTION), config, stream_mode=["updates", "messages"]
            ):
                if isinstance(state, tuple) and isinstance(state[0], ToolMessage):
                    asyncio.current_task().cancel()  # type: ignore[union-attr]

        async def request() -> None:
            task = asyncio.create_task(read())
            await asyncio.wait([task])
            assert task.cancelled()

        asyncio.run(request())

    def expected(way: str) -> list[Expected]:
        return [
            Expected(
                question=QUESTION,
                contexts=top(),
                answer=None,
                status=Status.CANCELLED,
                spans=None,
            )
        ]

    return Shape(
        group=GROUP,
        name="a cancelled stream",
        ways=("astream",),
        run=run,
        expected=expected,
        missing=AGENTS_MISSING,
    )


def remembered(question: str) -> dict[str, Any]:
    """A conversation that the caller keeps, with the artifact of an earlier turn in it."""
    documents = store().similarity_search(OTHER, k=2)
    earlier = [
        HumanMessage(OTHER),
        pick((SEARCH, OTHER)),
        ToolMessage(joined(documents), tool_call_id=f"c0{SEARCH}", artifact=documents),
        AIMessage("They may do little."),
    ]
    return {"messages": [*earlier, HumanMessage(question)]}


SHAPES = (
    turns(),
    shape(
        GROUP,
        "a conversation that the caller keeps",
        artifact,
        spans=TOOL_SPANS,
        **{**AGENT, "inputs": remembered},
    ),
    none_expected(
        shape(
            GROUP,
            "no retrieval in a conversation with artifacts",
            nothing,
            **{**AGENT, "inputs": remembered},
        )
    ),
    cancelled(),
)
