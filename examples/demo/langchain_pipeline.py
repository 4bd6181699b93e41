"""The demo's pipeline in LangChain. An application adds only the callback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

from examples.demo.handbook import PROMPT, nearest, scripted_answer
from rag_eval_hooks import RagEval
from rag_eval_hooks_langchain import RagEvalCallbackHandler

__all__ = ["build"]


class HandbookRetriever(BaseRetriever):
    """Returns the passages that share the most words with the question."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [Document(text) for text in nearest(query)]


class ScriptedChat(BaseChatModel):
    """Returns the scripted answers."""

    model: str = "scripted"

    @property
    def _llm_type(self) -> str:
        return self.model

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        answer = scripted_answer(str(messages[-1].text))
        message = AIMessage(answer, response_metadata={"model_name": self.model})
        return ChatResult(generations=[ChatGeneration(message=message)])


def _joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def build(evals: RagEval) -> Callable[[str, Mapping[str, Any]], object]:
    """Return a function that asks the chain a question, with metadata."""
    prompt = ChatPromptTemplate.from_messages([("human", PROMPT)])
    inputs = {"passages": HandbookRetriever() | _joined, "question": RunnablePassthrough()}
    chain = (inputs | prompt | ScriptedChat() | StrOutputParser()).with_config(run_name="demo")
    handler = RagEvalCallbackHandler(evals)

    def ask(question: str, metadata: Mapping[str, Any]) -> object:
        return chain.invoke(question, {"callbacks": [handler], "metadata": dict(metadata)})

    return ask
