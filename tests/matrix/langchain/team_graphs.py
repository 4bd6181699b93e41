"""Graphs and agents as teams build them, beyond what tutorials show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from operator import attrgetter
from typing import Any, TypedDict

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import create_model

from tests.matrix.langchain.agents import (
    AGENT,
    TOOL_SPANS,
    asks,
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
    graph,
    searched,
    state,
)
from tests.matrix.langchain.kit import (
    ASKED,
    FOUND,
    GRAPH_WAYS,
    QUESTION,
    QUESTIONS,
    SAID,
    SEARCH,
    SHOWN,
    Chat,
    answer_to,
    as_reply,
    ask,
    joined,
    message_text,
    prompt_text,
    shape,
    store,
    top,
)
from tests.matrix.langchain.lcel import plain
from tests.matrix.langchain.teams import GROUP, TWO, base, told
from tests.matrix.shape import Shape

__all__ = ["SHAPES"]

OTHER = QUESTIONS[1]


def deep() -> Any:
    """The retrieval is three graphs deep."""
    inner = graph()
    inner.add_node("retrieve", searched)
    app = chained(inner, "retrieve").compile()
    for _ in range(2):
        outer = graph()
        outer.add_node("inner", app)
        app = chained(outer, "inner").compile()
    made = graph()
    made.add_node("find", app)
    made.add_node("generate", generate)
    return chained(made, "find", "generate").compile()


def narrow() -> Any:
    """Two nodes retrieve side by side; only the answer comes out."""
    kind = import_module("langgraph.graph").StateGraph
    name = "output_schema" if "output_schema" in signature(kind).parameters else "output"
    make: Any = TypedDict
    made = kind(state(**ADDED), **{name: make("Narrow", {SAID: str})})
    made.add_node("one", lambda s: {FOUND: store().similarity_search(s[ASKED], k=1)})
    made.add_node("two", lambda s: {FOUND: store().similarity_search(OTHER, k=1)})
    made.add_node("tell", lambda s: {SAID: ask(s[ASKED], s[FOUND])})
    made.add_edge("__start__", "one")
    made.add_edge("__start__", "two")
    made.add_edge(["one", "two"], "tell")
    made.add_edge("tell", "__end__")
    return made.compile()


def side_by_side(_: str) -> list[str]:
    return list(dict.fromkeys([*top(QUESTION, 1), *top(OTHER, 1)]))


def joining(documents: bool) -> Callable[[], Any]:
    """The context is one text in the state, with or without the documents of before."""

    def build() -> Any:
        made = graph()
        if documents:
            made.add_node("find", searched)
            made.add_node("join", lambda s: {SHOWN: joined(s[FOUND])})
        else:
            made.add_node("find", lambda s: {ASKED: s[ASKED]})
            found = lambda s: {SHOWN: joined(searched(s)[FOUND])}  # noqa: E731
            made.add_node("join", found)
        made.add_node("tell", lambda s: {SAID: told().invoke(s)})
        return chained(made, "find", "join", "tell").compile()

    return build


def one_text(question: str) -> list[str]:
    return ["\n\n".join(top(question))]


def compressing() -> Any:
    """A node lets a model shorten what it found."""

    def compress(state: Any) -> dict[str, Any]:
        model = Chat(reply=lambda messages: prompt_text(messages)[:70])
        found = store().similarity_search(state[ASKED], k=2)
        return {FOUND: [Document(message_text(model.invoke(d.page_content))) for d in found]}

    made = graph()
    made.add_node("retrieve", compress)
    made.add_node("generate", generate)
    return chained(made, "retrieve", "generate").compile()


def compressed(question: str) -> list[str]:
    return [text[:70] for text in top(question)]


def with_fields() -> Any:
    fields: dict[str, Any] = {ASKED: (str, ...), FOUND: (list[Any], []), SAID: (str, "")}
    made = import_module("langgraph.graph").StateGraph(create_model("Fields", **fields))
    asked, found = attrgetter(ASKED), attrgetter(FOUND)
    made.add_node("find", lambda s: {FOUND: store().similarity_search(asked(s), k=2)})
    made.add_node("tell", lambda s: {SAID: ask(asked(s), found(s))})
    return chained(made, "find", "tell").compile()


def gathered() -> Any:
    """A node asks two retrievers at once."""

    async def find(state: Any) -> dict[str, Any]:
        found = await asyncio.gather(base(1).ainvoke(state[ASKED]), base(1).ainvoke(OTHER))
        return {FOUND: [document for documents in found for document in documents]}

    async def tell(state: Any) -> dict[str, Any]:
        inputs = {SHOWN: joined(state[FOUND]), ASKED: state[ASKED]}
        return {SAID: await told().ainvoke(inputs)}

    made = graph()
    made.add_node("find", find)
    made.add_node("tell", tell)
    return chained(made, "find", "tell").compile()


def in_messages() -> Any:
    """A chain is one node of a graph of messages."""
    module = import_module("langgraph.graph")

    def rag(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage(plain().invoke(state["messages"][-1].content))]}

    made = module.StateGraph(module.MessagesState)
    made.add_node("rag", rag)
    return chained(made, "rag").compile()


def handed_over() -> Any:
    """One node hands over to an agent."""
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


@tool(SEARCH, return_direct=True, response_format="content_and_artifact")
def direct(query: str) -> tuple[str, list[Any]]:
    """Searches the handbook."""
    documents = store().similarity_search(query, k=2)
    return joined(documents), documents


def returned() -> Any:
    """Return an agent whose answer is the tool's text."""
    return agent(searching(), [direct])


def updating() -> Any:
    """The tool writes into the state, with the runtime that it is given."""
    command = import_module("langgraph.types").Command
    runtime: Any = import_module("langchain.tools").ToolRuntime

    def find(query: str, runtime: Any) -> Any:
        documents = store().similarity_search(query, k=2)
        message = ToolMessage(
            joined(documents), tool_call_id=runtime.tool_call_id, artifact=documents
        )
        return command(update={"messages": [message]})

    find.__annotations__["runtime"] = runtime
    return agent(searching(), [tool(SEARCH, description="Searches.")(find)])


FIELDS: dict[str, Any] = {SAID: (str, ...), "sources": (list[str], ...)}
Said = create_model("Said", **FIELDS)
"""A structured reply."""


def formatted() -> Any:
    """An agent whose reply has a schema."""
    strategy = import_module("langchain.agents.structured_output").ToolStrategy

    def reply(messages: list[BaseMessage]) -> AIMessage:
        turn = this_turn(messages)
        question = str(turn[0].content)
        if len(turn) == 1:
            return pick((SEARCH, question))
        arguments = {SAID: answer_to(question, top(question)), "sources": ["p0"]}
        call = {"name": "Said", "args": arguments, "id": "c9", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])

    return agent(Chat(reply=reply), [search], response_format=strategy(Said))


def graphs(name: str, build: Callable[[], Any], **more: Any) -> Shape:
    return shape(GROUP, name, build, **{"ways": GRAPH_WAYS, "spans": ONE, **GRAPH, **more})


def agents(name: str, build: Callable[[], Any], **more: Any) -> Shape:
    return shape(GROUP, name, build, **{"spans": TOOL_SPANS, **AGENT, **more})


FIXED: dict[str, Any] = {"questions": (QUESTION,)}
NO_RUNTIME = MIDDLEWARE_MISSING or (None if has("langchain.tools") else "no runtime for tools")

SHAPES = (
    graphs("graphs in graphs in graphs", deep),
    graphs("parallel nodes and an output schema", narrow, contexts=side_by_side, **FIXED),
    graphs(
        "a joined text in the state",
        joining(documents=False),
        contexts=one_text,
        answer=lambda q: answer_to(q, top(q)),
    ),
    graphs("documents, then joined in the state", joining(documents=True)),
    graphs(
        "a node that compresses",
        compressing,
        contexts=compressed,
        spans=("chat scripted",) * 3,
    ),
    graphs("a state of pydantic", with_fields),
    graphs(
        "retrievers gathered in a node",
        gathered,
        contexts=side_by_side,
        ways=tuple(way for way in GRAPH_WAYS if way.startswith("a")),
        spans=TWO,
        **FIXED,
    ),
    graphs(
        "a chain in a graph of messages",
        in_messages,
        inputs=asks,
        spans=("chat scripted", "retrieval InMemoryVectorStore"),
    ),
    agents("handed over to an agent", handed_over),
    agents(
        "a tool whose text is the answer",
        returned,
        answer=lambda q: one_text(q)[0],
        spans=("chat scripted", f"execute_tool {SEARCH}"),
    ),
    agents("a tool that updates the state", updating, missing=NO_RUNTIME),
    agents(
        "a structured reply",
        formatted,
        answer=lambda q: as_reply(answer_to(q, top(q)), sources=["p0"]),
        missing=MIDDLEWARE_MISSING,
    ),
)
