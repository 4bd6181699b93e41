"""A LlamaIndex LLM that quotes the passages of its prompt: needs no key and no network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.base.llms.types import (
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from pydantic import Field

from rag_eval_hooks.cli.quoting import Mistake, reply

__all__ = ["Extractive"]


class Extractive(CustomLLM):
    """Answers with the sentences of the prompt's passages that best match its question.

    Attributes:
        model: The name that stands on traces.
        mistakes: By question, how the answer is to be wrong.
    """

    model: str = "extractive"
    mistakes: Mapping[str, Mistake] = Field(default_factory=dict)

    @property
    def metadata(self) -> LLMMetadata:
        """What LlamaIndex asks of a model."""
        return LLMMetadata(model_name=self.model, context_window=32_000)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """The quoted answer."""
        return CompletionResponse(text=reply(prompt, self.mistakes))

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        """The quoted answer, in one piece."""
        text = reply(prompt, self.mistakes)

        def pieces() -> CompletionResponseGen:
            yield CompletionResponse(text=text, delta=text)

        return pieces()
