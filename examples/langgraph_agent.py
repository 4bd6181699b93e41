"""A LangGraph agent with a search tool. rag-eval-hooks scores the answer in the background.

    pip install ".[langchain,openai]" langchain langgraph langchain-openai    # in a clone
    python examples/langgraph_agent.py

Without OPENAI_API_KEY, a scripted model answers. Its answer states a wrong time and gets a low
score.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool

from rag_eval_hooks import RagEval
from rag_eval_hooks_langchain import RagEvalCallbackHandler

HANDBOOK = [
    Document("The ferry to Skarn leaves the north quay at 07:40 on every working day.", id="h1"),
    Document("Bicycles travel free of charge outside the months of July and August.", id="h2"),
]
REAL = "OPENAI_API_KEY" in os.environ


@tool(response_format="content_and_artifact")
def search(query: str) -> tuple[str, list[Document]]:
    """Search the handbook of the ferry line."""
    words = set(query.lower().strip("?").split())
    found = [d for d in HANDBOOK if words & set(d.page_content.lower().split()) - {"the", "of"}]
    return "\n".join(document.page_content for document in found), found


class Scripted(BaseChatModel):
    """Searches the handbook, then answers with a wrong time."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Return the model unchanged, because its script already contains the tool call."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        last = messages[-1]
        answer = "The ferry to Skarn leaves the north quay at 08:40 on every working day."
        message = AIMessage(answer)
        if last.type == "human":
            call = {"name": "search", "args": {"query": str(last.content)}, "id": "1"}
            message = AIMessage("", tool_calls=[{**call, "type": "tool_call"}])
        return ChatResult(generations=[ChatGeneration(message=message)])


def model() -> BaseChatModel:
    """Return a real model if `OPENAI_API_KEY` is set, else the scripted model."""
    if not REAL:
        return Scripted()
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-4o-mini")


def main() -> None:
    """Ask the agent one question."""
    judge = "openai:gpt-4o-mini" if REAL else "heuristic"
    with RagEval("ragas.faithfulness", judge=judge, sinks=["console"]) as evals:
        agent: Any = create_agent(model(), [search])
        question = "When does the ferry to Skarn leave?"
        config = {"callbacks": [RagEvalCallbackHandler(evals)], "metadata": {"user_id": "u1"}}
        agent.invoke({"messages": [("user", question)]}, config)


if __name__ == "__main__":
    main()
