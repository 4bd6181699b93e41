"""The demo's pipeline in LangChain: splitter, vector store, retriever, prompt, model, parser.

Everything but the model and the embeddings is LangChain's own; the callback is added in the one
line in which a user would add it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from pydantic import Field

from rag_eval_hooks import RagEval
from rag_eval_hooks.cli.framework import AskPipeline, PipelineSettings
from rag_eval_hooks.cli.quoting import PROMPT, HashedTfidf, Mistake, reply
from rag_eval_hooks_langchain import RagEvalCallbackHandler

__all__ = ["ChatExtractive", "build", "build_chain", "has_openai"]

_CHUNK_CHARS = 400


def has_openai() -> bool:
    """Return whether langchain-openai is installed."""
    return find_spec("langchain_openai") is not None


def build(evals: RagEval, passages: Sequence[str], settings: PipelineSettings) -> AskPipeline:
    """Return the pipeline with the callback in place; see `rag_eval_hooks.cli.framework`."""
    chain = build_chain(passages, settings)
    handler = RagEvalCallbackHandler(evals)

    def ask(question: str, metadata: Mapping[str, Any]) -> str:
        return chain.invoke(question, config={"callbacks": [handler], "metadata": dict(metadata)})

    return ask


def build_chain(passages: Sequence[str], settings: PipelineSettings) -> Runnable[str, str]:
    """Return the chain alone, as it would stand in an application.

    Raises:
        ImportError: sentence-transformers or langchain-openai is asked for and missing.
    """
    chunks = _splitter().split_documents([Document(text) for text in passages])
    store = InMemoryVectorStore(_embeddings(chunks, settings))
    store.add_documents(chunks)
    retriever = store.as_retriever(search_kwargs={"k": settings.k})
    prompt = ChatPromptTemplate.from_messages([("human", PROMPT)])
    inputs = {"passages": retriever | _joined, "question": RunnablePassthrough()}
    chain = inputs | prompt | _model(settings) | StrOutputParser()
    return chain.with_config(run_name="rag-eval-hooks-demo")


def _splitter() -> RecursiveCharacterTextSplitter:
    return RecursiveCharacterTextSplitter(
        chunk_size=_CHUNK_CHARS,
        chunk_overlap=0,
        separators=["\n\n", "\n", ". ", " "],
        keep_separator="end",
    )


def _joined(documents: Sequence[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def _embeddings(chunks: Sequence[Document], settings: PipelineSettings) -> Embeddings:
    if settings.embeddings is None:
        return _HashedEmbeddings([chunk.page_content for chunk in chunks])
    return _SentenceTransformerEmbeddings(settings.embeddings)


def _model(settings: PipelineSettings) -> BaseChatModel:
    if settings.model is None:
        return ChatExtractive(mistakes=dict(settings.mistakes))
    try:
        from langchain_openai import ChatOpenAI
    except ImportError:
        raise ImportError("langchain-openai is missing; pip install langchain-openai") from None
    return ChatOpenAI(
        model=settings.model,
        api_key=settings.api_key,
        base_url=settings.base_url,
        temperature=0,
    )


class _HashedEmbeddings(Embeddings):
    def __init__(self, texts: Sequence[str]) -> None:
        self._vectors = HashedTfidf(texts)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._vectors.vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._vectors.vector(text)


class _SentenceTransformerEmbeddings(Embeddings):
    def __init__(self, model: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise ImportError(
                'sentence-transformers is missing; pip install "rag-eval-hooks[embeddings]"'
            ) from None
        self._model = SentenceTransformer(model, device="cpu")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._model.encode(texts, normalize_embeddings=True).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


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
