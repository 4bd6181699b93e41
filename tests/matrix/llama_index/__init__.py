"""The shapes of LlamaIndex."""

from __future__ import annotations

from tests.matrix.llama_index import (  # noqa: F401 - they register their shapes
    agents,
    chats,
    engines,
    flows,
    own_streams,
    retrieval,
    trouble,
)
from tests.matrix.llama_index.kit import SHAPES

__all__ = ["SHAPES"]
