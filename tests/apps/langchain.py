"""Packages around LangChain: agents, tools of MCP, memories, chains, servers."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from deepagents import create_deep_agent
from fastapi import FastAPI
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import create_retriever_tool, tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.store.memory import InMemoryStore
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm
from langmem import create_manage_memory_tool, create_search_memory_tool
from langserve import add_routes
from starlette.testclient import TestClient

from rag_eval_hooks_langchain import RagEvalCallbackHandler, disable, enable
from tests.apps.case import Apps, Case, Make, Texts
from tests.matrix.langchain.agents import asks
from tests.matrix.langchain.kit import Bags, Chat, call, joined, prompt_text, store, top
from tests.matrix.world import World

WAYS = ("invoke", "ainvoke", "astream", "enable")


def _call(asked: Case, world: World, way: str) -> None:
    config: Any = {**asked.config}
    if way == "enable":
        enable(world.evals)
    else:
        config["callbacks"] = [RagEvalCallbackHandler(world.evals)]
    try:
        if asked.ask is not None:
            asked.ask(config)
        else:
            call("invoke" if way == "enable" else way, asked.chain, [asked.given], config)
    finally:
        disable()


APPS = Apps(_call)


@pytest.mark.parametrize(("make", "way"), APPS.cases)
def test_application_of_others_is_captured_right(make: Make, way: str) -> None:
    APPS.check(make, way)


def model(*replies: tuple[str, str], default: str = "") -> Chat:
    def reply(messages: list[BaseMessage]) -> str:
        prompt = prompt_text(messages)
        return next((said for marker, said in replies if marker in prompt), default)

    return Chat(reply=reply, custom_get_token_ids=lambda text: list(range(len(text.split()))))


def steps(*calls: AIMessage | str, seen: list[str] | None = None) -> Chat:
    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        if seen is not None:
            seen.append(prompt_text(messages))
        last = max((n for n, m in enumerate(messages) if m.type == "human"), default=0)
        done = sum(message.type == "ai" for message in messages[last:])
        return calls[min(done, len(calls) - 1)]

    return Chat(reply=reply)


def tool_call(name: str, **arguments: Any) -> AIMessage:
    made = {"name": name, "args": arguments, "id": f"call-{name}", "type": "tool_call"}
    return AIMessage(content="", tool_calls=[made])


def retriever(texts: Texts) -> Any:
    return store(texts.sheets).as_retriever(search_kwargs={"k": 3})


def best(texts: Texts, question: str, k: int = 3) -> list[str]:
    return top(question, k, texts.sheets)


def search_tool(texts: Texts) -> Any:
    how: Any = {"response_format": "content_and_artifact"}
    return create_retriever_tool(retriever(texts), "search_sheets", "Searches.", **how)


def agent_case(texts: Texts, chain: Any, contexts: Any = None, **more: Any) -> Case:
    contexts = best(texts, texts.query) if contexts is None else contexts
    return Case(chain, asks(texts.asked), contexts, texts.answer, **more)


def searching(texts: Texts, before: tuple[str, ...] = (), **more: Any) -> Chat:
    return steps(*before, tool_call("search_sheets", query=texts.query), texts.answer, **more)


@APPS.app("langgraph-supervisor", *WAYS)
def supervised(texts: Texts) -> Case:
    # The supervisor's call stands among the messages since the question.
    expert = create_agent(searching(texts, ("",)), [search_tool(texts)], name="expert")
    head = steps(tool_call("transfer_to_expert"), texts.answer)
    return agent_case(texts, create_supervisor([expert], model=head).compile())


@APPS.app("langgraph-swarm", *WAYS)
def swarm(texts: Texts) -> Case:
    handoff = create_handoff_tool(agent_name="expert")
    front = create_agent(steps(tool_call("transfer_to_expert")), [handoff], name="front")
    expert = create_agent(searching(texts, ("",)), [search_tool(texts)], name="expert")
    return agent_case(texts, create_swarm([front, expert], default_active_agent="front").compile())


@APPS.app("deepagents, file written and listed", *WAYS)
def deep_with_files(texts: Texts) -> Case:

    @tool
    def search_sheets(query: str) -> str:
        """Search."""
        return best(texts, query, 1)[0]

    chat = steps(
        tool_call("search_sheets", query=texts.query),
        tool_call("write_file", file_path="/notes.md", content=f"Remember: {texts.answer}"),
        tool_call("ls", path="/"),
        texts.answer,
    )
    chain = create_deep_agent(model=chat, tools=[search_sheets])
    return agent_case(texts, chain, best(texts, texts.query, 1))


@APPS.app("langmem", *WAYS)
def memory(texts: Texts) -> Case:
    memories = InMemoryStore(index={"dims": 512, "embed": Bags()})
    memories.put(("memories",), "one", {"content": texts.sheet})
    chat = steps(
        tool_call("search_memory", query=texts.query, limit=1),
        tool_call("manage_memory", content="The user asked for a figure.", action="create"),
        texts.answer,
    )
    search = create_search_memory_tool(("memories",), response_format="content_and_artifact")
    tools = [search, create_manage_memory_tool(("memories",))]
    return agent_case(texts, create_agent(chat, tools, store=memories), [texts.sheet])


SERVER = """
import sys
from mcp.server.fastmcp import FastMCP
server = FastMCP("sheets")
@server.tool()
def search_sheets(query: str) -> list[str]:
    return [sheet for sheet in sys.argv[1:] if query in sheet]
server.run("stdio")
"""


@APPS.app("langchain-mcp-adapters", "ainvoke", "enable")
def mcp(texts: Texts) -> Case:
    arguments = ["-c", SERVER, *texts.sheets]
    settings: Any = {"command": sys.executable, "args": arguments, "transport": "stdio"}

    def ask(config: Any) -> None:
        async def once() -> None:
            tools = await MultiServerMCPClient({"sheets": settings}).get_tools()
            await create_agent(searching(texts), tools).ainvoke(asks(texts.asked), config)

        asyncio.run(once())

    return agent_case(texts, None, [texts.sheet], ask=ask)


@APPS.app("langserve", "invoke", "enable")
def served(texts: Texts) -> Case:
    prompt = ChatPromptTemplate.from_template("Use only:\n{context}\n\nQuestion: {input}")
    inputs: Any = {"context": retriever(texts) | joined, "input": RunnablePassthrough()}
    chain = inputs | prompt | model(default=texts.answer) | StrOutputParser()

    def ask(config: Any) -> None:
        server = FastAPI()
        add_routes(server, chain.with_config(config), path="/rag")
        with TestClient(server) as client:
            reply = client.post("/rag/invoke", json={"input": texts.asked})
            assert reply.json()["output"] == texts.answer, reply.text

    return Case(None, None, best(texts, texts.asked), texts.answer, ask=ask)


@APPS.app("VectorStoreRetrieverMemory", "enable")
def remembered(texts: Texts) -> Case:
    from langchain_classic.chains import ConversationChain
    from langchain_classic.memory import VectorStoreRetrieverMemory

    kept = VectorStoreRetrieverMemory(retriever=retriever(texts), return_docs=False)
    chain = ConversationChain(llm=model(default=texts.answer), memory=kept)
    return Case(chain, {"input": texts.asked}, best(texts, texts.asked), texts.answer)
