"""Graphs that go on: after an error, in another process, beside another graph, from a cache."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from langchain_core.tools import tool

from rag_eval_hooks import Status
from tests.matrix.langchain import kit
from tests.matrix.langchain.agents import (
    asks,
    pick,
    search,
    stepping,
)
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
from tests.matrix.langchain.interrupts import approving
from tests.matrix.shape import Expected
from tests.matrix.world import World

WAYS = ("invoke", "ainvoke", "stream", "astream")
OTHER = kit.QUESTIONS[1]


FAILED = due(Status.ERROR, answer=None, spans=())


def saver() -> Any:
    return import_module("langgraph.checkpoint.memory").MemorySaver()


def config(world: World, thread: str = "t1") -> Any:
    return kit.config(world, configurable={"thread_id": thread})


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
    expected: Sequence[Expected],
    missing: str | None = GRAPHS_MISSING,
    ways: Sequence[str] = WAYS,
) -> Callable[[kit.Run], kit.Run]:
    return kit.scene(GROUP, name, expected, ways, missing)


def failing_once() -> Any:
    """The node after the retrieval raises when it runs first."""
    tries: list[int] = []

    def flaky(state: Any) -> dict[str, Any]:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("the model is down")
        return generate(state)

    return line({"retrieve": searched, "generate": flaky}).compile(checkpointer=saver())


def approve(state: Any) -> dict[str, Any]:
    import_module("langgraph.types").interrupt("May I?")
    return {kit.TRIES: 1}


def booking(world: World, first: Any, way: str) -> None:
    """An agent that searches, then asks for approval of another tool."""
    middleware = import_module("langchain.agents.middleware").HumanInTheLoopMiddleware

    @tool
    def book(query: str) -> str:
        """Books."""
        return "Booked."

    model = stepping(lambda q: pick((kit.SEARCH, q)), lambda q: pick(("book", q)))
    asking = middleware(interrupt_on={"book": True})
    app = agent(model, [search, book], middleware=[asking], checkpointer=saver())
    approved = import_module("langgraph.types").Command(resume={"decisions": [{"type": "approve"}]})
    call_graph(app, asks(kit.QUESTION), first, way)
    call_graph(app, approved, config(world), way)


def entrypoint(first: Callable[[World], Any]) -> Callable[[World, str], None]:
    """The functional interface: a task retrieves, the function waits, a task answers."""

    def body(world: World, way: str) -> None:
        func = import_module("langgraph.func")
        interrupt = import_module("langgraph.types").interrupt

        def find(question: str) -> list[Any]:
            return kit.store().similarity_search(question, k=2)

        find_task, tell_task = func.task(find), func.task(kit.ask)

        def rag(question: str) -> dict[str, Any]:
            documents = find_task(question).result()
            approved = interrupt("May I?")
            return {kit.SAID: tell_task(question, documents).result(), "approved": approved}

        app = func.entrypoint(checkpointer=saver())(rag)
        call_graph(app, kit.QUESTION, first(world), way)
        call_graph(app, resume(), config(world), way)

    return body


FUNCTIONS_MISSING = None if has("langgraph.func") else "this LangGraph has no functions"
SYNC = ("invoke", "stream")
BEFORE = ("chat scripted", "chat scripted", "chat scripted", "execute_tool book")


@one("recovery after an error", [FAILED, due()])
def recovered(world: World, way: str) -> None:
    app, told = failing_once(), config(world)
    with contextlib.suppress(ConnectionError):
        call_graph(app, {kit.ASKED: kit.QUESTION}, told, way)
    call_graph(app, None, told, way)
    call_graph(app, None, told, way)  # there is nothing left to do


@one("resumed in another process", [due()])
def resumed_elsewhere(world: World, way: str) -> None:
    app = approving()
    with another_process() as told:
        call_graph(app, {kit.ASKED: kit.QUESTION}, told, way)
    call_graph(app, resume(update={kit.TRIES: 3}), config(world), way)


@one(
    "two graphs of the same code in one thread",
    [
        due(Status.INTERRUPTED, answer=None, spans=()),
        due(),
        due(question=OTHER, contexts=kit.top(OTHER), answer=kit.answer_to(OTHER, kit.top(OTHER))),
    ],
)
def twins(world: World, way: str) -> None:
    told = config(world)
    first, second = approving(), approving()
    call_graph(first, {kit.ASKED: kit.QUESTION}, told, way)
    call_graph(second, {kit.ASKED: OTHER}, told, way)
    call_graph(second, resume(), told, way)
    call_graph(first, resume(), told, way)


@one("two interrupts", [due()])
def waiting_twice(world: World, way: str) -> None:
    made = graph()
    nodes = {"first": approve, "retrieve": searched, "second": approve, "generate": generate}
    for name, node in nodes.items():
        made.add_node(name, node)
    app, told = chained(made, *nodes).compile(checkpointer=saver()), config(world)
    for inputs in ({kit.ASKED: kit.QUESTION}, resume(), resume()):
        call_graph(app, inputs, told, way)


@one("on from a checkpoint", [due(), due()])
def from_a_checkpoint(world: World, way: str) -> None:
    """A finished graph goes on once more from the middle of its history."""
    app = line({"retrieve": searched, "generate": generate}).compile(checkpointer=saver())
    told = config(world)
    call_graph(app, {kit.ASKED: kit.QUESTION}, told, way)
    where = {"configurable": told["configurable"]}
    middle = next(s for s in app.get_state_history(where) if s.next == ("generate",))
    call_graph(app, None, {**told, **middle.config}, way)


@one(
    "a cancelled task, called again",
    [due(Status.CANCELLED, answer=None, spans=()), due()],
    ways=("ainvoke",),
)
def cancelled(world: World, way: str) -> None:
    """A task is cancelled in a node, and its graph called again."""
    begun: list[int] = []

    async def slow(state: Any) -> dict[str, Any]:
        begun.append(1)
        if len(begun) == 1:
            await asyncio.sleep(60)
        return generate(state)

    app, told = (
        line({"retrieve": searched, "generate": slow}).compile(checkpointer=saver()),
        config(world),
    )

    async def requests() -> None:
        task = asyncio.create_task(app.ainvoke({kit.ASKED: kit.QUESTION}, told))
        while not begun:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        await app.ainvoke(None, told)

    asyncio.run(requests())


@one(
    "approval of a tool",
    [due(spans=sorted([*BEFORE, f"execute_tool {kit.SEARCH}"]))],
    MIDDLEWARE_MISSING,
)
def approved_here(world: World, way: str) -> None:
    booking(world, config(world), way)


one("an entrypoint that waits", [due()], FUNCTIONS_MISSING, SYNC)(entrypoint(config))
