"""The shapes of LangChain and LangGraph."""

from __future__ import annotations

from tests.matrix.langchain import (
    agents,
    application,
    classic,
    conversations,
    graphs,
    interrupts,
    lcel,
    resumed,
    retrievers,
    trouble,
)

__all__ = ["SHAPES"]

SHAPES = (
    *lcel.SHAPES,
    *classic.SHAPES,
    *retrievers.SHAPES,
    *agents.SHAPES,
    *conversations.SHAPES,
    *graphs.SHAPES,
    *interrupts.SHAPES,
    *resumed.SHAPES,
    *application.SHAPES,
    *trouble.SHAPES,
)
