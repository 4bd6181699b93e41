"""The shapes of LlamaIndex."""

from __future__ import annotations

from tests.matrix.llama_index import agents, chats, engines, retrieval, trouble

__all__ = ["SHAPES"]

SHAPES = (
    *engines.SHAPES,
    *retrieval.SHAPES,
    *chats.SHAPES,
    *agents.SHAPES,
    *trouble.SHAPES,
)
