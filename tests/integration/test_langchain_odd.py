"""Objects that cannot be read, short documents, items of a store, threads of one name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool

from rag_eval_hooks import Status
from rag_eval_hooks.config import limits
from tests.matrix.langchain import graphs
from tests.matrix.langchain.agents import pick
from tests.matrix.langchain.compat import AGENTS_MISSING, GRAPHS_MISSING, agent
from tests.matrix.langchain.kit import (
    ASKED,
    FOUND,
    QUESTION,
    SAID,
    Chat,
    joined,
    top,
)
from tests.matrix.world import World
from tests.support.langchain_requests import config, texts

needs_graphs = pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))
needs_agents = pytest.mark.skipif(AGENTS_MISSING is not None, reason=str(AGENTS_MISSING))
REPLY = "It leaves at 07:40, as it does on every working day."


@needs_graphs
def test_items_of_a_graphs_store_are_documents(world: World) -> None:
    """A list of items is found by the name of its key, each with its key as id."""
    memory = pytest.importorskip("langgraph.store.memory").InMemoryStore()
    for number, text in enumerate(top(k=2)):
        memory.put(("docs",), f"k{number}", {"text": text})

    def answer(state: Any) -> dict[str, Any]:
        told = "\n".join(item.value["text"] for item in state[FOUND])
        return {SAID: Chat(reply=lambda messages: REPLY).invoke(told).content}

    made = graphs.graph()
    made.add_node("retrieve", lambda state: {FOUND: memory.search(("docs",), limit=2)})
    made.add_node("generate", answer)
    graph = graphs.chained(made, "retrieve", "generate").compile()
    graph.invoke({ASKED: QUESTION}, config(world))
    (seen,) = world.seen()
    assert sorted((c.text, c.id) for c in seen.sample.contexts or ()) == sorted(
        (text, f"k{number}") for number, text in enumerate(top(k=2))
    )


def approved(secret: str) -> Any:
    """A tenant's graph, with a memory of its own."""
    types = import_module("langgraph.types")
    memory = import_module("langgraph.checkpoint.memory")
    if not hasattr(types, "interrupt"):
        pytest.skip("this version has no interrupt()")

    def answer(state: Any) -> dict[str, Any]:
        types.interrupt("may I?")
        prompt = joined(state[FOUND])
        return {SAID: Chat(reply=lambda messages: REPLY).invoke(prompt).content}

    made = graphs.graph()
    found = [Document(page_content=f"The tariff of the tenant {secret} is known to nobody else.")]
    made.add_node("retrieve", lambda state: {FOUND: found})
    made.add_node("generate", answer)
    return graphs.chained(made, "retrieve", "generate").compile(checkpointer=memory.MemorySaver())


@needs_graphs
def test_one_user_goes_on_with_nothing_of_another(world: World) -> None:
    """Tenants have threads of one name and ask the same: what one left is not the other's."""
    ours, theirs = approved("A"), approved("B")
    thread = {"configurable": {"thread_id": "1"}}
    asked = {ASKED: QUESTION}
    resume = import_module("langgraph.types").Command(resume="yes")
    ours.invoke(asked, thread)
    theirs.invoke(asked, {**config(world), **thread, "metadata": {"user_id": "B"}})
    ours.invoke(resume, {**config(world), **thread, "metadata": {"user_id": "A"}})
    theirs.invoke(resume, {**config(world), **thread, "metadata": {"user_id": "B"}})
    seen = [found.sample for found in world.seen()]
    assert not [s for s in seen for other in "AB" if other != s.user_id and f"t {other} " in str(s)]
    assert {s.user_id: (s.status, texts(s)) for s in seen} == {
        user: (Status.OK, [f"The tariff of the tenant {user} is known to nobody else."])
        for user in "AB"
    }


def looking(steps: int) -> tuple[Chat, BaseTool, list[str]]:
    """An agent's model that looks so many times, its tool, and the documents of that."""
    found = [f"Sheet {n} of the timetable, {n * 7} departures are on it." for n in range(steps)]

    @tool(response_format="content_and_artifact")
    def look(query: str) -> tuple[str, Any]:
        """Looks a sheet up."""
        sheet = found[int(query)]
        return sheet, [Document(page_content=sheet)]

    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        done = sum(isinstance(message, ToolMessage) for message in messages)
        return pick(("look", str(done))) if done < steps else REPLY

    return Chat(reply=reply), look, found


@needs_agents
def test_a_long_history_is_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call of an agent is given the whole history, which is in memory once."""
    monkeypatch.setattr(limits, "INTERACTION_CHARS", 100_000)
    world = World()
    model, look, found = looking(12)
    history = [HumanMessage("An earlier question. " * 50) for _ in range(40)]
    messages = {"messages": [*history, HumanMessage(QUESTION)]}
    agent(model, [look]).invoke(messages, {**config(world), "recursion_limit": 60})
    (seen,) = world.seen()
    assert texts(seen.sample) == found
    assert seen.sample.truncated == ()
    world.close()
