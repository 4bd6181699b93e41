"""Score the answer of a LlamaIndex agent whose contexts come from its search tool.

pip install "rag-eval-hooks[llama-index]"
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool

from rag_eval_hooks import MemorySink, RagEval
from rag_eval_hooks_llama_index import enable

HANDBOOK = [
    TextNode(text="The ferry to Skarn leaves the north quay at 07:40 on working days.", id_="h1"),
    TextNode(text="Bicycles travel free of charge outside July and August.", id_="h2"),
]


def search(query: str) -> list[NodeWithScore]:
    """Search the handbook."""
    words = set(query.lower().strip("?").split())
    return [
        NodeWithScore(node=node, score=1.0)
        for node in HANDBOOK
        if len(words & set(node.text.lower().split())) > 1
    ]


def reply(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
    """Search, then answer with a time that the handbook does not have; replace by a model."""
    if messages[-1].role != MessageRole.TOOL:
        call = ToolCallBlock(
            tool_name="search", tool_kwargs={"query": messages[-1].content}, tool_call_id="1"
        )
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[call])
    text = TextBlock(text="The ferry to Skarn leaves the north quay at 09:15 on working days.")
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[text])


async def ask(question: str) -> None:
    """Ask the agent one question."""
    model = MockFunctionCallingLLM(response_generator=reply)
    agent = FunctionAgent(tools=[FunctionTool.from_defaults(search)], llm=model, streaming=False)
    await agent.run(user_msg=question)


def main() -> None:
    """Ask one question, and print what was captured and scored."""
    sink = MemorySink()
    with RagEval(metrics=["ragas.faithfulness"], sinks=[sink]) as evals:
        enable(evals)
        asyncio.run(ask("When does the ferry to Skarn leave?"))
        evals.flush()
    (result,) = sink.results
    print("contexts:", [context.id for context in result.sample.contexts or ()])
    print("answer:", result.sample.answer)
    print("faithfulness:", getattr(result.outcomes["ragas.faithfulness"], "value", None))


if __name__ == "__main__":
    main()
