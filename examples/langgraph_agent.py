"""Score the answer of an agent whose contexts are in its search tool's artifact.

pip install "rag-eval-hooks[langchain]" langchain langgraph
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

from rag_eval_hooks import MemorySink, RagEval
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
    """Replacement for a chat model with tools: it searches, then repeats what it found."""

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
            message = AIMessage(str(last.content))
        return ChatResult(generations=[ChatGeneration(message=message)])


def main() -> None:
    """Ask one question and print what was captured and scored."""
    sink = MemorySink()
    agent: Any = create_agent(Scripted(), [search])
    with RagEval(metrics=["ragas.faithfulness"], sinks=[sink]) as evals:
        handler = RagEvalCallbackHandler(evals)
        agent.invoke(
            {"messages": [("user", "When does the ferry to Skarn leave?")]},
            {"callbacks": [handler], "metadata": {"user_id": "u1"}},
        )
        evals.flush()
    (result,) = sink.results
    print("question:", result.sample.question)
    print("contexts:", [context.id for context in result.sample.contexts or ()])
    print("answer:", result.sample.answer)
    print("faithfulness:", getattr(result.outcomes["ragas.faithfulness"], "value", None))


if __name__ == "__main__":
    main()
