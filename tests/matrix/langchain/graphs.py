"""Graphs of LangGraph."""

from __future__ import annotations

import asyncio
import itertools
import operator
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, TypedDict

from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser

from rag_eval_hooks import Status
from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import GRAPHS_MISSING
from tests.matrix.shape import Expected
from tests.matrix.world import World

GROUP = "LangGraph"
SEASON = kit.WORDS("season")
BETTER = kit.WORDS("What does a season ticket cost at the office beside the gate?")


KEYS = {kit.ASKED: str, kit.FOUND: list[Any], kit.SHOWN: str, kit.SAID: str, kit.TRIES: int}
ADDED = {kit.FOUND: Annotated[list[Any], operator.add]}
"""Of a state into which parallel nodes write."""


def state(**keys: Any) -> Any:
    """A state of the drawn keys; some of another kind, or more of them."""
    make: Any = TypedDict
    return make("State", {**KEYS, **keys}, total=False)


def graph(**keys: Any) -> Any:
    return import_module("langgraph.graph").StateGraph(state(**keys))


def chained(made: Any, *names: str) -> Any:
    path = ["__start__", *names, "__end__"]
    for one, other in itertools.pairwise(path):
        made.add_edge(one, other)
    return made


def line(nodes: Mapping[str, Any], **keys: Any) -> Any:
    """Nodes one after another."""
    made = graph(**keys)
    for name, node in nodes.items():
        made.add_node(name, node)
    return chained(made, *nodes)


def generate(state: Any) -> dict[str, Any]:
    chain = kit.PROMPT | kit.reader() | StrOutputParser()
    context = kit.joined(state[kit.FOUND])
    return {kit.SAID: chain.invoke({kit.SHOWN: context, kit.ASKED: state[kit.ASKED]})}


def searched(state: Any) -> dict[str, Any]:
    return {kit.FOUND: kit.store().similarity_search(state[kit.ASKED], k=2)}


def said(model: kit.Chat, prompt: str) -> str:
    return kit.message_text(model.invoke(prompt))


def graded_texts(question: str) -> list[str]:
    return [text for text in kit.top(question, 3) if SEASON in text or "07:40" in text]


def fanned(_question: str) -> list[str]:
    return list(dict.fromkeys([*kit.top(kit.QUESTION, 1), *kit.top(BETTER, 1)]))


def due(status: Status = Status.OK, **more: Any) -> Expected:
    told: dict[str, Any] = {
        "question": kit.QUESTION,
        "contexts": kit.top(),
        "answer": kit.answer_to(kit.QUESTION, kit.top()),
        "spans": ("chat scripted",),
        **more,
    }
    return Expected(status=status, **told)


GRAPH: dict[str, Any] = {
    "inputs": lambda question: {kit.ASKED: question},
    "missing": GRAPHS_MISSING,
}
ONE = ("chat scripted",)
RETRIEVED = ("chat scripted", "retrieval InMemoryVectorStore")


@kit.shape(GROUP, "retrieve node with direct search", ways=kit.GRAPH_WAYS, spans=ONE, **GRAPH)
def direct(node: Any = searched) -> Any:
    return line({"retrieve": node, "generate": generate}).compile()


@kit.shape(
    GROUP,
    "self-RAG with graders",
    contexts=graded_texts,
    ways=kit.GRAPH_WAYS,
    spans=("chat scripted",) * 5 + RETRIEVED[1:],
    **GRAPH,
)
def graded() -> Any:
    """A grader model keeps one of three; another one approves of the answer."""

    def grade(messages: list[BaseMessage]) -> str:
        return "yes" if SEASON in kit.prompt_text(messages) or "07:40" in str(messages) else "no"

    def keep(state: Any) -> dict[str, Any]:
        grader = kit.Chat(reply=grade)
        kept = [d for d in state[kit.FOUND] if said(grader, d.page_content) == "yes"]
        return {kit.FOUND: kept}

    def approve(state: Any) -> dict[str, Any]:
        kit.Chat(reply=grade).invoke(f"Is this grounded? {state[kit.SAID]}")
        return {kit.TRIES: 1}

    retriever = kit.base(3)
    return line(
        {
            "retrieve": lambda state: {kit.FOUND: retriever.invoke(state[kit.ASKED])},
            "grade": keep,
            "generate": generate,
            "approve": approve,
        }
    ).compile()


@kit.shape(
    GROUP,
    "corrective loop",
    contexts=lambda question: kit.top(BETTER),
    questions=(kit.QUESTION,),
    ways=kit.GRAPH_WAYS,
    spans=("chat scripted",) * 2 + RETRIEVED[1:] * 2,
    **GRAPH,
)
def corrective() -> Any:
    """Finds the first documents wanting, rewrites the question, retrieves again."""
    retriever = kit.base()

    def retrieve(state: Any) -> dict[str, Any]:
        asked = BETTER if state.get(kit.TRIES) else state[kit.ASKED]
        return {kit.FOUND: retriever.invoke(asked), kit.TRIES: state.get(kit.TRIES, 0) + 1}

    def rewrite(state: Any) -> dict[str, Any]:
        kit.Chat(reply=lambda messages: BETTER).invoke(state[kit.ASKED])
        return {kit.FOUND: []}

    made = graph()
    made.add_node("retrieve", retrieve)
    made.add_node("rewrite", rewrite)
    made.add_node("generate", generate)
    made.add_edge("__start__", "retrieve")
    made.add_conditional_edges(
        "retrieve", lambda state: "rewrite" if state[kit.TRIES] == 1 else "generate"
    )
    made.add_edge("rewrite", "retrieve")
    made.add_edge("generate", "__end__")
    return made.compile()


@kit.shape(
    GROUP,
    "Send fan-out",
    contexts=fanned,
    questions=(kit.QUESTION,),
    ways=kit.GRAPH_WAYS,
    spans=ONE,
    **GRAPH,
)
def fan_out() -> Any:
    asked = (kit.QUESTION, BETTER)
    send = import_module("langgraph.types").Send

    def one(state: Any) -> dict[str, Any]:
        return {kit.FOUND: kit.store().similarity_search(state[kit.ASKED], k=1)}

    made = graph(**ADDED)
    made.add_node("retrieve", one)
    made.add_node("generate", generate)
    made.add_conditional_edges(
        "__start__", lambda state: [send("retrieve", {kit.ASKED: q}) for q in asked], ["retrieve"]
    )
    made.add_edge("retrieve", "generate")
    made.add_edge("generate", "__end__")
    return made.compile()


def call_graph(app: Any, inputs: Any, config: Any, way: str, **more: Any) -> None:
    """Call a graph in one of four ways, and read its stream."""

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


@kit.scene(GROUP, "stream modes", [due()], MODE_WAYS, GRAPHS_MISSING)
def modes(world: World, way: str) -> None:
    _, how, mode = way.split()
    call_graph(direct(), {kit.ASKED: kit.QUESTION}, kit.config(world), how, stream_mode=mode)


LEFT = due(Status.CLOSED, answer=None, spans=None)


@kit.scene(GROUP, "a stream closed early", [LEFT], ("stream", "astream"), GRAPHS_MISSING)
def closed(world: World, way: str) -> None:
    """The reader leaves in the middle of the model's answer."""
    stream = getattr(direct(), way)
    kit.leave(stream({kit.ASKED: kit.QUESTION}, kit.config(world), stream_mode="messages"))
