"""What is special about runs of LangGraph: steps, states, interrupts, resumption."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_hooks_langchain.documents import update_of

__all__ = [
    "START",
    "is_interrupt",
    "is_no_error",
    "is_pulled",
    "is_step",
    "mark_of",
    "node_of",
    "resumes",
    "update_in",
    "with_graph_events",
]


START = "__start__"
"""What old versions run as a first step, in every graph."""


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


def mark_of(metadata: Mapping[str, Any] | None) -> str | None:
    """By what LangGraph names a step, again too when it runs it again from the same checkpoint."""
    mark = (metadata or {}).get("langgraph_checkpoint_ns")
    return mark if isinstance(mark, str) and mark else None


def node_of(mark: str | None) -> str | None:
    """The node of the outermost graph to which a step with this mark belongs."""
    node, _, rest = (mark or "").partition(":")
    return node if rest else None


def update_in(inputs: Any) -> Any:
    """What an input puts into the state: itself, or the update of a command, None without one."""
    update = update_of(inputs)
    return None if update is inputs and type(inputs).__name__ == "Command" else update


def is_pulled(metadata: Mapping[str, Any] | None) -> bool:
    """Whether a step was given the state, and not what another node sent it."""
    path = (metadata or {}).get("langgraph_path") or ("",)
    return not isinstance(path, list | tuple) or path[0] != "__pregel_push"
