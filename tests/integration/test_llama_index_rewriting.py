"""Texts that a postprocessor masks, shortens or translates do not come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from rag_eval_hooks.sample import Sample
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index.kit import Bags, Scripted, prompt_text
from tests.matrix.world import World
from tests.support.size import size
from tests.support.variation import Variation, seeds

pytest_plugins = ["tests.matrix.llama_index.fixtures"]
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]

Rewrite = Callable[[NodeWithScore, str], NodeWithScore]


def same_id(found: NodeWithScore, text: str) -> NodeWithScore:
    """Return a copy under the node's own id."""
    node = TextNode(text=text, id_=found.node.node_id, metadata=dict(found.node.metadata))
    return NodeWithScore(node=node, score=found.score)


def in_its_place(found: NodeWithScore, text: str) -> NodeWithScore:
    """Change the node itself."""
    found.node.set_content(text)
    return found


def with_the_original(found: NodeWithScore, text: str) -> NodeWithScore:
    """Return a copy that keeps the original text in metadata that no model is shown."""
    made = same_id(found, text)
    made.node.metadata["original"] = f"before: {found.node.get_content()}"
    made.node.excluded_llm_metadata_keys = ["original"]
    return made


def new_id(found: NodeWithScore, text: str) -> NodeWithScore:
    """Return a node of its own."""
    return NodeWithScore(node=TextNode(text=text), score=found.score)


REWRITES = (same_id, in_its_place, with_the_original, new_id)


class Masking(BaseNodePostprocessor):
    """Takes a secret out of every node, by a model or by itself.

    Attributes:
        secret: The text to take out.
        rewrite: Makes the new node.
        model: Asked for the masked text, or None.
    """

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


def masked_query(world: World, seed: int) -> tuple[Sample, str, list[str]]:
    """Query an index through a masking postprocessor.

    Returns:
        The sample, the secret, and the masked texts.
    """
    draw = Variation(seed)
    secret = f"{draw.name()} {draw.name()}"
    texts = [f"{draw.sentence()} {secret} {draw.sentence()}" for _ in range(3)]
    masked = [text.replace(secret, "[...]") for text in texts]
    answer = draw.chance.choice([draw.short, draw.sentence, draw.word])()

    def reply(messages: Sequence[ChatMessage]) -> str:
        prompt = prompt_text(messages)
        if not prompt.startswith("Mask: "):
            return answer
        return prompt.removeprefix("Mask: ").replace(secret, "[...]")

    model = Scripted(reply=reply)
    index = VectorStoreIndex([TextNode(text=text) for text in texts], embed_model=Bags())
    mask = Masking(
        secret=secret,
        rewrite=REWRITES[seed % len(REWRITES)],
        model=model if draw.chance.random() < 0.5 else None,
    )
    engine = index.as_query_engine(llm=model, similarity_top_k=3, node_postprocessors=[mask])
    question = draw.question()
    if draw.chance.random() < 0.5:
        asyncio.run(engine.aquery(question))
    else:
        engine.query(question)
    (seen,) = world.seen()
    return seen.sample, secret, masked


@pytest.mark.parametrize("seed", seeds(size(8, 40)))
def test_what_a_postprocessor_masks_is_nowhere(seed: int) -> None:
    """A masked text is in no field of the sample and on no span, not even with content on."""
    world = World(capture_content=True)
    registration = enable(world.evals)
    try:
        sample, secret, masked = masked_query(world, seed)
        spans = [dict(span.attributes or {}) for span in world.exporter.get_finished_spans()]
    finally:
        registration.disable()
        world.close()
    assert secret not in json.dumps(sample.to_dict(), ensure_ascii=False)
    assert secret not in json.dumps(spans, ensure_ascii=False)
    assert sorted(context.text for context in sample.contexts or ()) == sorted(masked)
