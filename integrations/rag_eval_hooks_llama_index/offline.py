"""LlamaIndex's own offline tools, whose queries are no user's questions."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from llama_index.core.indices.document_summary.base import DEFAULT_SUMMARY_QUERY
from llama_index.core.schema import QueryBundle

__all__ = ["is_offline"]

_TOOLS = (
    "llama_index.core.evaluation.",
    "llama_index.core.llama_dataset.",
    "llama_index.core.indices.document_summary.base",
)
"""Beginnings of the names of modules: evaluators, dataset generators, building of summaries."""
_NEAR = 25
"""Frames between a tool and a call that nothing encloses: few, as it is the outermost one."""
_GENERATING = "generate only questions based on the below query"
"""A part of the template by which dataset generators ask for questions."""


def is_offline(arguments: Mapping[str, Any], instance: Any) -> bool:
    """Return whether a call that nothing encloses was made by one of these tools.

    Those that run calls in tasks of their own are not on the stack of these; what they ask and
    the template that they ask with are known.
    """
    return _asks_for_summary(arguments) or _asks_for_questions(instance) or _is_called_by_tool()


def _asks_for_summary(arguments: Mapping[str, Any]) -> bool:
    query = arguments.get("query")
    return (query.query_str if isinstance(query, QueryBundle) else query) == DEFAULT_SUMMARY_QUERY


def _asks_for_questions(engine: Any) -> bool:
    synthesizer = getattr(engine, "_response_synthesizer", None)
    template = getattr(getattr(synthesizer, "_text_qa_template", None), "template", None)
    return isinstance(template, str) and _GENERATING in template


def _is_called_by_tool() -> bool:
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_NEAR):
        if frame is None:
            return False
        if str(frame.f_globals.get("__name__")).startswith(_TOOLS):
            return True
        frame = frame.f_back
    return False
