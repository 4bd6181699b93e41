"""Agents of packages: supervisor, swarm, deepagents, langmem, middleware, tools of MCP."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ModelRequest,
    SummarizationMiddleware,
    dynamic_prompt,
)
from langchain_core.tools import create_retriever_tool, tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm
from langmem import create_manage_memory_tool, create_search_memory_tool

from tests.apps.case import Case
from tests.apps.langchain_kit import (
    AGENT_WAYS,
    app,
    best,
    model,
    retriever,
    steps,
    tool_call,
)
from tests.apps.texts import Texts
from tests.matrix.langchain.kit import Bags, store
from tests.matrix.shape import Shape

ECHOES = "tools whose text is no find"


def asks(question: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}]}


def search_tool(texts: Texts) -> Any:
    """A tool that gives the retriever's documents with their artifact."""
    return create_retriever_tool(
        retriever(texts), "search_sheets", "Searches.", response_format="content_and_artifact"
    )


@tool
def take_note(note: str) -> str:
    """Keep a note."""
    return f"Reflection recorded: {note}"


def searched(texts: Texts, number: int, build: Any, *more: Any) -> Case:
    question, answer = texts.question(number), texts.answer(number)
    query = f"the {texts.names[number]}"
    chat = steps(tool_call("search_sheets", query=query), *more, answer)
    return Case(build(chat), asks(question), question, best(texts, query), answer)


def supervised(texts: Texts) -> Case:
    """A supervisor that hands on to an agent with a retriever, and repeats what it says."""
    question, answer = texts.question(0), texts.answer(0)
    query = f"the {texts.names[0]}"
    # The supervisor's call stands among the messages since the question.
    said = steps("", tool_call("search_sheets", query=query), answer)
    expert = create_agent(said, [search_tool(texts)], name="expert")
    head = steps(tool_call("transfer_to_expert"), answer)
    chain = create_supervisor([expert], model=head).compile()
    return Case(chain, asks(question), question, best(texts, query), answer)


def swarm(texts: Texts) -> Case:
    question, answer = texts.question(1), texts.answer(1)
    query = f"the {texts.names[1]}"
    front = create_agent(
        steps(tool_call("transfer_to_expert")),
        [create_handoff_tool(agent_name="expert")],
        name="front",
    )
    # The hand-over stands among the messages since the question.
    said = steps("", tool_call("search_sheets", query=query), answer)
    expert = create_agent(said, [search_tool(texts)], name="expert")
    chain = create_swarm([front, expert], default_active_agent="front").compile()
    return Case(chain, asks(question), question, best(texts, query), answer)


def deep_with_files(texts: Texts) -> Case:
    """A deep agent that searches with a tool of text alone, writes a file and lists the folder."""
    question, answer = texts.question(3), texts.answer(3)
    query = f"the {texts.names[3]}"

    @tool
    def search_sheets(query: str) -> str:
        """Search."""
        return store(texts.sheets).similarity_search(query, k=1)[0].page_content

    chat = steps(
        tool_call("search_sheets", query=query),
        tool_call("write_file", file_path="/notes.md", content=f"Remember: {texts.answer(3)}"),
        tool_call("ls", path="/"),
        answer,
    )
    chain = create_deep_agent(model=chat, tools=[search_sheets])
    return Case(chain, asks(question), question, best(texts, query, k=1), answer)


def research(texts: Texts) -> Case:
    """A search that a model summarises inside the tool, then a note: open_deep_research.

    The summary is a model's words, and the page is in no event: no sample.
    """
    question, answer = texts.question(5), texts.answer(5)
    query = f"the {texts.names[5]}"
    summary = f"Summary of what was read: {texts.sheets[5]} Nothing else is of any use here."

    @tool
    def web_search(query: str) -> str:
        """Search and summarise."""
        page = store(texts.sheets).similarity_search(query, k=1)[0].page_content
        said = model(default=summary).invoke(f"Summarise this page: {page}").content
        return f"Results:\n\n--- SOURCE 1 ---\nURL: https://example.org/5\n\nSUMMARY:\n{said}"

    chat = steps(
        tool_call("web_search", query=query),
        tool_call("take_note", note=f"I have read enough about {query} and can write it down."),
        answer,
    )
    return Case(create_agent(chat, [web_search, take_note]), asks(question))


def memory(texts: Texts) -> Case:
    question, answer = texts.question(6), texts.answer(6)
    memories = InMemoryStore(index={"dims": 512, "embed": Bags()})
    memories.put(("memories",), "one", {"content": texts.sheets[6]})
    chat = steps(
        tool_call("search_memory", query=f"the {texts.names[6]}", limit=1),
        tool_call("manage_memory", content="The user asked for a figure.", action="create"),
        answer,
    )
    tools = [
        create_search_memory_tool(("memories",), response_format="content_and_artifact"),
        create_manage_memory_tool(("memories",)),
    ]
    chain = create_agent(chat, tools, store=memories)
    return Case(chain, asks(question), question, [texts.sheets[6]], answer)


def summarised(texts: Texts) -> Case:
    """The second turn of a conversation, whose first turn is summarised."""
    first, question = texts.question(0), texts.question(7)
    queries = [f"the {texts.names[number]}" for number in (0, 7)]
    summary = f"So far: {texts.answer(0)}"
    middleware = SummarizationMiddleware(
        model=model(default=summary), trigger=("messages", 5), keep=("messages", 3)
    )

    def agent(query: str, answer: str) -> Any:
        return create_agent(
            steps(tool_call("search_sheets", query=query), answer, seen=prompts),
            [search_tool(texts)],
            middleware=[middleware],
            checkpointer=saver,
        )

    prompts: list[str] = []
    saver = InMemorySaver()
    thread: dict[str, Any] = {"configurable": {"thread_id": str(texts.random.random())}}
    agent(queries[0], texts.answer(0)).invoke(asks(first), thread)
    answer = texts.answer(7)
    chain = agent(queries[1], answer)
    return Case(
        chain,
        asks(question),
        question,
        lambda: texts.within(prompts[-1]),
        answer,
        config=thread,
    )


def unseen(texts: Texts) -> Case:
    """Documents in the system prompt that no event shows: no sample, rather than a guess."""
    sheets = store(texts.sheets)

    def with_sheets(request: ModelRequest) -> str:
        found = sheets.similarity_search(str(request.messages[-1].content), k=2)
        return "Use only this:\n" + "\n\n".join(d.page_content for d in found)

    chat = model(default=texts.answer(1))
    chain = create_agent(chat, [], middleware=[dynamic_prompt(with_sheets)])
    return Case(chain, asks(texts.question(1)))


SERVER = """
import sys
from mcp.server.fastmcp import FastMCP
server = FastMCP("sheets")
@server.tool()
def search_sheets(query: str) -> list[str]:
    return [sheet for sheet in sys.argv[1:] if any(word in sheet for word in query.split())]
server.run("stdio")
"""


def mcp(texts: Texts) -> Case:
    """Tools of a real MCP server in a process of its own."""
    question, answer = texts.question(2), texts.answer(2)
    name = texts.names[2].split()[-1]
    arguments = ["-c", SERVER, *texts.sheets]
    settings: Any = {"command": sys.executable, "args": arguments, "transport": "stdio"}

    def ask(config: Any) -> None:
        async def once() -> None:
            tools = await MultiServerMCPClient({"sheets": settings}).get_tools()
            chat = steps(tool_call("search_sheets", query=name), answer)
            await create_agent(chat, tools).ainvoke(asks(question), config)

        asyncio.run(once())

    return Case(question=question, contexts=[texts.sheets[2]], answer=answer, ask=ask)


def shapes(seed: int) -> list[Shape]:
    ways = AGENT_WAYS
    return [
        app("agents", "langgraph-supervisor", supervised, seed, ways),
        app("agents", "langgraph-swarm", swarm, seed, ways),
        app("agents", "langchain-mcp-adapters", mcp, seed, ("ainvoke", "enable")),
        app("agents", "SummarizationMiddleware, second turn", summarised, seed, ways),
        app(ECHOES, "deepagents, file written and listed", deep_with_files, seed, ways),
        app(ECHOES, "langmem", memory, seed, ways),
        app(ECHOES, "search summarised in its tool, and a note", research, seed, ways),
        app("search without an event", "dynamic_prompt, not recorded", unseen, seed, ways),
    ]
