"""The shapes of LangChain and LangGraph."""

from __future__ import annotations

from tests.matrix.langchain import agents, evidence, graphs, lcel, resumed, trouble  # noqa: F401 - they register their shapes
from tests.matrix.langchain.kit import SHAPES

__all__ = ["SHAPES"]
