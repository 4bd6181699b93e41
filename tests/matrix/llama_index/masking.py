"""A postprocessor that masks a secret, and the ways in which such ones write a node anew."""

from __future__ import annotations

from collections.abc import Callable

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from tests.matrix.llama_index.kit import Scripted

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


REWRITES = (same_id, in_its_place, with_the_original, new_id)


class Masking(BaseNodePostprocessor):
    """Takes a secret out of every node, by a model or by itself."""

    secret: str
    rewrite: Rewrite
    model: Scripted | None = None

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return [self.rewrite(found, self._masked(found.node.get_content())) for found in nodes]

    def _masked(self, text: str) -> str:
        if self.model is None:
            return text.replace(self.secret, "[...]")
        return self.model.predict(PromptTemplate("Mask: {text}"), text=text)
