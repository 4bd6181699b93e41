"""What is special about runs of LangGraph: steps, states, interrupts, resumption."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

__all__ = [
    "is_interrupt",
    "is_no_error",
    "is_step",
    "resumes",
    "with_graph_events",
]


@functools.cache
def with_graph_events(kind: type[Any]) -> type[Any]:
    """The class of a handler, made one that LangGraph tells of interrupts where it can.

    LangGraph tells only handlers of a class of its own, in a module that takes a quarter of a
    second to import: it is asked for when a handler is made.
    """
    try:
        from langgraph.callbacks import GraphCallbackHandler
    except ImportError:
        return kind
    if issubclass(kind, GraphCallbackHandler):
        return kind
    return type(kind.__name__, (kind, GraphCallbackHandler), {"__module__": kind.__module__})


def is_step(tags: Sequence[str] | None) -> bool:
    """Whether a run is a step of a graph: then the run around it keeps a state."""
    return bool([tag for tag in tags or () if tag.startswith("graph:step:")])


def is_no_error(error: BaseException) -> bool:
    """Whether an exception only steers a graph: an interrupt, a command to the graph around."""
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)


def is_interrupt(error: BaseException) -> bool:
    """Whether a graph stops to wait for somebody."""
    return any(kind.__name__ == "GraphInterrupt" for kind in type(error).__mro__)


def resumes(inputs: Any) -> bool:
    """Whether an input continues what was interrupted instead of asking anew."""
    if inputs is None:
        return True
    return type(inputs).__name__ == "Command" and getattr(inputs, "resume", None) is not None
