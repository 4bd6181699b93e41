"""The shapes of LlamaIndex."""

from __future__ import annotations

from tests.matrix.llama_index import chats, engines, retrieval

__all__ = ["SHAPES"]

SHAPES = (*engines.SHAPES, *retrieval.SHAPES, *chats.SHAPES)
