"""Documents that no step of the request found: of a cached node, or of an earlier turn."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any

from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import GRAPHS_MISSING
from tests.matrix.langchain.graphs import call_graph, chained, due, generate, graph, searched
from tests.matrix.langchain.resumed import config, one, saver
from tests.matrix.world import World


def caches() -> bool:
    if GRAPHS_MISSING is not None:
        return False
    kind = import_module("langgraph.graph").StateGraph
    return "cache_policy" in signature(kind.add_node).parameters


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
            call_graph(app, {kit.ASKED: kit.QUESTION}, told, way)

    return body


def routed(*questions: str) -> Callable[[World, str], None]:

    def route(state: Any) -> str:
        if "?" not in state[kit.ASKED]:
            return "chat"
        return "generate" if state.get(kit.FOUND) else "retrieve"

    def body(world: World, way: str) -> None:
        made = graph()
        made.add_node("retrieve", searched)
        made.add_node("generate", generate)
        made.add_node("chat", chat)
        made.add_conditional_edges("__start__", route, ["retrieve", "generate", "chat"])
        made.add_edge("retrieve", "generate")
        made.add_edge("generate", "__end__")
        made.add_edge("chat", "__end__")
        app, told = made.compile(checkpointer=saver()), config(world)
        for question in questions:
            call_graph(app, {kit.ASKED: question}, told, way)

    return body


def chat(state: Any) -> dict[str, Any]:
    polite = kit.Chat(reply=lambda _: "You are welcome.")
    return {kit.SAID: kit.message_text(polite.invoke(state[kit.ASKED]))}


FOLLOW_UP = "And when does it return?"


CACHE_MISSING = None if caches() else "this LangGraph caches no nodes"


one("a cached retrieve node, in threads", [due(), due()], CACHE_MISSING)(cached(thread=True))


one(
    "a turn answered from kept documents",
    [due(), due(question=FOLLOW_UP, answer=kit.answer_to(FOLLOW_UP, kit.top()))],
)(routed(kit.QUESTION, FOLLOW_UP))


one("a turn without documents", [due()])(routed(kit.QUESTION, "Thanks a lot."))
