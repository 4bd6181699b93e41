"""Laws of the replies of tools: a record is one context, as the model was shown it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool

from tests.matrix.langchain.compat import AGENTS_MISSING, agent
from tests.matrix.langchain.kit import Chat
from tests.matrix.world import World
from tests.support.langchain_requests import config, only, texts
from tests.support.records import FINDS, NO_FINDS, RECORD_FORMS, drawn_record, envelope, number_in
from tests.support.variation import Variation, seeds

pytestmark = pytest.mark.skipif(AGENTS_MISSING is not None, reason=str(AGENTS_MISSING))


varied = pytest.mark.parametrize("seed", seeds(6))


def ask(world: World, found: Mapping[str, Any], about: str, answer: str) -> list[str]:
    """Ask an agent whose tools, of these names, find this; return what its model was shown."""
    shown: list[str] = []

    def say(messages: list[BaseMessage]) -> Any:
        shown[:] = [str(one.content) for one in messages if isinstance(one, ToolMessage)]
        calls = [{"name": name, "args": {"about": about}, "id": name} for name in found]
        return answer if shown else AIMessage("", tool_calls=calls)

    def tool(name: str) -> StructuredTool:
        def search(about: str) -> Any:
            return found[name]

        return StructuredTool.from_function(search, name=name, description="Searches.")

    question = Variation(len(answer)).question()
    made = agent(Chat(reply=say), list(map(tool, found)))
    made.invoke({"messages": [HumanMessage(question)]}, config(world))
    return shown


@varied
@pytest.mark.parametrize("form", RECORD_FORMS)
def test_a_record_of_a_tool_is_one_context(world: World, form: str, seed: int) -> None:
    """Nested values are not torn out of it, alone and beside what another tool found."""
    drawn = Variation(seed)
    record = drawn_record(drawn)
    found = {drawn.name(): RECORD_FORMS[form](record, drawn)}
    found |= {drawn.name(): drawn.passage()} if drawn.chance.random() < 0.5 else {}
    assert ask(world, found, "x", number_in(record)) == texts(only(world))


@varied
@pytest.mark.parametrize("as_text", [False, True])
def test_of_a_reply_with_hits_the_hits_count(world: World, as_text: bool, seed: int) -> None:
    """Counts, echoes and pages around them are no finds."""
    drawn = Variation(seed)
    passages = drawn.passages(drawn.chance.randint(1, 3))
    reply: Any = envelope(drawn, passages)
    ask(world, {drawn.name(): json.dumps(reply) if as_text else reply}, "x", passages[0][:30])
    assert texts(only(world)) == passages


@varied
@pytest.mark.parametrize("kind", NO_FINDS)
def test_what_says_nothing_is_no_find(world: World, kind: str, seed: int) -> None:
    """The time, failures and empty pages are no contexts, and alone no sample."""
    drawn = Variation(seed)
    reply = NO_FINDS[kind](drawn)
    (shown,) = ask(world, {drawn.name(): reply}, "x", drawn.sentence())
    assert world.seen() == []
    ask(world, {drawn.name(): reply, drawn.name(): drawn.passage()}, "x", shown[-30:])
    assert shown not in (texts(only(world)) or ())


@varied
@pytest.mark.parametrize("kind", FINDS)
def test_what_looks_like_a_failure_or_a_receipt_is_a_find(
    world: World, kind: str, seed: int
) -> None:
    """An order's status, an address and a balance are what was looked up."""
    drawn = Variation(seed)
    fact = str(drawn.chance.randint(1000, 9999))
    reply = FINDS[kind](drawn, fact)
    shown = ask(world, {drawn.name(): reply}, "x", fact)
    assert texts(only(world)) == shown


@varied
def test_a_plain_function_is_seen_by_its_message(world: World, seed: int) -> None:
    """A node that calls it and answers the model's call with the text is a tool."""
    drawn = Variation(seed)
    passage, node, question = drawn.passage(), drawn.name(), drawn.question()
    graphs = pytest.importorskip("langgraph.graph")

    def say(state: Any) -> Any:
        is_told = isinstance(state["messages"][-1], ToolMessage)
        call = AIMessage("", tool_calls=[{"name": node, "args": {"about": "x"}, "id": "1"}])
        model = Chat(reply=lambda _: passage[:30] if is_told else call)
        return {"messages": [model.invoke(state["messages"])]}

    made = graphs.StateGraph(graphs.MessagesState)
    made.add_node("say", say)
    made.add_node(node, lambda _: {"messages": [ToolMessage(passage, tool_call_id="1")]})
    made.add_edge("__start__", "say")
    made.add_edge(node, "say")
    made.add_conditional_edges(
        "say", lambda state: node if state["messages"][-1].tool_calls else "__end__"
    )
    made.compile().invoke({"messages": [HumanMessage(question)]}, config(world))
    assert texts(only(world)) == [passage]
