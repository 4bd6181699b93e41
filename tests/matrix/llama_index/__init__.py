"""The shapes of LlamaIndex."""

from __future__ import annotations

from tests.matrix.llama_index import agents, chats, engines, flows, own_streams, retrieval, trouble  # noqa: F401 - they register their shapes
from tests.matrix.llama_index.kit import SHAPES

__all__ = ["SHAPES"]
