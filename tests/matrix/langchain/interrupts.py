"""Graphs of LangGraph that wait for somebody."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from rag_eval_hooks import Status
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import GRAPHS_MISSING, has
from tests.matrix.langchain.graphs import GROUP, due, generate, line, searched
from tests.matrix.langchain.kit import (
    ASKED,
    QUESTION,
    TRIES,
)
from tests.matrix.shape import Shape
from tests.matrix.world import World


def stopping() -> Any:
    saver = import_module("langgraph.checkpoint.memory").MemorySaver()
    chain = line({"retrieve": searched, "generate": generate})
    return chain.compile(checkpointer=saver, interrupt_before=["generate"])


def approving() -> Any:
    interrupt = import_module("langgraph.types").interrupt

    def approve(state: Any) -> dict[str, Any]:
        interrupt("May I answer?")
        return {TRIES: 1}

    saver = import_module("langgraph.checkpoint.memory").MemorySaver()
    return line({"retrieve": searched, "approve": approve, "generate": generate}).compile(
        checkpointer=saver
    )


def interrupted(
    name: str,
    build: Any = approving,
    *,
    resumed: bool = True,
    missing: str | None = GRAPHS_MISSING,
) -> Shape:
    def run(world: World, way: str) -> None:
        app = build()
        resume = import_module("langgraph.types").Command(resume=True)
        config: Any = {
            "callbacks": [RagEvalCallbackHandler(world.evals)],
            "configurable": {"thread_id": "t1"},
        }
        goes_on = resume if build is approving else None
        for inputs in ({ASKED: QUESTION}, goes_on)[: 1 + resumed]:
            call_graph(app, inputs, config, way)
        if not resumed:
            world.evals.recorder.suspensions.sweep(2**63)  # the time limit, without waiting for it

    expected = due() if resumed else due(Status.INTERRUPTED, answer=None, spans=())
    ways = ("invoke", "ainvoke", "stream", "astream")
    return kit.scene(GROUP, name, run, [expected], ways, missing)


def call_graph(app: Any, inputs: Any, config: Any, way: str) -> None:
    async def read() -> None:
        async for _ in app.astream(inputs, config):
            pass

    if way == "invoke":
        app.invoke(inputs, config)
    elif way == "stream":
        list(app.stream(inputs, config))
    else:
        asyncio.run(app.ainvoke(inputs, config) if way == "ainvoke" else read())


NO_EVENTS = (
    None if has("langgraph.callbacks") else "this version of LangGraph tells of no interrupts"
)

SHAPES = (
    interrupted("interrupt and resume"),
    interrupted("interrupt_before and resume", stopping, missing=NO_EVENTS),
    interrupted("interrupt, never resumed", resumed=False),
)
