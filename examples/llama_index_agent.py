"""A LlamaIndex agent with a search tool. rag-eval-hooks scores the answer in the background.

    pip install ".[llama-index,openai]" llama-index-llms-openai    # in a clone
    python examples/llama_index_agent.py

Without OPENAI_API_KEY, a scripted model answers. Its answer states a wrong time and gets a low
score.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool

from rag_eval_hooks import RagEval
from rag_eval_hooks_llama_index import enable

HANDBOOK = [
    TextNode(text="The ferry to Skarn leaves the north quay at 07:40 on working days.", id_="h1"),
    TextNode(text="Bicycles travel free of charge outside July and August.", id_="h2"),
]
REAL = "OPENAI_API_KEY" in os.environ


def search(query: str) -> list[NodeWithScore]:
    """Search the handbook of the ferry line."""
    words = set(query.lower().strip("?").split())
    found = [node for node in HANDBOOK if words & set(node.text.lower().split()) - {"the", "of"}]
    return [NodeWithScore(node=node, score=1.0) for node in found]


def scripted(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
    """Search the handbook, then answer with a wrong time."""
    if messages[-1].role != MessageRole.TOOL:
        call = ToolCallBlock(
            tool_name="search", tool_kwargs={"query": messages[-1].content}, tool_call_id="1"
        )
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[call])
    text = TextBlock(text="The ferry to Skarn leaves the north quay at 09:15 on working days.")
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[text])


def model() -> FunctionCallingLLM:
    """Return a real model if `OPENAI_API_KEY` is set, else the scripted model."""
    if not REAL:
        return MockFunctionCallingLLM(response_generator=scripted)
    from llama_index.llms.openai import OpenAI

    llm: FunctionCallingLLM = OpenAI(model="gpt-4o-mini")
    return llm


async def ask(question: str) -> None:
    """Ask the agent one question."""
    tools = [FunctionTool.from_defaults(search)]
    agent = FunctionAgent(tools=tools, llm=model(), streaming=REAL)
    await agent.run(user_msg=question)


def main() -> None:
    """Ask one question and print the score of the answer."""
    judge = "openai:gpt-4o-mini" if REAL else "heuristic"
    with RagEval("ragas.faithfulness", judge=judge, sinks=["console"]) as evals:
        enable(evals)
        asyncio.run(ask("When does the ferry to Skarn leave?"))


if __name__ == "__main__":
    main()
