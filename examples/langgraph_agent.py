"""Score the answers of a LangGraph agent in the background, with one callback.

    pip install "rag-eval-hooks[langchain]" langchain langgraph
    python examples/langgraph_agent.py

The built-in judge needs no key and no network. Replace the tool and the model with yours. The
contexts are in the tool's artifact. This model gets the time wrong, and the score shows it.
"""

from __future__ import annotations

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


@tool(response_format="content_and_artifact")
def search(query: str) -> tuple[str, list[Document]]:
    """Search the handbook."""
    words = set(query.lower().strip("?").split())
    found = [d for d in HANDBOOK if len(words & set(d.page_content.lower().split())) > 1]
    return "\n".join(document.page_content for document in found), found


class Scripted(BaseChatModel):
    """Replacement for a chat model with tools: it searches, then answers."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Return the model unchanged: it knows its only tool."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        last = messages[-1]
        if last.type == "human":
            call = {"name": "search", "args": {"query": str(last.content)}, "id": "1"}
            message = AIMessage("", tool_calls=[{**call, "type": "tool_call"}])
        else:
            message = AIMessage(
                "The ferry to Skarn leaves the north quay at 08:40 on every working day."
            )
        return ChatResult(generations=[ChatGeneration(message=message)])


evals = RagEval(metrics=["ragas.faithfulness"], sinks=["console"])
agent: Any = create_agent(Scripted(), [search])
agent.invoke(
    {"messages": [("user", "When does the ferry to Skarn leave?")]},
    {"callbacks": [RagEvalCallbackHandler(evals)], "metadata": {"user_id": "u1"}},
)
evals.flush()
