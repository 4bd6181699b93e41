"""Agents whose tools, middleware or sub-agents retrieve; their conversations and teams."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool, create_retriever_tool, tool

from rag_eval_hooks_langchain import record_contexts
from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import AGENTS_MISSING, MIDDLEWARE_MISSING, agent, has
from tests.matrix.langchain.graphs import call_graph
from tests.matrix.world import World

OTHER = kit.WORDS("What may dogs on the car deck do?")
TEAMS = "custom pipelines"
TOOL_SPANS = ("chat scripted", "chat scripted", f"execute_tool {kit.SEARCH}")


def asks(question: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}]}


def agents(name: str = "", group: str = "agents", **more: Any) -> Callable[[kit.Build], kit.Build]:
    usual = {"ways": kit.GRAPH_WAYS, "inputs": asks, "missing": AGENTS_MISSING, "spans": TOOL_SPANS}
    return kit.shape(group, name, **{**usual, **more})


def this_turn(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    start = max(n for n, message in enumerate(messages) if isinstance(message, HumanMessage))
    return list(messages[start:])


def pick(*calls: tuple[str, str]) -> AIMessage:
    made = [
        {"name": name, "args": {"query": query}, "id": f"c{n}{name}", "type": "tool_call"}
        for n, (name, query) in enumerate(calls)
    ]
    return AIMessage(content="", tool_calls=made)


def stepping(*steps: Callable[[str], AIMessage]) -> kit.Chat:
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


def found(query: str) -> tuple[str, list[Any]]:
    """Searches the handbook."""
    documents = kit.store().similarity_search(query, k=2)
    return kit.joined(documents), documents


search = tool(kit.SEARCH, response_format="content_and_artifact")(found)


@tool(kit.COUNT)
def count(query: str) -> str:
    """Counts words."""
    return str(len(query.split()))


def text_joined(question: str) -> list[str]:
    return ["\n\n".join(kit.top(question))]


def said(question: str) -> str:
    return kit.answer_to(question, kit.top(question))


def search_tool(run: Callable[[str], Any]) -> StructuredTool:
    # The oldest version's `tool` takes no description.
    return StructuredTool.from_function(run, name=kit.SEARCH, description="Searches.")


@agents("create_retriever_tool", spans=(*TOOL_SPANS, "  retrieval InMemoryVectorStore"))
def retriever_tool() -> Any:
    return agent(searching(), [create_retriever_tool(kit.base(), kit.SEARCH, "Searches.")])


@agents(contexts=text_joined, answer=said)
def a_tool_that_returns_text_only() -> Any:
    return agent(searching(), [search_tool(lambda query: found(query)[0])])


@agents(
    contexts=lambda question: list(dict.fromkeys([*kit.top(question), *kit.top(OTHER)])),
    spans=sorted(
        ["chat scripted"] * 3
        + [f"execute_tool {name}" for name in (kit.COUNT, kit.SEARCH, kit.SEARCH)]
    ),
)
def parallel_tool_calls_and_several_steps() -> Any:
    model = stepping(
        lambda question: pick((kit.SEARCH, question), (kit.COUNT, question)),
        lambda question: pick((kit.SEARCH, OTHER)),
    )
    return agent(model, [search, count])


@agents(
    "dynamic_prompt with record_contexts",
    write="record_contexts(documents)",
    missing=MIDDLEWARE_MISSING,
    spans=("chat scripted",),
)
def dynamic_prompt() -> Any:
    def system(request: Any) -> str:
        text, documents = found(str(this_turn(request.state["messages"])[0].content))
        record_contexts(documents)
        return f"Use only:\n{text}"

    middleware = import_module("langchain.agents.middleware").dynamic_prompt(system)
    return agent(stepping(), [], middleware=[middleware])


@agents("an agent that retrieves nothing", captured=False)
def nothing() -> Any:
    return agent(stepping(lambda question: pick((kit.COUNT, question))), [count])


@agents(
    "supervisor with a RAG sub-agent",
    answer=lambda question: f"The expert says: {said(question)}",
    spans=(
        *["chat scripted"] * 2,
        "execute_tool ask_expert",
        *["  chat scripted"] * 2,
        f"  execute_tool {kit.SEARCH}",
    ),
)
def supervisor() -> Any:
    inner = agent(searching(), [search])

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


# Conversations.

scene = functools.partial(kit.scene, "agents", missing=AGENTS_MISSING)


@scene([kit.due(q, spans=TOOL_SPANS) for q in kit.QUESTIONS], ("invoke", "stream", "ainvoke"))
def several_turns_with_a_checkpointer(world: World, way: str) -> None:
    """Several turns of a conversation; artifacts of earlier ones stand in the state."""

    def step(question: str) -> AIMessage:
        chosen = kit.COUNT if question.startswith("How many") else kit.SEARCH
        return pick((chosen, question))

    saver = import_module("langgraph.checkpoint.memory").MemorySaver()
    app = agent(stepping(step), [search, count], checkpointer=saver)
    config = kit.config(world, configurable={"thread_id": "t1"})
    for question in (*kit.QUESTIONS, "How many words are these?"):
        call_graph(app, asks(question), config, way)


def remembered(question: str) -> dict[str, Any]:
    text, documents = found(OTHER)
    earlier = [
        HumanMessage(OTHER),
        pick((kit.SEARCH, OTHER)),
        ToolMessage(text, tool_call_id=f"c0{kit.SEARCH}", artifact=documents),
        AIMessage("They may do little."),
    ]
    return {"messages": [*earlier, HumanMessage(question)]}


@agents(inputs=remembered)
def a_conversation_that_the_caller_keeps() -> Any:
    return agent(searching(), [search])


agents("no retrieval in a conversation with artifacts", captured=False, inputs=remembered)(nothing)


# Teams.


@agents(
    group=TEAMS,
    answer=lambda q: text_joined(q)[0],
    spans=("chat scripted", f"execute_tool {kit.SEARCH}"),
)
def a_tool_whose_text_is_the_answer() -> Any:
    options: dict[str, Any] = {"return_direct": True, "response_format": "content_and_artifact"}
    return agent(searching(), [tool(kit.SEARCH, **options)(found)])


NO_RUNTIME = MIDDLEWARE_MISSING or (None if has("langchain.tools") else "no runtime for tools")


@agents(group=TEAMS, missing=NO_RUNTIME)
def a_tool_that_updates_the_state() -> Any:
    command = import_module("langgraph.types").Command

    def find(query: str, runtime: Any) -> Any:
        text, documents = found(query)
        told = ToolMessage(text, tool_call_id=runtime.tool_call_id, artifact=documents)
        return command(update={"messages": [told]})

    find.__annotations__["runtime"] = import_module("langchain.tools").ToolRuntime
    return agent(searching(), [tool(kit.SEARCH, description="Searches.")(find)])


# Results in Anthropic's blocks.


def search_results(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "type": "search_result",
            "source": f"https://{kit.SEARCH}.example/{number}",
            "title": kit.COUNT,
            "content": [{"type": "text", "text": text}],
            "citations": {"enabled": True},
        }
        for number, text in enumerate(texts)
    ]


@agents("an agent's search results in Anthropic's blocks")
def in_blocks() -> Any:
    return agent(searching(), [search_tool(lambda query: search_results(kit.top(query)))])
