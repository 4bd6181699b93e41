"""Retrievers, postprocessors and rerankers: what the LLM saw is what came out last."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.indices.prompt_helper import PromptHelper
from llama_index.core.postprocessor import (
    LLMRerank,
    LongContextReorder,
    MetadataReplacementPostProcessor,
    SimilarityPostprocessor,
)
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import QueryFusionRetriever, RecursiveRetriever
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, TextNode

from tests.matrix.llama_index.kit import (
    ASYNC,
    NAMED,
    PASSAGES,
    QUERY_SPANS,
    QUESTION,
    QUESTIONS,
    READ_WAYS,
    WORDS,
    Bags,
    Scripted,
    answer_to,
    index,
    prompt_text,
    reader,
    shape,
    top,
    words,
)

__all__ = ["SHAPES"]

GROUP = "retrieval"
WINDOW, TITLE, TAGS, PAGE = (NAMED.name() for _ in range(4))
FERRY = WORDS("Ferries")
LONG = tuple(
    f"{text} " + f"{WORDS('Sentence of passage')} {n}. " * 900 for n, text in enumerate(PASSAGES)
)


class Reversed(BaseNodePostprocessor):
    """A reranker that turns the order round, scores anew, and keeps the first of them."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        kept = nodes[::-1][:2]
        return [NodeWithScore(node=n.node, score=1.0 / (1 + k)) for k, n in enumerate(kept)]


def engine(streaming: bool, *postprocessors: BaseNodePostprocessor, k: int = 2) -> Any:
    """A query engine with postprocessors."""
    return index().as_query_engine(
        llm=reader(),
        streaming=streaming,
        similarity_top_k=k,
        node_postprocessors=list(postprocessors),
    )


def with_retriever(retriever: Any, streaming: bool) -> Any:
    """A query engine over any retriever."""
    return RetrieverQueryEngine.from_args(retriever, llm=reader(), streaming=streaming)


def ranker() -> Scripted:
    """Judges the third of the documents best, then the first."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        numbers = re.findall(r"Document (\d+):", prompt_text(messages))
        order = [numbers[-1], *numbers[:-1]]
        return "\n".join(f"Doc: {n}, Relevance: {9 - k}" for k, n in enumerate(order))

    return Scripted(reply=reply)


def fusion(streaming: bool) -> Any:
    """The question and one more, by one retriever."""
    return with_retriever(
        QueryFusionRetriever(
            [index().as_retriever(similarity_top_k=2)],
            llm=Scripted(reply=lambda _: QUESTIONS[1]),
            num_queries=2,
            similarity_top_k=3,
            use_async=False,
            mode="reciprocal_rerank",  # type: ignore[arg-type]
        ),
        streaming,
    )


def fused(question: str) -> list[str]:
    """Return the texts that fusion gives."""
    nodes = fusion(False).retriever.retrieve(question)
    return [node.get_content() for node in nodes]


def recursive(streaming: bool) -> Any:
    """An index of pointers to an index of passages."""
    pointer = IndexNode(text=WORDS("All about ferries and tickets."), index_id="inner")
    outer = VectorStoreIndex([pointer], embed_model=Bags()).as_retriever(similarity_top_k=1)
    inner = index().as_retriever(similarity_top_k=2)
    return with_retriever(RecursiveRetriever("outer", {"outer": outer, "inner": inner}), streaming)


def windows(streaming: bool) -> Any:
    """Sentences are found, their windows are shown."""
    nodes = [
        TextNode(text=text[:40], id_=f"p{n}", metadata={WINDOW: text})
        for n, text in enumerate(PASSAGES)
    ]
    for node in nodes:
        node.excluded_llm_metadata_keys = node.excluded_embed_metadata_keys = [WINDOW]
    return VectorStoreIndex(nodes, embed_model=Bags()).as_query_engine(
        llm=reader(),
        streaming=streaming,
        similarity_top_k=2,
        node_postprocessors=[MetadataReplacementPostProcessor(target_metadata_key=WINDOW)],
    )


def with_metadata(streaming: bool) -> Any:
    """Metadata stand above the text in the prompt, as a part of what the model is shown."""
    nodes = [
        TextNode(text=text, id_=f"p{n}", metadata={TITLE: FERRY, TAGS: ["a"], PAGE: n})
        for n, text in enumerate(PASSAGES)
    ]
    return VectorStoreIndex(nodes, embed_model=Bags()).as_query_engine(
        llm=reader(), streaming=streaming, similarity_top_k=2
    )


def found_with_metadata(question: str) -> list[str]:
    """Bare passages that are found where the metadata count for nearness, too."""
    return [node.node.text for node in with_metadata(False).retriever.retrieve(question)]


def page_of(text: str) -> int:
    """Page on which a passage stands."""
    return PASSAGES.index(text)


def huge(streaming: bool) -> Any:
    """Nodes larger than the prompt: they are shown in pieces, one call each."""
    synthesizer = get_response_synthesizer(
        llm=reader(),
        streaming=streaming,
        prompt_helper=PromptHelper(
            context_window=3000, num_output=100, chunk_overlap_ratio=0.0, tokenizer=words
        ),
    )
    return index(LONG).as_query_engine(response_synthesizer=synthesizer, similarity_top_k=1)


def empty_index_fails() -> str | None:
    """Why an empty index cannot be asked, or None."""
    try:
        VectorStoreIndex([], embed_model=Bags()).as_retriever().retrieve(QUESTION)
    except AssertionError:
        return "this version of LlamaIndex cannot ask an empty index"
    return None


SHAPES = (
    shape(
        GROUP,
        "reranker of the user's own",
        lambda s: engine(s, Reversed(), k=3),
        contexts=lambda q: top(q, 3)[::-1][:2],
        spans=("chat scripted", "rerank Reversed", *QUERY_SPANS[1:]),
    ),
    shape(
        GROUP,
        "SimilarityPostprocessor",
        lambda s: engine(s, SimilarityPostprocessor(similarity_cutoff=0.1), k=6),
        contexts=lambda q: [
            n.get_content()
            for n in index().as_retriever(similarity_top_k=6).retrieve(q)
            if (n.score or 0) >= 0.1
        ],
        spans=("chat scripted", "rerank SimilarityPostprocessor", *QUERY_SPANS[1:]),
    ),
    shape(
        GROUP,
        "LongContextReorder",
        lambda s: engine(s, LongContextReorder(), k=4),
        contexts=lambda q: [
            n.get_content()
            for n in LongContextReorder().postprocess_nodes(
                index().as_retriever(similarity_top_k=4).retrieve(q)
            )
        ],
        spans=("chat scripted", "rerank LongContextReorder", *QUERY_SPANS[1:]),
    ),
    shape(
        GROUP,
        "LLMRerank",
        lambda s: engine(s, LLMRerank(llm=ranker(), top_n=2), k=3),
        contexts=lambda q: [top(q, 3)[2], top(q, 3)[0]],
        # Of its own async method, where it has one, LlamaIndex reports no span.
        spans=lambda way: (
            None
            if way in ASYNC
            else ("chat scripted", "rerank LLMRerank", "  chat scripted", *QUERY_SPANS[1:])
        ),
    ),
    shape(
        GROUP,
        "two postprocessors",
        lambda s: engine(s, Reversed(), SimilarityPostprocessor(similarity_cutoff=0.9), k=3),
        contexts=lambda q: top(q, 3)[2:],
        spans=None,
    ),
    shape(GROUP, "sentence windows", windows, contexts=lambda q: _windows(q), spans=None),
    shape(GROUP, "QueryFusion", fusion, contexts=fused, spans=None),
    shape(GROUP, "RecursiveRetriever", recursive, spans=None),
    shape(
        GROUP,
        "empty retrieval",
        lambda s: engine(s, SimilarityPostprocessor(similarity_cutoff=0.99)),
        contexts=lambda q: (),
        answer=lambda q: "Empty Response",
        spans=("rerank SimilarityPostprocessor", *QUERY_SPANS[1:]),
    ),
    shape(
        GROUP,
        "empty index",
        lambda s: VectorStoreIndex([], embed_model=Bags()).as_query_engine(
            llm=reader(), streaming=s
        ),
        contexts=lambda q: (),
        answer=lambda q: "Empty Response",
        spans=None,
        missing=empty_index_fails(),
    ),
    shape(
        GROUP,
        "metadata",
        with_metadata,
        contexts=lambda q: [
            f"{TITLE}: {FERRY}\n{TAGS}: ['a']\n{PAGE}: {page_of(t)}\n\n{t}"
            for t in found_with_metadata(q)
        ],
        answer=lambda q: answer_to(q, found_with_metadata(q)),
    ),
    shape(
        GROUP,
        "huge nodes",
        huge,
        contexts=lambda q: [text[:20_000] for text in top(q, 1, LONG)],
        answer=lambda q: answer_to(q, ()),
        spans=None,
        questions=[QUESTION],
        ways=READ_WAYS,
    ),
)


def _windows(question: str) -> list[str]:
    found = windows(False).retriever.retrieve(question)
    return [node.node.metadata[WINDOW] for node in found]
