"""Graphs that wait or go on: after an error, in another process, from a cache, in a later turn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import signature
from typing import Any

from langchain_core.tools import tool

from rag_eval_hooks import Status
from tests.matrix.langchain import kit
from tests.matrix.langchain.agents import asks, pick, search, stepping
from tests.matrix.langchain.compat import GRAPHS_MISSING, MIDDLEWARE_MISSING, agent, has
from tests.matrix.langchain.graphs import (
    GROUP,
    call_graph,
    chained,
    due,
    generate,
    graph,
    line,
    searched,
)
from tests.matrix.shape import Expected
from tests.matrix.world import World

OTHER = kit.QUESTIONS[1]
ASKED = {kit.ASKED: kit.QUESTION}
WAITED: dict[str, Any] = {"answer": None, "spans": ()}
NEVER = due(Status.INTERRUPTED, **WAITED)
NO_EVENTS = (
    None if has("langgraph.callbacks") else "this version of LangGraph tells of no interrupts"
)


def saver() -> Any:
    return import_module("langgraph.checkpoint.memory").MemorySaver()


def thread(world: World, name: str = "t1") -> Any:
    return kit.config(world, configurable={"thread_id": name})


def resume(**more: Any) -> Any:
    return import_module("langgraph.types").Command(resume=True, **more)


def scene(
    *expected: Expected,
    missing: str | None = GRAPHS_MISSING,
    ways: tuple[str, ...] = ("invoke", "ainvoke", "stream", "astream"),
    name: str = "",
) -> Callable[[kit.Run], kit.Run]:
    return kit.scene(GROUP, expected, ways, missing, name)


def approve(state: Any) -> dict[str, Any]:
    import_module("langgraph.types").interrupt("May I?")
    return {kit.TRIES: 1}


def waiting(*nodes: Any) -> Any:
    made = graph()
    names = [f"{node.__name__}{number}" for number, node in enumerate(nodes)]
    for name, node in zip(names, nodes, strict=True):
        made.add_node(name, node)
    return chained(made, *names).compile(checkpointer=saver())


def approving() -> Any:
    return waiting(searched, approve, generate)


def stopping() -> Any:
    chain = line({"retrieve": searched, "generate": generate})
    return chain.compile(checkpointer=saver(), interrupt_before=["generate"])


def called(world: World, way: str, app: Any, *inputs: Any) -> None:
    config = thread(world)
    for one in inputs:
        call_graph(app, one, config, way)


@scene(due(), missing=NO_EVENTS, name="interrupt_before and resume")
def resumed_before(world: World, way: str) -> None:
    called(world, way, stopping(), ASKED, None)


@scene(due())
def two_interrupts(world: World, way: str) -> None:
    app = waiting(approve, searched, approve, generate)
    called(world, way, app, ASKED, resume(), resume())


@scene(NEVER, name="interrupt, never resumed")
def never_resumed(world: World, way: str) -> None:
    called(world, way, approving(), ASKED)
    world.evals.recorder.suspensions.sweep(2**63)  # the time limit, without waiting for it


@scene(due(Status.ERROR, **WAITED), due())
def a_run_that_recovers_after_an_error(world: World, way: str) -> None:
    tries: list[int] = []

    def flaky(state: Any) -> dict[str, Any]:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("the model is down")
        return generate(state)

    app = waiting(searched, flaky)
    with contextlib.suppress(ConnectionError):
        called(world, way, app, ASKED)
    # The last call has nothing left to do.
    called(world, way, app, None, None)


@contextlib.contextmanager
def another_process() -> Iterator[World]:
    world = World()
    try:
        yield world
    finally:
        world.close()


@scene(due())
def a_graph_resumed_in_another_process(world: World, way: str) -> None:
    app = approving()
    with another_process() as other:
        called(other, way, app, ASKED)
    called(world, way, app, resume(update={kit.TRIES: 3}))


@scene(NEVER, due(), kit.due(OTHER, spans=("chat scripted",)))
def two_graphs_of_the_same_code_in_one_thread(world: World, way: str) -> None:
    told = thread(world)
    first, second = approving(), approving()
    for app, inputs in (
        (first, ASKED),
        (second, {kit.ASKED: OTHER}),
        (second, resume()),
        (first, resume()),
    ):
        call_graph(app, inputs, told, way)


@scene(due(), due())
def a_run_that_continues_from_a_checkpoint(world: World, way: str) -> None:
    app, told = waiting(searched, generate), thread(world)
    call_graph(app, ASKED, told, way)
    history = app.get_state_history({"configurable": told["configurable"]})
    middle = next(one for one in history if one.next == ("generate1",))
    call_graph(app, None, {**told, **middle.config}, way)


CALLS = sorted([*["chat scripted"] * 3, "execute_tool book", f"execute_tool {kit.SEARCH}"])


@scene(due(spans=CALLS), missing=MIDDLEWARE_MISSING)
def approval_of_a_tool(world: World, way: str) -> None:
    middleware = import_module("langchain.agents.middleware").HumanInTheLoopMiddleware

    @tool
    def book(query: str) -> str:
        """Books."""
        return "Booked."

    model = stepping(lambda q: pick((kit.SEARCH, q)), lambda q: pick(("book", q)))
    asking = middleware(interrupt_on={"book": True})
    app = agent(model, [search, book], middleware=[asking], checkpointer=saver())
    approved = import_module("langgraph.types").Command(resume={"decisions": [{"type": "approve"}]})
    called(world, way, app, asks(kit.QUESTION), approved)


FUNCTIONS_MISSING = None if has("langgraph.func") else "this LangGraph has no functions"


@scene(due(), missing=FUNCTIONS_MISSING, ways=("invoke", "stream"))
def an_entrypoint_that_waits(world: World, way: str) -> None:
    func = import_module("langgraph.func")
    find = func.task(lambda question: kit.store().similarity_search(question, k=2))
    tell = func.task(kit.ask)

    def rag(question: str) -> dict[str, Any]:
        documents = find(question).result()
        approved = approve({})
        return {kit.SAID: tell(question, documents).result(), "approved": approved}

    app = func.entrypoint(checkpointer=saver())(rag)
    called(world, way, app, kit.QUESTION, resume())


# Documents that no step of the request found.


def caches() -> bool:
    if GRAPHS_MISSING is not None:
        return False
    kind = import_module("langgraph.graph").StateGraph
    return "cache_policy" in signature(kind.add_node).parameters


CACHE_MISSING = None if caches() else "this LangGraph caches no nodes"


@scene(due(), due(), missing=CACHE_MISSING, name="a cached retrieve node, in threads")
def cached(world: World, way: str) -> None:
    made, policy = graph(), import_module("langgraph.types").CachePolicy()
    made.add_node("retrieve", searched, cache_policy=policy)
    made.add_node("generate", generate)
    cache = import_module("langgraph.cache.memory").InMemoryCache()
    app = chained(made, "retrieve", "generate").compile(cache=cache, checkpointer=saver())
    for name in ("t1", "t2"):
        call_graph(app, ASKED, thread(world, name), way)


def routed(name: str, then: str, *expected: Expected) -> None:
    def route(state: Any) -> str:
        if "?" not in state[kit.ASKED]:
            return "chat"
        return "generate" if state.get(kit.FOUND) else "retrieve"

    def chat(state: Any) -> dict[str, Any]:
        polite = kit.Chat(reply=lambda _: "You are welcome.")
        return {kit.SAID: kit.message_text(polite.invoke(state[kit.ASKED]))}

    def run(world: World, way: str) -> None:
        made = graph()
        for node, body in {"retrieve": searched, "generate": generate, "chat": chat}.items():
            made.add_node(node, body)
        made.add_conditional_edges("__start__", route, ["retrieve", "generate", "chat"])
        made.add_edge("retrieve", "generate")
        made.add_edge("generate", "__end__")
        made.add_edge("chat", "__end__")
        called(world, way, made.compile(checkpointer=saver()), ASKED, {kit.ASKED: then})

    scene(due(), *expected, name=name)(run)


FOLLOW_UP = "And when does it return?"
KEPT = due(question=FOLLOW_UP, contexts=kit.top(), answer=kit.answer_to(FOLLOW_UP, kit.top()))
routed("a turn answered from kept documents", FOLLOW_UP, KEPT)
routed("a turn without documents", "Thanks a lot.")
