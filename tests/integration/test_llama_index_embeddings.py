"""Embeddings of LlamaIndex that call models of their own, and such that raise."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode

from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.helpers import samples
from tests.matrix.llama_index.kit import PASSAGES, QUESTION, Bags, Scripted, reader
from tests.matrix.world import World

own_loop, world = fixtures.own_loop, fixtures.world
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]


class Imagined(Bags):
    """Embeds what a model imagines as the answer, or the query where it imagines nothing."""

    model_name: str = "imagined"
    fails: bool = False

    def _get_query_embedding(self, query: str) -> list[float]:
        if self.fails:
            raise ConnectionError("no embedding")
        imagined = Scripted(reply=lambda _: f"{query} At 07:40.", model="imagination")
        return super()._get_query_embedding(imagined.complete(query).text)


def imagining(**more: Any) -> Any:
    nodes = [TextNode(text=text, id_=f"p{n}") for n, text in enumerate(PASSAGES)]
    made = VectorStoreIndex(nodes, embed_model=Imagined(**more))
    return made.as_query_engine(llm=reader(), similarity_top_k=2)


def test_what_an_embedding_calls_belongs_to_its_request(world: World) -> None:
    """A model that is called within an embedding is a child of it, and no request of its own."""
    asked = imagining()
    asked.query(QUESTION)
    (seen,) = world.seen()
    assert seen.spans == (
        "chat scripted",
        "retrieval VectorIndexRetriever",
        "  embeddings imagined",
        "    chat imagination",
    )
    assert seen.sample.contexts is not None
    assert len(world.evals.recorder) == 0


def test_an_embedding_that_raises_ends_its_request(world: World) -> None:
    """An exception in an inner part of an embedding is the failure of the request."""
    with world.evals.interaction(QUESTION), contextlib.suppress(ConnectionError):
        imagining(fails=True).query(QUESTION)
    (told,) = samples(world)
    assert told.question == QUESTION
    assert len(world.evals.recorder) == 0
    assert not world.evals.stats().incidents
