"""Values in the stores of workflows: found where the answer says them, read once, never unmasked.

Old versions cannot read annotations that are kept as texts.
"""

import asyncio
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.workflow import StartEvent, StopEvent

from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.kit import Bags
from tests.matrix.llama_index.masking import Masking, same_id
from tests.matrix.llama_index.variants import says
from tests.matrix.llama_index.workflows import event, flow, store
from tests.matrix.world import World
from tests.support.variation import Variation, seeds

own_loop, world = fixtures.own_loop, fixtures.world
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]


def texts(world: World) -> list[str]:
    """Return the texts of the contexts of the only sample."""
    (seen,) = world.seen()
    return [context.text for context in seen.sample.contexts or ()]


def asked_of(draw: Variation, *steps: Any, question: str) -> None:

    async def run() -> None:
        await flow(draw, *steps).run(asked=question)

    asyncio.run(run())


@pytest.mark.parametrize("seed", seeds(5))
def test_hits_within_an_answer_of_a_search_are_read(world: World, seed: int) -> None:
    """A list that holds lists of hits is none of hits itself."""
    draw = Variation(seed)
    corpus, found = draw.passages(3), event(draw, "hits", "q")
    question = draw.question()
    hits = [{"query": draw.sentence(), "results": [{"snippet": one} for one in corpus]}]

    async def search(ctx: Any, ev: Any) -> Any:
        return found(hits=hits, q=ev.get("asked"))

    async def tell(ctx: Any, ev: Any) -> StopEvent:
        prompt = "\n".join([*(one["snippet"] for one in ev.hits[0]["results"]), ev.q])
        return StopEvent(result=(await says(draw.short()).acomplete(prompt)).text)

    asked_of(draw, (search, StartEvent, found), (tell, found, StopEvent), question=question)
    assert texts(world) == corpus


@pytest.mark.parametrize("seed", seeds(8))
def test_a_masked_text_does_not_come_back_by_the_store(world: World, seed: int) -> None:
    """Though the store keeps it joined, under a heading that the prompt shares, and it is said."""
    draw = Variation(seed)
    secret, heading = draw.name(), draw.passage()
    passages = [f"{draw.sentence()} {secret} {draw.sentence()}" for _ in range(2)]
    index = VectorStoreIndex([TextNode(text=text) for text in passages], embed_model=Bags())
    retriever, by_hand = index.as_retriever(similarity_top_k=2), draw.chance.random() < 0.5
    mask, found = Masking(secret=secret, rewrite=same_id), event(draw, "nodes", "q")

    async def search(ctx: Any, ev: Any) -> Any:
        nodes = await retriever.aretrieve(ev.get("asked"))
        if by_hand:
            nodes = [NodeWithScore(node=TextNode(text=f"{draw.word()} {n.text}")) for n in nodes]
        raw = "\n".join(node.get_content() for node in nodes)
        await store(ctx).set(draw.name(), f"{heading}\n{raw}")
        return found(nodes=mask.postprocess_nodes(nodes), q=ev.get("asked"))

    async def tell(ctx: Any, ev: Any) -> StopEvent:
        shown = "\n".join([heading, *(node.get_content() for node in ev.nodes), ev.q])
        said = f"{heading[:60]} {secret}"
        return StopEvent(result=(await says(said).acomplete(shown)).text)

    question = f"{draw.question()[:-1]} {secret}?"
    asked_of(draw, (search, StartEvent, found), (tell, found, StopEvent), question=question)
    assert not any(secret in text for text in texts(world))
