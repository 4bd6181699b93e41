"""Helpers that tests of LlamaIndex share."""

from __future__ import annotations

from typing import Any

from rag_eval_hooks.sample import Sample
from tests.matrix.llama_index.kit import index, reader
from tests.matrix.world import World


def engine(**more: Any) -> Any:
    return index().as_query_engine(**{"llm": reader(), "similarity_top_k": 2, **more})


def samples(world: World) -> list[Sample]:
    return [seen.sample for seen in world.seen()]
