"""Retrievers, postprocessors and indexes: contexts are the texts that the model was shown."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core import Document, DocumentSummaryIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.evaluation import DatasetGenerator, FaithfulnessEvaluator
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from tests.matrix.llama_index.kit import (
    QUERY_SPANS,
    READ_WAYS,
    Asked,
    Bags,
    Corpus,
    Draw,
    Scripted,
    prompt_text,
    says,
    shape,
)

GROUP = "retrieval"
EMPTY = "Empty Response"


# Postprocessors.


class Reversed(BaseNodePostprocessor):
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        kept = nodes[::-1][:2]
        return [NodeWithScore(node=n.node, score=1.0 / (1 + k)) for k, n in enumerate(kept)]


def through(corpus: Corpus, answer: str, *postprocessors: Any, **expected: Any) -> Asked:
    streaming = corpus.draw.streaming
    engine = corpus.engine(
        says(answer), node_postprocessors=list(postprocessors), streaming=streaming
    )
    return corpus.asked(engine, answer, **expected)


@shape(GROUP, *READ_WAYS)
def reranker_of_the_user(draw: Draw) -> Asked:
    corpus = Corpus(draw, 3)
    spans = ("chat scripted", "rerank Reversed", *QUERY_SPANS[1:])
    shown = corpus.shown()[::-1][:2]
    return through(corpus, draw.answer(), Reversed(), contexts=shown, spans=spans)


@shape(GROUP, *READ_WAYS)
def nothing_near_enough(draw: Draw) -> Asked:
    spans = ("rerank SimilarityPostprocessor", *QUERY_SPANS[1:])
    near = SimilarityPostprocessor(similarity_cutoff=0.999)
    made = through(Corpus(draw), draw.answer(), near, contexts=(), spans=spans)
    made.answer = EMPTY
    return made


Rewrite = Callable[[NodeWithScore, str], NodeWithScore]


def same_id(found: NodeWithScore, text: str) -> NodeWithScore:
    node = TextNode(text=text, id_=found.node.node_id, metadata=dict(found.node.metadata))
    return NodeWithScore(node=node, score=found.score)


def in_its_place(found: NodeWithScore, text: str) -> NodeWithScore:
    found.node.set_content(text)
    return found


def with_the_original(found: NodeWithScore, text: str) -> NodeWithScore:
    """Return a copy that keeps the original text in metadata that no model is shown."""
    made = same_id(found, text)
    made.node.metadata["original"] = f"before: {found.node.get_content()}"
    made.node.excluded_llm_metadata_keys = ["original"]
    return made


def new_id(found: NodeWithScore, text: str) -> NodeWithScore:
    return NodeWithScore(node=TextNode(text=text), score=found.score)


class Masking(BaseNodePostprocessor):
    secret: str
    rewrite: Rewrite = same_id
    model: Scripted | None = None

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return [self.rewrite(found, self._masked(found.node.get_content())) for found in nodes]

    def _masked(self, text: str) -> str:
        if self.model is None:
            return text.replace(self.secret, "[...]")
        return self.model.predict(PromptTemplate("Mask: {text}"), text=text)


def masked_passages(draw: Draw) -> tuple[Asked, str]:
    corpus, secret = Corpus(draw, 3), f"{draw.name()} {draw.name()}"
    for node in corpus.nodes:
        node.text = f"{draw.sentence()} {secret} {node.text}"
    corpus.reindex()

    def mask(messages: Sequence[ChatMessage]) -> str:
        return prompt_text(messages).removeprefix("Mask: ").replace(secret, "[...]")

    masking = Masking(
        secret=secret,
        rewrite=draw.one_of(same_id, in_its_place, with_the_original, new_id),
        model=draw.one_of(None, Scripted(reply=mask)),
    )
    shown = [text.replace(secret, "[...]") for text in corpus.shown()]
    return through(corpus, draw.answer(), masking, contexts=shown), secret


@shape(GROUP)
def masked(draw: Draw) -> Asked:
    return masked_passages(draw)[0]


# Forms in which nodes are shown.


@shape(GROUP, *READ_WAYS)
def metadata_above_the_text(draw: Draw) -> Asked:
    corpus, answer = Corpus(draw, metadata=True), draw.answer()
    return corpus.asked(corpus.engine(says(answer), streaming=draw.streaming), answer)


@shape(GROUP)
def building_is_no_request(draw: Draw) -> Asked:
    corpus, model = Corpus(draw), says(draw.sentence())
    documents = [Document(text=node.text) for node in corpus.nodes]
    nodes = [NodeWithScore(node=node, score=1.0) for node in corpus.nodes]
    synthesizer = get_response_synthesizer(llm=model, response_mode="tree_summarize")  # type: ignore[arg-type]
    judged: dict[str, Any] = {"response": draw.sentence(), "contexts": draw.passages(2)}
    makers: list[Callable[[], Any]] = [
        lambda: synthesizer.synthesize(draw.question(), nodes),
        lambda: DocumentSummaryIndex.from_documents(
            documents,
            llm=model,
            embed_model=Bags(),
            response_synthesizer=synthesizer,
            summary_query=draw.question(),
        ),
        lambda: DatasetGenerator(list(corpus.nodes), llm=model).agenerate_questions_from_nodes(),
        lambda: FaithfulnessEvaluator(llm=model).aevaluate(**judged),
    ]
    make = draw.one_of(*makers)

    def run() -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return make()

    return Asked(run)
