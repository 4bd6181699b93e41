"""Graphs of LangGraph, under drawn names of keys and steps."""

from __future__ import annotations

import asyncio
import itertools
import operator
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from typing import Annotated, Any, TypedDict

from rag_eval_hooks import Status
from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import GRAPHS_MISSING
from tests.matrix.shape import Expected
from tests.matrix.world import World

GROUP = "LangGraph"
TEAMS = "custom pipelines"
BETTER = kit.WORDS("What does a season ticket cost at the office beside the gate?")
KEYS = {kit.ASKED: str, kit.FOUND: list[Any], kit.SHOWN: str, kit.SAID: str, kit.TRIES: int}
ADDED = {kit.FOUND: Annotated[list[Any], operator.add]}
"""Of a state into which parallel nodes write."""
ONE = ("chat scripted",)
TypedState: Any = TypedDict


def graphs(name: str = "", group: str = GROUP, **more: Any) -> Callable[[kit.Build], kit.Build]:
    usual = {
        "ways": kit.GRAPH_WAYS,
        "inputs": lambda question: {kit.ASKED: question},
        "missing": GRAPHS_MISSING,
        "spans": ONE,
    }
    return kit.shape(group, name, **{**usual, **more})


def state(**keys: Any) -> Any:
    return TypedState("State", {**KEYS, **keys}, total=False)


def graph(**keys: Any) -> Any:
    return import_module("langgraph.graph").StateGraph(state(**keys))


def chained(made: Any, *names: str) -> Any:
    for one, other in itertools.pairwise(["__start__", *names, "__end__"]):
        made.add_edge(one, other)
    return made


def line(nodes: Mapping[str, Any], **keys: Any) -> Any:
    made = graph(**keys)
    for name, node in nodes.items():
        made.add_node(name, node)
    return chained(made, *nodes)


def generate(state: Any) -> dict[str, Any]:
    return {kit.SAID: kit.ask(state[kit.ASKED], state[kit.FOUND])}


def searched(state: Any, k: int = 2) -> dict[str, Any]:
    return {kit.FOUND: kit.store().similarity_search(state[kit.ASKED], k=k)}


def due(status: Status = Status.OK, **more: Any) -> Expected:
    return kit.due(status=status, **{"spans": ONE, **more})


@graphs("retrieve node with direct search")
def direct(node: Any = searched) -> Any:
    return line({"retrieve": node, "generate": generate}).compile()


def says(model: kit.Chat, prompt: str) -> str:
    return kit.message_text(model.invoke(prompt))


@graphs(
    "Send fan-out and an output schema",
    contexts=lambda _: list(dict.fromkeys([*kit.top(kit.QUESTION, 1), *kit.top(BETTER, 1)])),
    questions=(kit.QUESTION,),
)
def fan_out() -> Any:
    send = import_module("langgraph.types").Send
    kind = import_module("langgraph.graph").StateGraph
    name = "output_schema" if "output_schema" in signature(kind).parameters else "output"
    made = kind(state(**ADDED), **{name: TypedState("Narrow", {kit.SAID: str})})
    made.add_node("retrieve", lambda state: searched(state, k=1))
    made.add_node("generate", generate)
    asked = [send("retrieve", {kit.ASKED: q}) for q in (kit.QUESTION, BETTER)]
    made.add_conditional_edges("__start__", lambda state: asked, ["retrieve"])
    made.add_edge("retrieve", "generate")
    made.add_edge("generate", "__end__")
    return made.compile()


def call_graph(app: Any, inputs: Any, config: Any, way: str, **more: Any) -> None:
    async def read() -> None:
        async for _ in app.astream(inputs, config, **more):
            pass

    if way == "invoke":
        app.invoke(inputs, config)
    elif way == "stream":
        list(app.stream(inputs, config, **more))
    else:
        asyncio.run(app.ainvoke(inputs, config) if way == "ainvoke" else read())


MODES = ("values", "updates", "messages", "debug", "custom")
MODE_WAYS = tuple(f"mode {how} {mode}" for how in ("stream", "astream") for mode in MODES)


@kit.scene(GROUP, [due()], MODE_WAYS, GRAPHS_MISSING)
def stream_modes(world: World, way: str) -> None:
    _, how, mode = way.split()
    call_graph(direct(), {kit.ASKED: kit.QUESTION}, kit.config(world), how, stream_mode=mode)


@graphs(group=TEAMS)
def three_nested_graphs() -> Any:
    app = line({"retrieve": searched}).compile()
    for _ in range(2):
        app = line({"inner": app}).compile()
    return line({"find": app, "generate": generate}).compile()
