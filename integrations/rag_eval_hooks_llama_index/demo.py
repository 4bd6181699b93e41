"""The demo's pipeline in LlamaIndex: splitter, index, retriever, synthesizer, model.

Everything but the model and the embeddings is LlamaIndex's own; the instrumentation is enabled in
the one line in which a user would enable it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from llama_index.core import Document, PromptTemplate, VectorStoreIndex, set_global_tokenizer
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.node_parser import SentenceSplitter
from pydantic import Field, PrivateAttr

from rag_eval_hooks import RagEval
from rag_eval_hooks.cli.framework import AskPipeline, PipelineSettings
from rag_eval_hooks.cli.quoting import PROMPT, HashedTfidf, Mistake, reply
from rag_eval_hooks_llama_index.instrumentation import enable

__all__ = ["Extractive", "build", "build_engine", "has_openai"]

_CHUNK_TOKENS = 80


def has_openai() -> bool:
    """Return whether LlamaIndex's package for OpenAI models is installed."""
    return (
        find_spec("llama_index.llms") is not None
        and find_spec("llama_index.llms.openai") is not None
    )


def build(evals: RagEval, passages: Sequence[str], settings: PipelineSettings) -> AskPipeline:
    """Return the pipeline, observed; see `rag_eval_hooks.cli.framework`."""
    engine = build_engine(passages, settings)
    enable(evals)

    def ask(question: str, metadata: Mapping[str, Any]) -> str:
        with instrument_tags(dict(metadata)):
            return str(engine.query(question))

    return ask


def build_engine(passages: Sequence[str], settings: PipelineSettings) -> BaseQueryEngine:
    """Return the query engine alone, as it would stand in an application.

    Raises:
        ImportError: sentence-transformers or llama-index-llms-openai is asked for and missing.
    """
    # The default tokenizer is downloaded.
    set_global_tokenizer(str.split)
    splitter = SentenceSplitter(chunk_size=_CHUNK_TOKENS, chunk_overlap=0, tokenizer=str.split)
    nodes = splitter.get_nodes_from_documents([Document(text=text) for text in passages])
    texts = [node.get_content() for node in nodes]
    index = VectorStoreIndex(nodes, embed_model=_embeddings(texts, settings))
    template = PROMPT.format(passages="{context_str}", question="{query_str}")
    return index.as_query_engine(
        llm=_model(settings),
        similarity_top_k=settings.k,
        text_qa_template=PromptTemplate(template),
    )


def _model(settings: PipelineSettings) -> LLM:
    if settings.model is None:
        return Extractive(mistakes=dict(settings.mistakes))
    try:
        from llama_index.llms.openai import OpenAI
    except ImportError:
        raise ImportError(
            "llama-index-llms-openai is missing; pip install llama-index-llms-openai"
        ) from None
    key = None if settings.api_key is None else settings.api_key.get_secret_value()
    made: LLM = OpenAI(
        model=settings.model, api_key=key, api_base=settings.base_url, temperature=0.0
    )
    return made


def _embeddings(texts: Sequence[str], settings: PipelineSettings) -> BaseEmbedding:
    if settings.embeddings is None:
        return _HashedEmbedding(texts)
    return _SentenceEmbeddings(settings.embeddings)


class _Local(BaseEmbedding):
    """Embeds queries as it embeds texts."""

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class _HashedEmbedding(_Local):
    _vectors: HashedTfidf = PrivateAttr()

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(model_name="hashed-tfidf")
        self._vectors = HashedTfidf(texts)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vectors.vector(text)


class _SentenceEmbeddings(_Local):
    _model: Any = PrivateAttr()

    def __init__(self, model: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise ImportError(
                'sentence-transformers is missing; pip install "rag-eval-hooks[embeddings]"'
            ) from None
        super().__init__(model_name=model)
        self._model = SentenceTransformer(model, device="cpu")

    def _get_text_embedding(self, text: str) -> list[float]:
        vector: list[float] = self._model.encode(text, normalize_embeddings=True).tolist()
        return vector


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
        """Properties of the model that LlamaIndex reads."""
        return LLMMetadata(model_name=self.model, context_window=32_000)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Return the quoted answer."""
        return CompletionResponse(text=reply(prompt, self.mistakes))

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        """Stream the quoted answer in one piece."""
        text = reply(prompt, self.mistakes)

        def pieces() -> CompletionResponseGen:
            yield CompletionResponse(text=text, delta=text)

        return pieces()
