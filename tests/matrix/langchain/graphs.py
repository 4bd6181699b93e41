"""Graphs of LangGraph."""

from __future__ import annotations

import asyncio
import itertools
import operator
from importlib import import_module
from typing import Annotated, Any, TypedDict

from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser

from rag_eval_hooks import Status
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.compat import GRAPHS_MISSING
from tests.matrix.langchain.kit import (
    ASKED,
    FOUND,
    GRAPH_WAYS,
    PROMPT,
    QUESTION,
    SAID,
    SHOWN,
    TRIES,
    WORDS,
    Chat,
    answer_to,
    joined,
    message_text,
    prompt_text,
    reader,
    shape,
    store,
    top,
)
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World

__all__ = ["SHAPES"]

GROUP = "LangGraph"
SEASON = WORDS("season")
BETTER = WORDS("What does a season ticket cost at the office beside the gate?")


KEYS = {ASKED: str, FOUND: list[Any], SHOWN: str, SAID: str, TRIES: int}
ADDED = {FOUND: Annotated[list[Any], operator.add]}
"""Of a state into which parallel nodes write."""


def state(**keys: Any) -> Any:
    """A state of the drawn keys; some of another kind, or more of them."""
    make: Any = TypedDict
    return make("State", {**KEYS, **keys}, total=False)


def graph(**keys: Any) -> Any:
    return import_module("langgraph.graph").StateGraph(state(**keys))


def chained(made: Any, *names: str) -> Any:
    """Edges from start over the nodes to the end."""
    path = ["__start__", *names, "__end__"]
    for one, other in itertools.pairwise(path):
        made.add_edge(one, other)
    return made


def generate(state: Any) -> dict[str, Any]:
    chain = PROMPT | reader() | StrOutputParser()
    context = joined(state[FOUND])
    return {SAID: chain.invoke({SHOWN: context, ASKED: state[ASKED]})}


def with_retriever() -> Any:
    retriever = store().as_retriever(search_kwargs={"k": 2})
    made = graph()
    made.add_node("retrieve", lambda state: {FOUND: retriever.invoke(state[ASKED])})
    made.add_node("generate", generate)
    return chained(made, "retrieve", "generate").compile()


def searched(state: Any) -> dict[str, Any]:
    return {FOUND: store().similarity_search(state[ASKED], k=2)}


async def asearched(state: Any) -> dict[str, Any]:
    return {FOUND: await store().asimilarity_search(state[ASKED], k=2)}


def direct(node: Any = searched) -> Any:
    made = graph()
    made.add_node("retrieve", node)
    made.add_node("generate", generate)
    return chained(made, "retrieve", "generate").compile()


def direct_async() -> Any:
    return direct(asearched)


def whole_state() -> Any:
    """Nodes that hand on the whole state, as many do."""
    made = graph()
    made.add_node("retrieve", lambda state: {**state, **searched(state)})
    made.add_node("generate", lambda state: {**state, **generate(state)})
    return chained(made, "retrieve", "generate").compile()


def texts_in_state() -> Any:
    """A state of plain texts, found by the name of its key."""

    def retrieve(state: Any) -> dict[str, Any]:
        return {FOUND: top(state[ASKED])}

    def answer(state: Any) -> dict[str, Any]:
        chain = PROMPT | reader() | StrOutputParser()
        context = "\n\n".join(state[FOUND])
        return {SAID: chain.invoke({SHOWN: context, ASKED: state[ASKED]})}

    made = graph()
    made.add_node("retrieve", retrieve)
    made.add_node("generate", answer)
    return chained(made, "retrieve", "generate").compile()


def said(model: Chat, prompt: str) -> str:
    return message_text(model.invoke(prompt))


def graded() -> Any:
    """A grader model keeps one of three; another one approves of the answer."""

    def grade(messages: list[BaseMessage]) -> str:
        return "yes" if SEASON in prompt_text(messages) or "07:40" in str(messages) else "no"

    def keep(state: Any) -> dict[str, Any]:
        grader = Chat(reply=grade)
        kept = [d for d in state[FOUND] if said(grader, d.page_content) == "yes"]
        return {FOUND: kept}

    def approve(state: Any) -> dict[str, Any]:
        Chat(reply=grade).invoke(f"Is this grounded? {state[SAID]}")
        return {TRIES: 1}

    retriever = store().as_retriever(search_kwargs={"k": 3})
    made = graph()
    made.add_node("retrieve", lambda state: {FOUND: retriever.invoke(state[ASKED])})
    made.add_node("grade", keep)
    made.add_node("generate", generate)
    made.add_node("approve", approve)
    return chained(made, "retrieve", "grade", "generate", "approve").compile()


def graded_texts(question: str) -> list[str]:
    return [text for text in top(question, 3) if SEASON in text or "07:40" in text]


def corrective() -> Any:
    """Finds the first documents wanting, rewrites the question, retrieves again."""
    retriever = store().as_retriever(search_kwargs={"k": 2})

    def retrieve(state: Any) -> dict[str, Any]:
        asked = BETTER if state.get(TRIES) else state[ASKED]
        return {FOUND: retriever.invoke(asked), TRIES: state.get(TRIES, 0) + 1}

    def rewrite(state: Any) -> dict[str, Any]:
        Chat(reply=lambda messages: BETTER).invoke(state[ASKED])
        return {FOUND: []}

    made = graph()
    made.add_node("retrieve", retrieve)
    made.add_node("rewrite", rewrite)
    made.add_node("generate", generate)
    made.add_edge("__start__", "retrieve")
    made.add_conditional_edges(
        "retrieve", lambda state: "rewrite" if state[TRIES] == 1 else "generate"
    )
    made.add_edge("rewrite", "retrieve")
    made.add_edge("generate", "__end__")
    return made.compile()


def filtered_out() -> Any:
    """The grader leaves nothing: the model saw no context."""
    made = graph()
    made.add_node("retrieve", searched)
    made.add_node("grade", lambda state: {FOUND: []})
    made.add_node("generate", generate)
    return chained(made, "retrieve", "grade", "generate").compile()


def fan_out() -> Any:
    asked = (QUESTION, BETTER)
    send = import_module("langgraph.types").Send

    def one(state: Any) -> dict[str, Any]:
        return {FOUND: store().similarity_search(state[ASKED], k=1)}

    made = graph(**ADDED)
    made.add_node("retrieve", one)
    made.add_node("generate", generate)
    made.add_conditional_edges(
        "__start__", lambda state: [send("retrieve", {ASKED: q}) for q in asked], ["retrieve"]
    )
    made.add_edge("retrieve", "generate")
    made.add_edge("generate", "__end__")
    return made.compile()


def fanned(_question: str) -> list[str]:
    return list(dict.fromkeys([*top(QUESTION, 1), *top(BETTER, 1)]))


def subgraph() -> Any:
    inner = graph()
    inner.add_node("retrieve", searched)
    made = graph()
    made.add_node("find", chained(inner, "retrieve").compile())
    made.add_node("generate", generate)
    return chained(made, "find", "generate").compile()


def modes() -> Shape:
    def run(world: World, way: str) -> None:
        config: Any = {"callbacks": [RagEvalCallbackHandler(world.evals)]}
        _, how, mode = way.split()
        if how == "stream":
            list(direct().stream({ASKED: QUESTION}, config, stream_mode=mode))
            return

        async def read() -> None:
            async for _ in direct().astream({ASKED: QUESTION}, config, stream_mode=mode):
                pass

        asyncio.run(read())

    names = ("values", "updates", "messages", "debug", "custom")
    ways = tuple(f"mode {how} {mode}" for how in ("stream", "astream") for mode in names)
    return Shape(
        group=GROUP,
        name="stream modes",
        ways=ways,
        run=run,
        expected=lambda way: [due()],
        missing=GRAPHS_MISSING,
    )


def due(status: Status = Status.OK, **more: Any) -> Expected:
    told: dict[str, Any] = {
        "question": QUESTION,
        "contexts": top(),
        "answer": answer_to(QUESTION, top()),
        "spans": ("chat scripted",),
        **more,
    }
    return Expected(status=status, **told)


def closed() -> Shape:
    """The reader leaves in the middle of the model's answer."""

    def run(world: World, way: str) -> None:
        config: Any = {"callbacks": [RagEvalCallbackHandler(world.evals)]}
        if way == "stream":
            stream = direct().stream({ASKED: QUESTION}, config, stream_mode="messages")
            next(stream)
            stream.close()
            return

        async def read() -> None:
            stream = direct().astream({ASKED: QUESTION}, config, stream_mode="messages")
            await anext(stream)
            await stream.aclose()
            await asyncio.sleep(0.05)

        asyncio.run(read())

    def expected(way: str) -> list[Expected]:
        return [due(Status.CLOSED, answer=None, spans=None)]

    return Shape(
        group=GROUP,
        name="a stream closed early",
        ways=("stream", "astream"),
        run=run,
        expected=expected,
        missing=GRAPHS_MISSING,
    )


ASYNC_WAYS = tuple(way for way in GRAPH_WAYS if way.startswith("a"))
GRAPH: dict[str, Any] = {
    "inputs": lambda question: {ASKED: question},
    "missing": GRAPHS_MISSING,
}
ONE = ("chat scripted",)
RETRIEVED = ("chat scripted", "retrieval InMemoryVectorStore")

SHAPES = (
    shape(GROUP, "retrieve node with a retriever", with_retriever, ways=GRAPH_WAYS, **GRAPH),
    shape(GROUP, "retrieve node with direct search", direct, ways=GRAPH_WAYS, spans=ONE, **GRAPH),
    shape(
        GROUP,
        "retrieve node with direct search, async",
        direct_async,
        ways=ASYNC_WAYS,
        spans=ONE,
        **GRAPH,
    ),
    shape(GROUP, "nodes that hand on the state", whole_state, ways=GRAPH_WAYS, spans=ONE, **GRAPH),
    shape(GROUP, "a state of texts", texts_in_state, ways=GRAPH_WAYS, spans=ONE, **GRAPH),
    shape(
        GROUP,
        "self-RAG with graders",
        graded,
        contexts=graded_texts,
        ways=GRAPH_WAYS,
        spans=("chat scripted",) * 5 + RETRIEVED[1:],
        **GRAPH,
    ),
    shape(
        GROUP,
        "corrective loop",
        corrective,
        contexts=lambda question: top(BETTER),
        questions=(QUESTION,),
        ways=GRAPH_WAYS,
        spans=("chat scripted",) * 2 + RETRIEVED[1:] * 2,
        **GRAPH,
    ),
    shape(
        GROUP,
        "everything graded out",
        filtered_out,
        contexts=lambda question: [],
        ways=GRAPH_WAYS,
        spans=ONE,
        **GRAPH,
    ),
    shape(
        GROUP,
        "Send fan-out",
        fan_out,
        contexts=fanned,
        questions=(QUESTION,),
        ways=GRAPH_WAYS,
        spans=ONE,
        **GRAPH,
    ),
    shape(GROUP, "subgraph that retrieves", subgraph, ways=GRAPH_WAYS, spans=ONE, **GRAPH),
    modes(),
    closed(),
)
