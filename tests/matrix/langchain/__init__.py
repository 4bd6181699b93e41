"""The shapes of LangChain and LangGraph."""

from __future__ import annotations

from tests.matrix.langchain import lcel

__all__ = ["SHAPES"]

SHAPES = (*lcel.SHAPES,)
