"""Steps, states, interrupts and resumption of LangGraph."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag_eval_hooks.capture import Run
from rag_eval_hooks_langchain.document_search import Lists
from rag_eval_hooks_langchain.structured import update_of

__all__ = [
    "START",
    "ChainState",
    "checkpoint_of",
    "is_interrupt",
    "is_no_error",
    "is_pulled",
    "is_step",
    "node_of",
    "resumes",
    "state_of",
    "update_in",
    "with_graph_events",
]


START = "__start__"
"""First step of every graph in old versions."""


@dataclass(slots=True)
class ChainState:
    """State of a chain run while it is open.

    Attributes:
        given: Its input: what it merely passes on is no output of its own.
        is_graph: Whether its output is a state, which may hold what earlier runs put there.
        is_resuming: Whether it continues something of which no beginning has been seen here.
        is_continuing: Whether its input continues something.
        holds_tool: Whether a tool was called below it.
        unseen: Documents in its input that no step was seen to retrieve, once looked for.
        written: Entries that the last of its steps put into it which wrote a text.
        read: Artifacts in messages of tools whose documents are known.
    """

    given: Any = None
    is_graph: bool = False
    is_resuming: bool = False
    is_continuing: bool = False
    holds_tool: bool = False
    unseen: Lists | None = None
    written: Mapping[str, Any] | None = None
    read: set[tuple[str, int]] = field(default_factory=set)


_NO_STATE = ChainState()


def state_of(run: Run | None) -> ChainState:
    """Return the state of a run; an empty one, only to be read, if it is no open chain run."""
    return _NO_STATE if run is None or run.state is None else run.state


@functools.cache
def with_graph_events(kind: type[Any]) -> type[Any]:
    """Return the class of a handler as one to which LangGraph reports interrupts.

    LangGraph reports only to handlers of a class of its own, in a module that takes a quarter of a
    second to import: it is imported when a handler is made.
    """
    try:
        from langgraph.callbacks import GraphCallbackHandler
    except ImportError:
        return kind
    if issubclass(kind, GraphCallbackHandler):
        return kind
    return type(kind.__name__, (kind, GraphCallbackHandler), {"__module__": kind.__module__})


def is_step(tags: Sequence[str] | None) -> bool:
    """Return whether a run is a step of a graph: then the run around it has a state."""
    return any(tag.startswith("graph:step:") for tag in tags) if tags else False


def is_no_error(error: BaseException) -> bool:
    """Return whether an exception only steers a graph: an interrupt, a command to the outer one."""
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)


def is_interrupt(error: BaseException) -> bool:
    """Return whether a graph stops to wait for somebody."""
    return any(kind.__name__ == "GraphInterrupt" for kind in type(error).__mro__)


def resumes(inputs: Any) -> bool:
    """Return whether an input continues what was interrupted instead of asking anew."""
    if inputs is None:
        return True
    return type(inputs).__name__ == "Command" and getattr(inputs, "resume", None) is not None


def checkpoint_of(metadata: Mapping[str, Any] | None) -> str | None:
    """Return LangGraph's name for a step, equal when it runs again from the same checkpoint."""
    name = (metadata or {}).get("langgraph_checkpoint_ns")
    return name if isinstance(name, str) and name else None


def node_of(checkpoint: str | None) -> str | None:
    """Return the node of the outermost graph to which a checkpoint belongs."""
    node, _, rest = (checkpoint or "").partition(":")
    return node if rest else None


def update_in(inputs: Any) -> Any:
    """Return what an input puts into the state: itself, or a command's update, possibly None."""
    update = update_of(inputs)
    return None if update is inputs and type(inputs).__name__ == "Command" else update


def is_pulled(metadata: Mapping[str, Any] | None) -> bool:
    """Return whether a step was given the state, and not what another node sent it."""
    path = (metadata or {}).get("langgraph_path") or ("",)
    return not isinstance(path, list | tuple) or path[0] != "__pregel_push"
