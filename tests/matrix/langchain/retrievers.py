"""Retrievers made of retrievers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import BaseMessage

from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import CLASSIC_MISSING, classic

GROUP = "retrievers"
MISSING = CLASSIC_MISSING


def multi_query_texts(_question: str) -> list[str]:
    asked = (
        kit.WORDS("When does the ferry to Skarn leave?"),
        kit.WORDS("What does a season ticket cost?"),
    )
    return list(dict.fromkeys(text for question in asked for text in kit.top(question, 1)))


class Reranker(BaseDocumentCompressor):
    """Keeps the two last of what was found, the last first, with scores."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> list[Document]:
        return [
            Document(d.page_content, id=d.id, metadata={**d.metadata, "relevance_score": 0.9 - n})
            for n, d in enumerate(reversed(documents[-2:]))
        ]


def last_two(question: str) -> list[str]:
    return kit.top(question, 4)[:1:-1]


def extracts(question: str) -> list[str]:
    return [text[:70].strip() for text in kit.top(question)]


SUB = "  retrieval InMemoryVectorStore"
MULTI = ("chat scripted", "retrieval MultiQueryRetriever", "  chat scripted", SUB, SUB)


@kit.shape(GROUP, "MultiQueryRetriever", contexts=multi_query_texts, spans=MULTI, missing=MISSING)
def multi_query() -> Any:
    def rephrase(messages: list[BaseMessage]) -> str:
        return kit.WORDS("When does the ferry to Skarn leave?\nWhat does a season ticket cost?")

    kind = classic("retrievers.MultiQueryRetriever")
    return kit.answering(kind.from_llm(retriever=kit.base(1), llm=kit.Chat(reply=rephrase)))


@kit.shape(
    GROUP,
    "ContextualCompressionRetriever with reranker",
    contexts=last_two,
    spans=("chat scripted", "retrieval ContextualCompressionRetriever", SUB),
    missing=MISSING,
)
def compression() -> Any:
    kind = classic("retrievers.ContextualCompressionRetriever")
    return kit.answering(kind(base_compressor=Reranker(), base_retriever=kit.base(4)))


@kit.shape(
    GROUP,
    "ContextualCompressionRetriever with LLM extractor",
    contexts=extracts,
    spans=(
        "chat scripted",
        "retrieval ContextualCompressionRetriever",
        *["  chat scripted"] * 2,
        SUB,
    ),
    missing=MISSING,
)
def extraction() -> Any:
    def extract(messages: list[BaseMessage]) -> str:
        prompt = kit.prompt_text(messages)
        return next(text for text in kit.PASSAGES if text in prompt)[:70].strip()

    kind = classic("retrievers.ContextualCompressionRetriever")
    path = "retrievers.document_compressors.LLMChainExtractor"
    extractor = classic(path).from_llm(kit.Chat(reply=extract))
    return kit.answering(kind(base_compressor=extractor, base_retriever=kit.base()))
