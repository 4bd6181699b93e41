"""The shapes of LangChain and LangGraph."""

from __future__ import annotations

from tests.matrix.langchain import (  # noqa: F401 - they register their shapes
    agents,
    application,
    classic,
    conversations,
    evidence,
    graphs,
    interrupts,
    kept,
    lcel,
    resumed,
    retrievers,
    team_graphs,
    teams,
    trouble,
    tutorials,
)
from tests.matrix.langchain.kit import SHAPES

__all__ = ["SHAPES"]
