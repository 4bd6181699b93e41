"""The shapes of LangChain and LangGraph."""

from __future__ import annotations

from tests.matrix.langchain import agents, classic, graphs, lcel, retrievers

__all__ = ["SHAPES"]

SHAPES = (*lcel.SHAPES, *classic.SHAPES, *retrievers.SHAPES, *agents.SHAPES, *graphs.SHAPES)
