"""The demo's pipeline in LlamaIndex. An application adds only `enable(evals)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llama_index.core import PromptTemplate, set_global_tokenizer
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.llms import CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from examples.demo.handbook import PROMPT, nearest, scripted_answer
from rag_eval_hooks import RagEval
from rag_eval_hooks_llama_index import enable

__all__ = ["build"]


class HandbookRetriever(BaseRetriever):
    """Returns the passages that share the most words with the question."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=text)) for text in nearest(query_bundle.query_str)]


class ScriptedModel(CustomLLM):
    """Returns the scripted answers."""

    model: str = "scripted"

    @property
    def metadata(self) -> LLMMetadata:
        """Return the properties of the model."""
        return LLMMetadata(model_name=self.model, context_window=32_000)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Return the scripted answer."""
        return CompletionResponse(text=scripted_answer(prompt))

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        """Return the scripted answer in one piece."""
        answer = scripted_answer(prompt)
        return (CompletionResponse(text=part, delta=part) for part in [answer])


def build(evals: RagEval) -> Callable[[str, Mapping[str, Any]], object]:
    """Return a function that asks the query engine a question, with metadata."""
    set_global_tokenizer(str.split)  # else LlamaIndex downloads a tokenizer
    template = PromptTemplate(PROMPT.format(passages="{context_str}", question="{query_str}"))
    engine = RetrieverQueryEngine.from_args(
        HandbookRetriever(), llm=ScriptedModel(), text_qa_template=template
    )
    enable(evals)

    def ask(question: str, metadata: Mapping[str, Any]) -> object:
        with instrument_tags(dict(metadata)):
            return engine.query(question)

    return ask
