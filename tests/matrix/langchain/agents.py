"""Agents whose tools, middleware or sub-agents retrieve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from langchain_core.callbacks import dispatch_custom_event
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import create_retriever_tool, tool

from rag_eval_hooks_langchain import record_contexts
from rag_eval_hooks_langchain.handler import CONTEXTS_EVENT
from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import (
    AGENTS_MISSING,
    MIDDLEWARE_MISSING,
    agent,
)

GROUP = "agents"
OTHER = kit.WORDS("What may dogs on the car deck do?")


def asks(question: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}]}


def this_turn(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    start = max(n for n, message in enumerate(messages) if isinstance(message, HumanMessage))
    return list(messages[start:])


def pick(*calls: tuple[str, str]) -> AIMessage:
    made = [
        {"name": name, "args": {"query": query}, "id": f"c{n}{name}", "type": "tool_call"}
        for n, (name, query) in enumerate(calls)
    ]
    return AIMessage(content="", tool_calls=made)


Step = Callable[[str], AIMessage]


def stepping(*steps: Step) -> kit.Chat:
    """A model that takes its steps one after another, then answers from its turn's prompt."""

    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        turn = this_turn(messages)
        question = str(turn[0].content)
        done = sum(isinstance(message, AIMessage) for message in turn)
        if done < len(steps):
            return steps[done](question)
        seen = kit.prompt_text([m for m in messages if m.type == "system"] + turn)
        return kit.answer_to(question, [text for text in kit.PASSAGES if text[:60] in seen])

    return kit.Chat(reply=reply)


def searching() -> kit.Chat:
    return stepping(lambda question: pick((kit.SEARCH, question)))


@tool(kit.SEARCH, response_format="content_and_artifact")
def search(query: str) -> tuple[str, list[Any]]:
    """Searches the handbook."""
    documents = kit.store().similarity_search(query, k=2)
    return kit.joined(documents), documents


@tool(kit.SEARCH)
def search_text(query: str) -> str:
    """Searches the handbook."""
    return kit.joined(kit.store().similarity_search(query, k=2))


@tool(kit.COUNT)
def count(query: str) -> str:
    """Counts words."""
    return str(len(query.split()))


def artifact() -> Any:
    return agent(searching(), [search])


def text_joined(question: str) -> list[str]:
    return ["\n\n".join(kit.top(question))]


def both(question: str) -> list[str]:
    return list(dict.fromkeys([*kit.top(question), *kit.top(OTHER)]))


def dynamic_prompt(record: Callable[[Any], object]) -> Callable[[], Any]:
    def build() -> Any:
        def system(request: Any) -> str:
            question = str(this_turn(request.state["messages"])[0].content)
            documents = kit.store().similarity_search(question, k=2)
            record(documents)
            return f"Use only:\n{kit.joined(documents)}"

        middleware = import_module("langchain.agents.middleware").dynamic_prompt(system)
        return agent(stepping(), [], middleware=[middleware])

    return build


def said_by_expert(question: str) -> str:
    return f"The expert says: {kit.answer_to(question, kit.top(question))}"


TOOL_SPANS = ("chat scripted", "chat scripted", f"execute_tool {kit.SEARCH}")
RETRIEVER_SPANS = (*TOOL_SPANS, "  retrieval InMemoryVectorStore")
CALLED = (kit.COUNT, kit.SEARCH, kit.SEARCH)
AGENT: dict[str, Any] = {"ways": kit.GRAPH_WAYS, "inputs": asks, "missing": AGENTS_MISSING}
MIDDLEWARE: dict[str, Any] = {**AGENT, "missing": MIDDLEWARE_MISSING, "spans": ("chat scripted",)}


def dispatched(documents: Any) -> None:
    dispatch_custom_event(CONTEXTS_EVENT, documents)


@kit.shape(GROUP, "create_retriever_tool", spans=RETRIEVER_SPANS, **AGENT)
def retriever_tool() -> Any:
    retriever = kit.base()
    return agent(searching(), [create_retriever_tool(retriever, kit.SEARCH, "Searches.")])


@kit.shape(
    GROUP,
    "a tool that returns text only",
    contexts=text_joined,
    answer=lambda question: kit.answer_to(question, kit.top(question)),
    spans=TOOL_SPANS,
    **AGENT,
)
def text_only() -> Any:
    return agent(searching(), [search_text])


@kit.shape(
    GROUP,
    "parallel tool calls and several steps",
    contexts=both,
    spans=sorted(["chat scripted"] * 3 + [f"execute_tool {name}" for name in CALLED]),
    **AGENT,
)
def parallel_and_steps() -> Any:
    model = stepping(
        lambda question: pick((kit.SEARCH, question), (kit.COUNT, question)),
        lambda question: pick((kit.SEARCH, OTHER)),
    )
    return agent(model, [search, count])


kit.shape(
    GROUP, "dynamic_prompt with record_contexts", write="record_contexts(documents)", **MIDDLEWARE
)(dynamic_prompt(record_contexts))


kit.shape(
    GROUP,
    "dynamic_prompt with a custom event",
    write='dispatch_custom_event("rag_eval.contexts", documents)',
    **MIDDLEWARE,
)(dynamic_prompt(dispatched))


@kit.shape(GROUP, "an agent that retrieves nothing", captured=False, **AGENT)
def nothing() -> Any:
    return agent(stepping(lambda question: pick((kit.COUNT, question))), [count])


@kit.shape(
    GROUP,
    "supervisor with a RAG sub-agent",
    answer=said_by_expert,
    spans=(
        *["chat scripted"] * 2,
        "execute_tool ask_expert",
        *["  chat scripted"] * 2,
        f"  execute_tool {kit.SEARCH}",
    ),
    **AGENT,
)
def supervisor() -> Any:
    inner = artifact()

    @tool
    def ask_expert(query: str) -> str:
        """Asks the expert."""
        out = inner.invoke({"messages": [("user", query)]})
        return kit.message_text(out["messages"][-1])

    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        turn = this_turn(messages)
        if len(turn) == 1:
            return pick(("ask_expert", str(turn[0].content)))
        return f"The expert says: {turn[-1].content}"

    return agent(kit.Chat(reply=reply), [ask_expert])
