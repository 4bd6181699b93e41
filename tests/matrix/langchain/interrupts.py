"""Graphs of LangGraph that wait for somebody."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rag_eval_hooks import Status
from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import GRAPHS_MISSING, has
from tests.matrix.langchain.graphs import GROUP, call_graph, due, generate, line, searched
from tests.matrix.langchain.kit import (
    ASKED,
    QUESTION,
    TRIES,
)
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


def waiting(world: World, way: str, app: Any, *inputs: Any) -> None:
    """Call a graph several times in one thread."""
    config = kit.config(world, configurable={"thread_id": "t1"})
    for one in inputs:
        call_graph(app, one, config, way)


WAYS = ("invoke", "ainvoke", "stream", "astream")
NO_EVENTS = (
    None if has("langgraph.callbacks") else "this version of LangGraph tells of no interrupts"
)


@kit.scene(GROUP, "interrupt and resume", [due()], WAYS, GRAPHS_MISSING)
def resumed(world: World, way: str) -> None:
    resume = import_module("langgraph.types").Command(resume=True)
    waiting(world, way, approving(), {ASKED: QUESTION}, resume)


@kit.scene(GROUP, "interrupt_before and resume", [due()], WAYS, NO_EVENTS)
def resumed_before(world: World, way: str) -> None:
    waiting(world, way, stopping(), {ASKED: QUESTION}, None)


NEVER = due(Status.INTERRUPTED, answer=None, spans=())


@kit.scene(GROUP, "interrupt, never resumed", [NEVER], WAYS, GRAPHS_MISSING)
def never_resumed(world: World, way: str) -> None:
    waiting(world, way, approving(), {ASKED: QUESTION})
    world.evals.recorder.suspensions.sweep(2**63)  # the time limit, without waiting for it
