"""Graphs that go on: after an error, in another process, beside another graph, from a cache."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from inspect import signature
from typing import Any

from langchain_core.tools import tool

from rag_eval_hooks import Status
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.agents import asks, pick, search, stepping
from tests.matrix.langchain.compat import GRAPHS_MISSING, MIDDLEWARE_MISSING, agent, has
from tests.matrix.langchain.graphs import GROUP, chained, due, generate, graph, searched
from tests.matrix.langchain.interrupts import NO_EVENTS, approving, call_graph, stopping
from tests.matrix.langchain.kit import QUESTION, QUESTIONS, answer_to, ask, store, top
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World

__all__ = ["SHAPES"]

WAYS = ("invoke", "ainvoke", "stream", "astream")
OTHER = QUESTIONS[1]


def caches() -> bool:
    """Whether nodes of a graph can be cached."""
    if GRAPHS_MISSING is not None:
        return False
    kind = import_module("langgraph.graph").StateGraph
    return "cache_policy" in signature(kind.add_node).parameters


FAILED = due(Status.ERROR, answer=None, spans=())


def saver() -> Any:
    return import_module("langgraph.checkpoint.memory").MemorySaver()


def config(world: World, thread: str = "t1") -> Any:
    handler = RagEvalCallbackHandler(world.evals)
    return {"callbacks": [handler], "configurable": {"thread_id": thread}}


@contextlib.contextmanager
def another_process() -> Iterator[Any]:
    """The config of a process whose evaluator knows nothing of this one."""
    world = World()
    try:
        yield config(world)
    finally:
        world.close()


def resume(**more: Any) -> Any:
    return import_module("langgraph.types").Command(resume=True, **more)


def one(
    name: str,
    body: Callable[[World, str], None],
    expected: Sequence[Expected],
    missing: str | None = GRAPHS_MISSING,
    ways: Sequence[str] = WAYS,
) -> Shape:
    return Shape(
        group=GROUP, name=name, ways=ways, run=body, expected=lambda way: expected, missing=missing
    )


def failing_once() -> Any:
    """The node after the retrieval raises when it runs first."""
    tries: list[int] = []

    def flaky(state: Any) -> dict[str, Any]:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("the model is down")
        return generate(state)

    made = graph()
    made.add_node("retrieve", searched)
    made.add_node("generate", flaky)
    return chained(made, "retrieve", "generate").compile(checkpointer=saver())


def recovered(world: World, way: str) -> None:
    app, told = failing_once(), config(world)
    with contextlib.suppress(ConnectionError):
        call_graph(app, {"question": QUESTION}, told, way)
    call_graph(app, None, told, way)
    call_graph(app, None, told, way)  # there is nothing left to do


def recovered_elsewhere(world: World, way: str) -> None:
    app = failing_once()
    with another_process() as told, contextlib.suppress(ConnectionError):
        call_graph(app, {"question": QUESTION}, told, way)
    call_graph(app, None, config(world), way)


def resumed_elsewhere(world: World, way: str) -> None:
    app = approving()
    with another_process() as told:
        call_graph(app, {"question": QUESTION}, told, way)
    call_graph(app, resume(update={"tries": 3}), config(world), way)


def edited(build: Callable[[], Any]) -> Callable[[World, str], None]:
    """Somebody edits the state before it goes on."""

    def body(world: World, way: str) -> None:
        app, told = build(), config(world)
        call_graph(app, {"question": QUESTION}, told, way)
        app.update_state({"configurable": told["configurable"]}, {"tries": 3})
        call_graph(app, resume() if build is approving else None, told, way)

    return body


def planning() -> Any:
    """Another graph, with the same default name."""
    made = graph()
    made.add_node("plan", lambda state: {"tries": 1})
    made.add_node("find", searched)
    made.add_node("answer", lambda state: {"generation": generate(state)["generation"]})
    chain = chained(made, "plan", "find", "answer")
    return chain.compile(checkpointer=saver(), interrupt_before=["answer"])


def side_by_side(world: World, way: str) -> None:
    told = config(world)
    first, second = approving(), planning()
    call_graph(first, {"question": QUESTION}, told, way)
    call_graph(second, {"question": OTHER}, told, way)
    call_graph(first, resume(), told, way)
    call_graph(second, None, told, way)


def twins(world: World, way: str) -> None:
    """Two graphs of the same code in one thread."""
    told = config(world)
    first, second = approving(), approving()
    call_graph(first, {"question": QUESTION}, told, way)
    call_graph(second, {"question": OTHER}, told, way)
    call_graph(second, resume(), told, way)
    call_graph(first, resume(), told, way)


def cached(thread: bool) -> Callable[[World, str], None]:
    def body(world: World, way: str) -> None:
        policy = import_module("langgraph.types").CachePolicy()
        made = graph()
        made.add_node("retrieve", searched, cache_policy=policy)
        made.add_node("generate", generate)
        cache = import_module("langgraph.cache.memory").InMemoryCache()
        app = chained(made, "retrieve", "generate").compile(
            cache=cache, checkpointer=saver() if thread else None
        )
        for name in ("t1", "t2"):
            told = config(world, name)
            if not thread:
                del told["configurable"]
            call_graph(app, {"question": QUESTION}, told, way)

    return body


def cached_without_model(world: World, way: str) -> None:
    """The answer is made by what no callback tells of."""
    policy = import_module("langgraph.types").CachePolicy()
    made = graph()
    made.add_node("retrieve", searched, cache_policy=policy)
    made.add_node("generate", lambda state: {"generation": answer_to(QUESTION, top())})
    cache = import_module("langgraph.cache.memory").InMemoryCache()
    app = chained(made, "retrieve", "generate").compile(cache=cache)
    for _ in range(2):
        handler = RagEvalCallbackHandler(world.evals)
        call_graph(app, {"question": QUESTION}, {"callbacks": [handler]}, way)


def routed(*questions: str) -> Callable[[World, str], None]:
    """Retrieves where nothing is kept, answers thanks without documents."""

    def route(state: Any) -> str:
        if "?" not in state["question"]:
            return "chat"
        return "generate" if state.get("documents") else "retrieve"

    def body(world: World, way: str) -> None:
        made = graph()
        made.add_node("retrieve", searched)
        made.add_node("generate", generate)
        made.add_node("chat", lambda state: {"generation": "You are welcome."})
        made.add_conditional_edges("__start__", route, ["retrieve", "generate", "chat"])
        made.add_edge("retrieve", "generate")
        made.add_edge("generate", "__end__")
        made.add_edge("chat", "__end__")
        app, told = made.compile(checkpointer=saver()), config(world)
        for question in questions:
            call_graph(app, {"question": question}, told, way)

    return body


FOLLOW_UP = "And when does it return?"


def booking(world: World, first: Any, way: str) -> None:
    """An agent that searches, then asks for approval of another tool."""
    middleware = import_module("langchain.agents.middleware").HumanInTheLoopMiddleware

    @tool
    def book(query: str) -> str:
        """Books."""
        return "Booked."

    model = stepping(lambda q: pick(("search", q)), lambda q: pick(("book", q)))
    asking = middleware(interrupt_on={"book": True})
    app = agent(model, [search, book], middleware=[asking], checkpointer=saver())
    approved = import_module("langgraph.types").Command(resume={"decisions": [{"type": "approve"}]})
    call_graph(app, asks(QUESTION), first, way)
    call_graph(app, approved, config(world), way)


def approved_here(world: World, way: str) -> None:
    booking(world, config(world), way)


def approved_elsewhere(world: World, way: str) -> None:
    with another_process() as told:
        booking(world, told, way)


def entrypoint(first: Callable[[World], Any]) -> Callable[[World, str], None]:
    """The functional interface: a task retrieves, the function waits, a task answers."""

    def body(world: World, way: str) -> None:
        func = import_module("langgraph.func")
        interrupt = import_module("langgraph.types").interrupt

        def find(question: str) -> list[Any]:
            return store().similarity_search(question, k=2)

        find_task, tell_task = func.task(find), func.task(ask)

        def rag(question: str) -> dict[str, Any]:
            documents = find_task(question).result()
            approved = interrupt("May I?")
            return {"answer": tell_task(question, documents).result(), "approved": approved}

        app = func.entrypoint(checkpointer=saver())(rag)
        call_graph(app, QUESTION, first(world), way)
        call_graph(app, resume(), config(world), way)

    return body


def in_another_process(_: World) -> Any:
    with another_process() as told:
        return told


CACHE_MISSING = None if caches() else "this LangGraph caches no nodes"
FUNCTIONS_MISSING = None if has("langgraph.func") else "this LangGraph has no functions"
SYNC = ("invoke", "stream")
BEFORE = ("chat scripted", "chat scripted", "chat scripted", "execute_tool book")
TOLD_ELSEWHERE = due(spans=("chat scripted", "execute_tool book"))

SHAPES = (
    one("recovery after an error", recovered, [FAILED, due()]),
    one("recovery in another process", recovered_elsewhere, [due()]),
    one("resumed in another process", resumed_elsewhere, [due()]),
    one("state edited before it is resumed", edited(approving), [due()]),
    one("state edited before it goes on", edited(stopping), [due()], NO_EVENTS),
    one(
        "two graphs in one thread",
        side_by_side,
        [
            due(),
            due(question=OTHER, contexts=top(OTHER), answer=answer_to(OTHER, top(OTHER))),
        ],
        NO_EVENTS,
    ),
    one(
        "two graphs of the same code in one thread",
        twins,
        [
            due(Status.INTERRUPTED, answer=None, spans=()),
            due(),
            due(question=OTHER, contexts=top(OTHER), answer=answer_to(OTHER, top(OTHER))),
        ],
    ),
    one("a cached retrieve node", cached(thread=False), [due(), due()], CACHE_MISSING),
    one("a cached retrieve node, in threads", cached(thread=True), [due(), due()], CACHE_MISSING),
    one(
        "a cached retrieve node, no model seen",
        cached_without_model,
        [due(spans=()), due(spans=())],
        CACHE_MISSING,
    ),
    one(
        "a turn answered from kept documents",
        routed(QUESTION, FOLLOW_UP),
        [due(), due(question=FOLLOW_UP, answer=answer_to(FOLLOW_UP, top()))],
    ),
    one("a turn without documents", routed(QUESTION, "Thanks a lot."), [due()]),
    one(
        "approval of a tool",
        approved_here,
        [due(spans=(*BEFORE, "execute_tool search"))],
        MIDDLEWARE_MISSING,
    ),
    one("approval in another process", approved_elsewhere, [TOLD_ELSEWHERE], MIDDLEWARE_MISSING),
    one("an entrypoint that waits", entrypoint(config), [due()], FUNCTIONS_MISSING, SYNC),
    one(
        "an entrypoint resumed in another process",
        entrypoint(in_another_process),
        [due()],
        FUNCTIONS_MISSING,
        SYNC,
    ),
)
