"""The shapes of LlamaIndex."""

from __future__ import annotations

from tests.matrix.llama_index import (
    agents,
    chats,
    combined,
    engines,
    indexes,
    own_streams,
    retrieval,
    teams,
    trouble,
)

SHAPES = (
    *engines.SHAPES,
    *combined.SHAPES,
    *own_streams.SHAPES,
    *retrieval.SHAPES,
    *indexes.SHAPES,
    *chats.SHAPES,
    *agents.SHAPES,
    *teams.SHAPES,
    *trouble.SHAPES,
)
