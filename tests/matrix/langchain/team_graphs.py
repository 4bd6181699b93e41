"""Graphs and agents as teams build them, beyond what tutorials show."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import signature
from operator import attrgetter
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import create_model

from tests.matrix.langchain import kit
from tests.matrix.langchain.agents import (
    AGENT,
    TOOL_SPANS,
    pick,
    search,
    searching,
    this_turn,
)
from tests.matrix.langchain.compat import MIDDLEWARE_MISSING, agent, has
from tests.matrix.langchain.graphs import (
    ADDED,
    GRAPH,
    ONE,
    chained,
    generate,
    line,
    searched,
    state,
)
from tests.matrix.langchain.teams import GROUP, told

OTHER = kit.QUESTIONS[1]


def side_by_side(_: str) -> list[str]:
    return list(dict.fromkeys([*kit.top(kit.QUESTION, 1), *kit.top(OTHER, 1)]))


def one_text(question: str) -> list[str]:
    return ["\n\n".join(kit.top(question))]


@tool(kit.SEARCH, return_direct=True, response_format="content_and_artifact")
def direct(query: str) -> tuple[str, list[Any]]:
    """Searches the handbook."""
    documents = kit.store().similarity_search(query, k=2)
    return kit.joined(documents), documents


FIELDS: dict[str, Any] = {kit.SAID: (str, ...), "sources": (list[str], ...)}
Said = create_model("Said", **FIELDS)
"""A structured reply."""


def graphs(name: str, **more: Any) -> Callable[[kit.Build], kit.Build]:
    return kit.shape(GROUP, name, **{"ways": kit.GRAPH_WAYS, "spans": ONE, **GRAPH, **more})


def agents(name: str, **more: Any) -> Callable[[kit.Build], kit.Build]:
    return kit.shape(GROUP, name, **{"spans": TOOL_SPANS, **AGENT, **more})


FIXED: dict[str, Any] = {"questions": (kit.QUESTION,)}
NO_RUNTIME = MIDDLEWARE_MISSING or (None if has("langchain.tools") else "no runtime for tools")


@graphs("graphs in graphs in graphs")
def deep() -> Any:
    app = line({"retrieve": searched}).compile()
    for _ in range(2):
        app = line({"inner": app}).compile()
    return line({"find": app, "generate": generate}).compile()


@graphs("parallel nodes and an output schema", contexts=side_by_side, **FIXED)
def narrow() -> Any:
    """Two nodes retrieve side by side; only the answer comes out."""
    kind = import_module("langgraph.graph").StateGraph
    name = "output_schema" if "output_schema" in signature(kind).parameters else "output"
    make: Any = TypedDict
    made = kind(state(**ADDED), **{name: make("Narrow", {kit.SAID: str})})
    made.add_node("one", lambda s: {kit.FOUND: kit.store().similarity_search(s[kit.ASKED], k=1)})
    made.add_node("two", lambda s: {kit.FOUND: kit.store().similarity_search(OTHER, k=1)})
    made.add_node("tell", lambda s: {kit.SAID: kit.ask(s[kit.ASKED], s[kit.FOUND])})
    made.add_edge("__start__", "one")
    made.add_edge("__start__", "two")
    made.add_edge(["one", "two"], "tell")
    made.add_edge("tell", "__end__")
    return made.compile()


@graphs(
    "a joined text under a name of documents",
    contexts=one_text,
    answer=lambda q: kit.answer_to(q, kit.top(q)),
)
def joined() -> Any:
    """A node searches, and joins what it found to one text under a name of documents."""
    found = {"find": lambda s: {"context": kit.joined(searched(s)[kit.FOUND])}}
    tell = {"tell": lambda s: {kit.SAID: told().invoke({**s, kit.SHOWN: s["context"]})}}
    return line({**found, **tell}, context=str).compile()


@graphs("a state of pydantic")
def with_fields() -> Any:
    fields: dict[str, Any] = {
        kit.ASKED: (str, ...),
        kit.FOUND: (list[Any], []),
        kit.SAID: (str, ""),
    }
    made = import_module("langgraph.graph").StateGraph(create_model("Fields", **fields))
    asked, found = attrgetter(kit.ASKED), attrgetter(kit.FOUND)
    made.add_node("find", lambda s: {kit.FOUND: kit.store().similarity_search(asked(s), k=2)})
    made.add_node("tell", lambda s: {kit.SAID: kit.ask(asked(s), found(s))})
    return chained(made, "find", "tell").compile()


@agents("handed over to an agent")
def handed_over() -> Any:
    module = import_module("langgraph.graph")
    command = import_module("langgraph.types").Command

    def triage(state: Any) -> Any:
        note = SystemMessage("The expert takes this from here on.")
        return command(goto="expert", update={"messages": [note]})

    made = module.StateGraph(module.MessagesState)
    made.add_node("triage", triage)
    made.add_node("expert", agent(searching(), [search]))
    made.add_edge("__start__", "triage")
    made.add_edge("expert", "__end__")
    return made.compile()


@agents(
    "a tool whose text is the answer",
    answer=lambda q: one_text(q)[0],
    spans=("chat scripted", f"execute_tool {kit.SEARCH}"),
)
def returned() -> Any:
    return agent(searching(), [direct])


@agents("a tool that updates the state", missing=NO_RUNTIME)
def updating() -> Any:
    """The tool writes into the state, with the runtime that it is given."""
    command = import_module("langgraph.types").Command
    runtime: Any = import_module("langchain.tools").ToolRuntime

    def find(query: str, runtime: Any) -> Any:
        documents = kit.store().similarity_search(query, k=2)
        message = ToolMessage(
            kit.joined(documents), tool_call_id=runtime.tool_call_id, artifact=documents
        )
        return command(update={"messages": [message]})

    find.__annotations__["runtime"] = runtime
    return agent(searching(), [tool(kit.SEARCH, description="Searches.")(find)])


@agents(
    "a structured reply",
    answer=lambda q: kit.as_reply(kit.answer_to(q, kit.top(q)), sources=["p0"]),
    missing=MIDDLEWARE_MISSING,
)
def formatted() -> Any:
    strategy = import_module("langchain.agents.structured_output").ToolStrategy

    def reply(messages: list[BaseMessage]) -> AIMessage:
        turn = this_turn(messages)
        question = str(turn[0].content)
        if len(turn) == 1:
            return pick((kit.SEARCH, question))
        arguments = {kit.SAID: kit.answer_to(question, kit.top(question)), "sources": ["p0"]}
        call = {"name": "Said", "args": arguments, "id": "c9", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])

    return agent(kit.Chat(reply=reply), [search], response_format=strategy(Said))
