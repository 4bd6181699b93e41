"""Helpers that tests of LlamaIndex share."""

from __future__ import annotations

from typing import Any

from rag_eval_hooks.sample import Sample
from tests.matrix.llama_index.kit import index, reader
from tests.matrix.world import World

__all__ = ["engine", "samples"]


def engine(**more: Any) -> Any:
    """A query engine over the index."""
    return index().as_query_engine(**{"llm": reader(), "similarity_top_k": 2, **more})


def samples(world: World) -> list[Sample]:
    """Return the samples captured so far."""
    return [seen.sample for seen in world.seen()]
