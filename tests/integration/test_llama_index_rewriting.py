"""Texts that a postprocessor masks, shortens or translates do not come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import TextNode

from rag_eval_hooks.sample import Sample
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.kit import Bags, Scripted, prompt_text
from tests.matrix.llama_index.masking import REWRITES, Masking
from tests.matrix.world import World
from tests.support.size import size
from tests.support.variation import Variation, seeds

own_loop, world = fixtures.own_loop, fixtures.world
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]


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
