"""Retrievers made of retrievers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableParallel, RunnablePassthrough
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from tests.matrix.langchain.compat import CLASSIC_MISSING, classic, has
from tests.matrix.langchain.kit import (
    ASKED,
    PASSAGES,
    PROMPT,
    SHOWN,
    WORDS,
    Bags,
    Chat,
    joined,
    prompt_text,
    reader,
    shape,
    store,
    top,
)

__all__ = ["SHAPES"]

GROUP = "retrievers"
MISSING = CLASSIC_MISSING


def answering(retriever: Any) -> Any:
    inputs: Any = {SHOWN: retriever | joined, ASKED: RunnablePassthrough()}
    return inputs | PROMPT | reader() | StrOutputParser()


def base(k: int = 2) -> Any:
    return store().as_retriever(search_kwargs={"k": k})


def multi_query() -> Any:
    def rephrase(messages: list[BaseMessage]) -> str:
        return WORDS("When does the ferry to Skarn leave?\nWhat does a season ticket cost?")

    kind = classic("retrievers.MultiQueryRetriever")
    return answering(kind.from_llm(retriever=base(1), llm=Chat(reply=rephrase)))


def multi_query_texts(_question: str) -> list[str]:
    asked = (WORDS("When does the ferry to Skarn leave?"), WORDS("What does a season ticket cost?"))
    return list(dict.fromkeys(text for question in asked for text in top(question, 1)))


def ensemble() -> Any:
    other = store(PASSAGES[2:]).as_retriever(search_kwargs={"k": 1})
    kind = classic("retrievers.EnsembleRetriever")
    return answering(kind(retrievers=[base(1), other], weights=[0.6, 0.4]))


def ensemble_texts(question: str) -> list[str]:
    return list(dict.fromkeys([*top(question, 1), *top(question, 1, PASSAGES[2:])]))


class Reranker(BaseDocumentCompressor):
    """Keeps the two last of what was found, the last first, with scores."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> list[Document]:
        return [
            Document(d.page_content, id=d.id, metadata={**d.metadata, "relevance_score": 0.9 - n})
            for n, d in enumerate(reversed(documents[-2:]))
        ]


def compression() -> Any:
    kind = classic("retrievers.ContextualCompressionRetriever")
    return answering(kind(base_compressor=Reranker(), base_retriever=base(4)))


def extraction() -> Any:
    def extract(messages: list[BaseMessage]) -> str:
        prompt = prompt_text(messages)
        return next(text for text in PASSAGES if text in prompt)[:70].strip()

    kind = classic("retrievers.ContextualCompressionRetriever")
    path = "retrievers.document_compressors.LLMChainExtractor"
    extractor = classic(path).from_llm(Chat(reply=extract))
    return answering(kind(base_compressor=extractor, base_retriever=base()))


def parents() -> Any:
    from langchain_text_splitters import CharacterTextSplitter

    kind = classic("retrievers.ParentDocumentRetriever")
    made = kind(
        vectorstore=InMemoryVectorStore(Bags()),
        docstore=InMemoryStore(),
        child_splitter=CharacterTextSplitter(separator=",", chunk_size=40, chunk_overlap=0),
        search_kwargs={"k": 2},
    )
    made.add_documents([Document(text) for text in PASSAGES])
    return made


def parent() -> Any:
    return answering(parents())


def parent_texts(question: str) -> list[str]:
    return [document.page_content for document in parents().invoke(question)]


def reordered() -> Any:
    def ends_first(documents: list[Document]) -> list[Document]:
        return [*documents[::2], *documents[1::2][::-1]]

    return answering(base(4) | ends_first)


def reordered_texts(question: str) -> list[str]:
    found = top(question, 4)
    return [*found[::2], *found[1::2][::-1]]


def parallel() -> Any:
    other = store(PASSAGES[2:]).as_retriever(search_kwargs={"k": 1})
    both = RunnableParallel(one=base(1), two=other) | (
        lambda found: joined([*found["one"], *found["two"]])
    )
    inputs: Any = {SHOWN: both, ASKED: RunnablePassthrough()}
    return inputs | PROMPT | reader() | StrOutputParser()


def scored() -> Any:
    def scores(documents: list[Document]) -> list[Document]:
        for n, document in enumerate(documents):
            document.metadata["score"] = 1.0 - n / 4
        return documents

    return answering(base() | scores)


def last_two(question: str) -> list[str]:
    return top(question, 4)[:1:-1]


def extracts(question: str) -> list[str]:
    return [text[:70].strip() for text in top(question)]


SUB = "  retrieval InMemoryVectorStore"
MULTI = ("chat scripted", "retrieval MultiQueryRetriever", "  chat scripted", SUB, SUB)

SHAPES = (
    shape(
        GROUP,
        "MultiQueryRetriever",
        multi_query,
        contexts=multi_query_texts,
        spans=MULTI,
        missing=MISSING,
    ),
    shape(
        GROUP,
        "EnsembleRetriever",
        ensemble,
        contexts=ensemble_texts,
        spans=("chat scripted", "retrieval EnsembleRetriever", SUB, SUB),
        missing=MISSING,
    ),
    shape(
        GROUP,
        "ContextualCompressionRetriever with reranker",
        compression,
        contexts=last_two,
        spans=("chat scripted", "retrieval ContextualCompressionRetriever", SUB),
        missing=MISSING,
    ),
    shape(
        GROUP,
        "ContextualCompressionRetriever with LLM extractor",
        extraction,
        contexts=extracts,
        spans=(
            "chat scripted",
            "retrieval ContextualCompressionRetriever",
            *["  chat scripted"] * 2,
            SUB,
        ),
        missing=MISSING,
    ),
    shape(
        GROUP,
        "ParentDocumentRetriever",
        parent,
        contexts=parent_texts,
        spans=("chat scripted", "retrieval ParentDocumentRetriever"),
        missing=MISSING or (None if has("langchain_text_splitters") else "no text splitters"),
    ),
    shape(GROUP, "long-context reorder", reordered, contexts=reordered_texts),
    shape(
        GROUP,
        "parallel retrievers",
        parallel,
        contexts=ensemble_texts,
        spans=("chat scripted", *["retrieval InMemoryVectorStore"] * 2),
    ),
    shape(GROUP, "scores in metadata", scored),
)
