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
    MetadataReplacementPostProcessor,
    SimilarityPostprocessor,
)
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import QueryFusionRetriever, RecursiveRetriever
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, TextNode

from tests.matrix.llama_index import kit

GROUP = "retrieval"
WINDOW, TITLE, TAGS, PAGE = (kit.NAMED.name() for _ in range(4))
FERRY = kit.WORDS("Ferries")
LONG = tuple(
    f"{text} " + f"{kit.WORDS('Sentence of passage')} {n}. " * 900
    for n, text in enumerate(kit.PASSAGES)
)


class Reversed(BaseNodePostprocessor):
    """A reranker that turns the order round, scores anew, and keeps the first of them."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        kept = nodes[::-1][:2]
        return [NodeWithScore(node=n.node, score=1.0 / (1 + k)) for k, n in enumerate(kept)]


def engine(streaming: bool, *postprocessors: BaseNodePostprocessor, k: int = 2) -> Any:
    return kit.index().as_query_engine(
        llm=kit.reader(),
        streaming=streaming,
        similarity_top_k=k,
        node_postprocessors=list(postprocessors),
    )


def with_retriever(retriever: Any, streaming: bool) -> Any:
    return RetrieverQueryEngine.from_args(retriever, llm=kit.reader(), streaming=streaming)


def ranker() -> kit.Scripted:
    """Judges the third of the documents best, then the first."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        numbers = re.findall(r"Document (\d+):", kit.prompt_text(messages))
        order = [numbers[-1], *numbers[:-1]]
        return "\n".join(f"Doc: {n}, Relevance: {9 - k}" for k, n in enumerate(order))

    return kit.Scripted(reply=reply)


def fusion(streaming: bool) -> Any:
    return with_retriever(
        QueryFusionRetriever(
            [kit.index().as_retriever(similarity_top_k=2)],
            llm=kit.Scripted(reply=lambda _: kit.QUESTIONS[1]),
            num_queries=2,
            similarity_top_k=3,
            use_async=False,
            mode="reciprocal_rerank",  # type: ignore[arg-type]
        ),
        streaming,
    )


def fused(question: str) -> list[str]:
    nodes = fusion(False).retriever.retrieve(question)
    return [node.get_content() for node in nodes]


def recursive(streaming: bool) -> Any:
    pointer = IndexNode(text=kit.WORDS("All about ferries and tickets."), index_id="inner")
    outer = VectorStoreIndex([pointer], embed_model=kit.Bags()).as_retriever(similarity_top_k=1)
    inner = kit.index().as_retriever(similarity_top_k=2)
    return with_retriever(RecursiveRetriever("outer", {"outer": outer, "inner": inner}), streaming)


def windows(streaming: bool) -> Any:
    nodes = [
        TextNode(text=text[:40], id_=f"p{n}", metadata={WINDOW: text})
        for n, text in enumerate(kit.PASSAGES)
    ]
    for node in nodes:
        node.excluded_llm_metadata_keys = node.excluded_embed_metadata_keys = [WINDOW]
    return VectorStoreIndex(nodes, embed_model=kit.Bags()).as_query_engine(
        llm=kit.reader(),
        streaming=streaming,
        similarity_top_k=2,
        node_postprocessors=[MetadataReplacementPostProcessor(target_metadata_key=WINDOW)],
    )


def with_metadata(streaming: bool) -> Any:
    """Metadata stand above the text in the prompt, as a part of what the model is shown."""
    nodes = [
        TextNode(text=text, id_=f"p{n}", metadata={TITLE: FERRY, TAGS: ["a"], PAGE: n})
        for n, text in enumerate(kit.PASSAGES)
    ]
    return VectorStoreIndex(nodes, embed_model=kit.Bags()).as_query_engine(
        llm=kit.reader(), streaming=streaming, similarity_top_k=2
    )


def found_with_metadata(question: str) -> list[str]:
    """Bare passages that are found where the metadata count for nearness, too."""
    return [node.node.text for node in with_metadata(False).retriever.retrieve(question)]


def page_of(text: str) -> int:
    return kit.PASSAGES.index(text)


def huge(streaming: bool) -> Any:
    """Nodes larger than the prompt: they are shown in pieces, one call each."""
    synthesizer = get_response_synthesizer(
        llm=kit.reader(),
        streaming=streaming,
        prompt_helper=PromptHelper(
            context_window=3000, num_output=100, chunk_overlap_ratio=0.0, tokenizer=kit.words
        ),
    )
    return kit.index(LONG).as_query_engine(response_synthesizer=synthesizer, similarity_top_k=1)


def empty_index_fails() -> str | None:
    try:
        VectorStoreIndex([], embed_model=kit.Bags()).as_retriever().retrieve(kit.QUESTION)
    except AssertionError:
        return "this version of LlamaIndex cannot ask an empty index"
    return None


SHAPES = (
    kit.shape(
        GROUP,
        "reranker of the user's own",
        lambda s: engine(s, Reversed(), k=3),
        contexts=lambda q: kit.top(q, 3)[::-1][:2],
        spans=("chat scripted", "rerank Reversed", *kit.QUERY_SPANS[1:]),
    ),
    kit.shape(
        GROUP,
        "SimilarityPostprocessor",
        lambda s: engine(s, SimilarityPostprocessor(similarity_cutoff=0.1), k=6),
        contexts=lambda q: [
            n.get_content()
            for n in kit.index().as_retriever(similarity_top_k=6).retrieve(q)
            if (n.score or 0) >= 0.1
        ],
        spans=("chat scripted", "rerank SimilarityPostprocessor", *kit.QUERY_SPANS[1:]),
    ),
    kit.shape(
        GROUP,
        "LLMRerank",
        lambda s: engine(s, LLMRerank(llm=ranker(), top_n=2), k=3),
        contexts=lambda q: [kit.top(q, 3)[2], kit.top(q, 3)[0]],
        # Of its own async method, where it has one, LlamaIndex reports no span.
        spans=lambda way: (
            None
            if way in kit.ASYNC
            else ("chat scripted", "rerank LLMRerank", "  chat scripted", *kit.QUERY_SPANS[1:])
        ),
    ),
    kit.shape(GROUP, "sentence windows", windows, contexts=lambda q: _windows(q), spans=None),
    kit.shape(GROUP, "QueryFusion", fusion, contexts=fused, spans=None),
    kit.shape(GROUP, "RecursiveRetriever", recursive, spans=None),
    kit.shape(
        GROUP,
        "empty retrieval",
        lambda s: engine(s, SimilarityPostprocessor(similarity_cutoff=0.99)),
        contexts=lambda q: (),
        answer=lambda q: "Empty Response",
        spans=("rerank SimilarityPostprocessor", *kit.QUERY_SPANS[1:]),
    ),
    kit.shape(
        GROUP,
        "empty index",
        lambda s: VectorStoreIndex([], embed_model=kit.Bags()).as_query_engine(
            llm=kit.reader(), streaming=s
        ),
        contexts=lambda q: (),
        answer=lambda q: "Empty Response",
        spans=None,
        missing=empty_index_fails(),
    ),
    kit.shape(
        GROUP,
        "metadata",
        with_metadata,
        contexts=lambda q: [
            f"{TITLE}: {FERRY}\n{TAGS}: ['a']\n{PAGE}: {page_of(t)}\n\n{t}"
            for t in found_with_metadata(q)
        ],
        answer=lambda q: kit.answer_to(q, found_with_metadata(q)),
    ),
    kit.shape(
        GROUP,
        "huge nodes",
        huge,
        contexts=lambda q: [text[:20_000] for text in kit.top(q, 1, LONG)],
        answer=lambda q: kit.answer_to(q, ()),
        spans=None,
        questions=[kit.QUESTION],
        ways=kit.READ_WAYS,
    ),
)


def _windows(question: str) -> list[str]:
    found = windows(False).retriever.retrieve(question)
    return [node.node.metadata[WINDOW] for node in found]
