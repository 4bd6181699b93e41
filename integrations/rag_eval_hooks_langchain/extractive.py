"""A LangChain chat model that quotes the passages of its prompt: needs no key and no network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from rag_eval_hooks.cli.quoting import Mistake, reply

__all__ = ["ChatExtractive"]


class ChatExtractive(BaseChatModel):
    """Answers with the sentences of the prompt's passages that best match its question.

    Attributes:
        model: The name that stands on traces.
        mistakes: By question, how the answer is to be wrong.
    """

    model: str = "extractive"
    mistakes: Mapping[str, Mistake] = Field(default_factory=dict)

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
        text = reply(str(messages[-1].text), self.mistakes)
        message = AIMessage(text, response_metadata={"model_name": self.model})
        return ChatResult(generations=[ChatGeneration(message=message)])
