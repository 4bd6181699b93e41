"""Indexes and retrievers beside the vector index."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
from collections.abc import Sequence
from typing import Any

from llama_index.core import (
    Document,
    DocumentSummaryIndex,
    KeywordTableIndex,
    PropertyGraphIndex,
    StorageContext,
    SummaryIndex,
    TreeIndex,
    VectorStoreIndex,
)
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY, EntityNode, Relation
from llama_index.core.indices.property_graph import VectorContextRetriever
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import (
    PrevNextNodePostprocessor,
)
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import AutoMergingRetriever, RouterRetriever
from llama_index.core.schema import (
    ImageNode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
    TransformComponent,
)
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import RetrieverTool

from tests.matrix.llama_index import kit

GROUP = "retrieval"
THING, GOES_WITH = kit.NAMED.name(), kit.NAMED.name()
ONE = [kit.QUESTION]


def nodes() -> list[TextNode]:
    made = [TextNode(text=text, id_=f"p{n}") for n, text in enumerate(kit.PASSAGES)]
    for before, after in itertools.pairwise(made):
        before.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=after.node_id)
        after.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=before.node_id)
    return made


def summary(streaming: bool) -> Any:
    return SummaryIndex(nodes()).as_query_engine(llm=kit.reader(), streaming=streaming)


def keywords(streaming: bool) -> Any:
    """Nodes by the words that a model finds in both them and the question."""
    return keyword_table().as_query_engine(llm=kit.reader(), streaming=streaming)


@functools.cache
def keyword_table() -> KeywordTableIndex:
    """Words one by one: of those that hold several, LlamaIndex looks for nltk's stop words."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        prompt = kit.prompt_text(messages)
        texts = [text for text in (*kit.QUESTIONS, *kit.PASSAGES) if text in prompt]
        return "KEYWORDS: " + ", ".join(kit.words(texts[0]))

    return KeywordTableIndex(nodes(), llm=kit.Scripted(reply=reply))


@functools.cache
def summaries() -> DocumentSummaryIndex:

    def reply(messages: Sequence[ChatMessage]) -> str:
        prompt = kit.prompt_text(messages)
        return kit.WORDS("About this: ") + next(t[:50] for t in kit.PASSAGES if t[:60] in prompt)

    documents = [Document(text=text, doc_id=f"d{n}") for n, text in enumerate(kit.PASSAGES)]
    with contextlib.redirect_stdout(io.StringIO()):
        return DocumentSummaryIndex.from_documents(
            documents,
            llm=kit.Scripted(reply=reply),
            embed_model=kit.Bags(),
            transformations=[SentenceSplitter(tokenizer=str.split)],
        )


def shown_by_keywords(question: str) -> list[str]:
    return [node.get_content() for node in keyword_table().as_retriever().retrieve(question)]


def by_summary(streaming: bool) -> Any:
    return summaries().as_query_engine(llm=kit.reader(), similarity_top_k=2, streaming=streaming)


def shown_by_summary(question: str) -> list[str]:
    found = summaries().as_retriever(similarity_top_k=2).retrieve(question)
    return [node.get_content() for node in found]


def tree(streaming: bool) -> Any:
    """A tree of summaries, in which the model chooses its way."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        prompt = kit.prompt_text(messages)
        return "ANSWER: 1" if "ANSWER:" in prompt else kit.told("A summary.")

    made = TreeIndex(nodes()[:2], llm=kit.Scripted(reply=reply))
    return made.as_query_engine(llm=kit.reader(), streaming=streaming)


class Subjects(TransformComponent):
    """Makes each passage the source of two things that are linked."""

    def __call__(self, nodes: Sequence[Any], **more: Any) -> Sequence[Any]:
        for node in nodes:
            first, last = (
                EntityNode(name=name, label=THING) for name in (node.text[:24], node.text[-24:])
            )
            node.metadata[KG_NODES_KEY] = [first, last]
            node.metadata[KG_RELATIONS_KEY] = [
                Relation(label=GOES_WITH, source_id=first.id, target_id=last.id)
            ]
        return nodes


@functools.cache
def graph() -> PropertyGraphIndex:
    return PropertyGraphIndex(
        nodes=nodes(),
        kg_extractors=[Subjects()],
        embed_model=kit.Bags(),
        llm=kit.reader(),
        use_async=False,
    )


def graph_retriever() -> Any:
    """Things near the question, with the passages that they are from."""
    return VectorContextRetriever(
        graph().property_graph_store,
        vector_store=graph().vector_store,
        embed_model=kit.Bags(),
        include_text=True,
        similarity_top_k=1,
    )


def by_graph(streaming: bool) -> Any:
    retriever = graph().as_retriever(sub_retrievers=[graph_retriever()])
    return RetrieverQueryEngine.from_args(retriever, llm=kit.reader(), streaming=streaming)


def shown_by_graph(question: str) -> list[str]:
    return [node.get_content() for node in graph_retriever().retrieve(question)]


def merging(streaming: bool) -> Any:
    parent = TextNode(text=" ".join(kit.PASSAGES[:3]), id_="parent")
    leaves = [TextNode(text=text, id_=f"leaf{n}") for n, text in enumerate(kit.PASSAGES[:3])]
    for leaf in leaves:
        leaf.relationships[NodeRelationship.PARENT] = RelatedNodeInfo(node_id=parent.node_id)
    parent.relationships[NodeRelationship.CHILD] = [
        RelatedNodeInfo(node_id=leaf.node_id) for leaf in leaves
    ]
    store = SimpleDocumentStore()
    store.add_documents([parent, *leaves])
    context = StorageContext.from_defaults(docstore=store)
    found = VectorStoreIndex(leaves, embed_model=kit.Bags(), storage_context=context)
    inner: Any = found.as_retriever(similarity_top_k=3)
    retriever = AutoMergingRetriever(inner, context)
    return RetrieverQueryEngine.from_args(retriever, llm=kit.reader(), streaming=streaming)


def around(question: str) -> tuple[str, ...]:
    """The best passage, the one before and the one after it."""
    best = kit.PASSAGES.index(kit.top(question, 1)[0])
    return kit.PASSAGES[max(0, best - 1) : best + 2]


def with_neighbours(streaming: bool) -> Any:
    """The node before and the node after are fetched from the document store."""
    store = SimpleDocumentStore()
    store.add_documents(nodes())
    return VectorStoreIndex(nodes(), embed_model=kit.Bags()).as_query_engine(
        llm=kit.reader(),
        streaming=streaming,
        similarity_top_k=1,
        node_postprocessors=[PrevNextNodePostprocessor(docstore=store, num_nodes=1, mode="both")],
    )


class WithPicture(BaseRetriever):
    """A passage and a picture."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        picture = ImageNode(text="", image="aGk=")
        return [
            NodeWithScore(node=TextNode(text=kit.PASSAGES[0]), score=0.9),
            NodeWithScore(node=picture, score=0.5),
        ]


def routed(streaming: bool) -> Any:
    choice = json.dumps([{"choice": 1, "reason": kit.WORDS("it fits")}])
    tools = [
        RetrieverTool.from_defaults(
            kit.index().as_retriever(similarity_top_k=2), name=name, description=name
        )
        for name in (kit.FERRIES, kit.TICKETS)
    ]
    retriever = RouterRetriever(
        selector=LLMSingleSelector.from_defaults(llm=kit.Scripted(reply=lambda _: choice)),
        retriever_tools=tools,
        llm=kit.reader(),
    )
    return RetrieverQueryEngine.from_args(retriever, llm=kit.reader(), streaming=streaming)


def retrieval(name: str, build: Any, contexts: Any, **more: Any) -> Any:
    return kit.shape(
        GROUP, name, build, contexts=contexts, spans=None, **{"ways": kit.WAYS, **more}
    )


SHAPES = (
    retrieval("SummaryIndex", summary, lambda q: kit.PASSAGES),
    retrieval("keyword table", keywords, shown_by_keywords),
    retrieval("DocumentSummaryIndex", by_summary, shown_by_summary),
    retrieval("TreeIndex", tree, lambda q: kit.PASSAGES[:1], questions=ONE),
    retrieval("PropertyGraphIndex", by_graph, shown_by_graph),
    retrieval(
        "AutoMergingRetriever",
        merging,
        lambda q: [" ".join(kit.PASSAGES[:3])],
        answer=lambda q: kit.answer_to(q, kit.PASSAGES[:3]),
        questions=ONE,
    ),
    retrieval("previous and next nodes", with_neighbours, around),
    retrieval(
        "picture without text",
        lambda s: RetrieverQueryEngine.from_args(WithPicture(), llm=kit.reader(), streaming=s),
        lambda q: kit.PASSAGES[:1],
        questions=ONE,
    ),
    retrieval("RouterRetriever", routed, kit.top, questions=kit.QUESTIONS),
)
