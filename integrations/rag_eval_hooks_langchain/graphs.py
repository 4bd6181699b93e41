"""Graphs of LangGraph: steps, turns of a conversation, resumed threads, documents in a state.

A cached node does not run, a resumed run starts in the middle, and documents that another process
found are only in the checkpoint. So documents of a state are looked for where a model is called.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_eval_hooks.capture import Recorder, Run
from rag_eval_hooks.capture.conversation import thread_of
from rag_eval_hooks.capture.copied import Message, entries
from rag_eval_hooks.capture.documents import Lists, documents_in, holds_documents
from rag_eval_hooks.capture.records import Interaction, Origin
from rag_eval_hooks.capture.rows import rows_in
from rag_eval_hooks.sample import Status

__all__ = [
    "ChainState",
    "begin_step",
    "checkpoint_of",
    "is_interrupt",
    "is_pulled",
    "is_step",
    "only_steers",
    "outermost",
    "resume_at",
    "resumes",
    "state_of",
    "unseen_documents",
    "with_graph_events",
]

_START = "__start__"
"""First step of every graph in old versions."""


@dataclass(slots=True)
class ChainState:
    """State of a chain run while it is open."""

    # A copy of its input.
    given: Any = None
    # Its output is a state, which may hold entries of earlier runs.
    is_graph: bool = False
    # It continues an interaction whose start was not seen.
    is_resuming: bool = False
    # Its input continues an interaction.
    is_continuing: bool = False
    # Documents in its input that no step was seen to retrieve are noted.
    is_searched: bool = False
    # Entries that its last step with a text put into it.
    written: Mapping[str, Any] | None = None


_NO_STATE = ChainState()


def state_of(run: Run | None) -> ChainState:
    """Return the state of a run; an empty one, only to be read, if it is no open chain run."""
    return run.state if run is not None and isinstance(run.state, ChainState) else _NO_STATE


@functools.cache
def with_graph_events(kind: type[Any]) -> type[Any]:
    """Return the class of a handler as a class to which LangGraph reports interrupts.

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


def only_steers(error: BaseException) -> bool:
    """Return whether an exception only steers a graph: an interrupt, a command to the outer one."""
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)


def is_interrupt(error: BaseException) -> bool:
    """Return whether a graph stops to wait for somebody."""
    return any(kind.__name__ == "GraphInterrupt" for kind in type(error).__mro__)


def resumes(inputs: Any) -> bool:
    """Return whether an input continues an interrupted run instead of asking anew."""
    if inputs is None:
        return True
    return type(inputs).__name__ == "Command" and getattr(inputs, "resume", None) is not None


def checkpoint_of(metadata: Mapping[str, Any] | None) -> str | None:
    """Return LangGraph's name for a step, equal when it runs again from the same checkpoint."""
    name = (metadata or {}).get("langgraph_checkpoint_ns")
    return name if isinstance(name, str) and name else None


def is_pulled(metadata: Mapping[str, Any] | None) -> bool:
    """Return whether a step was given the state, and not a value that another node sent it."""
    path = (metadata or {}).get("langgraph_path") or ("",)
    return not isinstance(path, list | tuple) or path[0] != "__pregel_push"


def outermost(run: Run) -> Run:
    """Return the outermost run around a run."""
    while run.parent is not None and not run.outermost:
        run = run.parent
    return run


# Steps and turns.


def begin_step(
    recorder: Recorder, run: Run, graph: Run, metadata: Mapping[str, Any] | None
) -> bool:
    """Note a step of a graph that starts; the first steps show where the graph goes on.

    An interaction that stopped is recognized by the checkpoint of its step, which LangGraph names
    again when it goes on there.

    Returns:
        Whether the question may be in the input of the step.
    """
    run.checkpoint = checkpoint_of(metadata)
    node = _node_of(run.checkpoint)
    if node == _START:
        return False
    run.batch = None if is_pulled(metadata) else run.name
    if graph.state is None:
        graph.state = ChainState()
    first = not graph.state.is_graph
    graph.state.is_graph = True
    if graph.parent is None:
        graph.interaction.resumable = True
    conversation = thread_of(graph.name, graph.interaction.metadata)
    if not graph.outermost or conversation is None:
        return False
    if graph.state.is_resuming:
        _resume(recorder, graph, conversation, run.checkpoint)
    elif first:
        recorder.suspensions.renew(
            conversation, lambda one: one.status is Status.OK or node in _nodes(one)
        )
    return True


def resume_at(recorder: Recorder, graph: Run, checkpoint: str) -> None:
    """Continue the interaction that stopped at the checkpoint from which a graph goes on."""
    conversation = thread_of(graph.name, graph.interaction.metadata)
    if conversation is not None and graph.outermost:
        _resume(recorder, graph, conversation, checkpoint)


def _resume(recorder: Recorder, graph: Run, conversation: str, checkpoint: str | None) -> None:
    suspensions = recorder.suspensions
    resumed = suspensions.resume(graph, conversation, lambda one: checkpoint in one.stops)
    if resumed and graph.state is not None:
        graph.state.is_resuming = False


def _node_of(checkpoint: str | None) -> str | None:
    """Return the node of the outermost graph to which a checkpoint belongs."""
    node, _, rest = (checkpoint or "").partition(":")
    return node if rest else None


def _nodes(interaction: Interaction) -> set[str | None]:
    checkpoints = (run.checkpoint for run in interaction.runs if run.checkpoint)
    return set(map(_node_of, interaction.stops.union(checkpoints))) - {None}


# Documents in a state that no step was seen to retrieve.


def unseen_documents(
    call: Run, messages: Sequence[Message], keys: Collection[str], longest: int
) -> Iterator[tuple[Run, Origin, Lists]]:
    """Yield lists of documents that a state holds when a model is called, with its step.

    Without a thread nothing is older than the run, so that all count. Otherwise they may be of an
    earlier turn, and count if the answering call shows them.

    Args:
        call: A model call; outside of a graph's steps there are none.
        messages: Input of a chat model; empty for a plain model.
        keys: Names of lists of documents.
        longest: Maximum length kept per text.
    """
    step = next((run for run in call.ancestors() if run.checkpoint), None)
    if step is None or (state := state_of(step)).given is None:
        return
    graph = outermost(step)
    is_fresh = _is_fresh(graph)
    if not state.is_searched:
        state.is_searched = True
        origin = Origin.DOCUMENTS if is_fresh else Origin.GIVEN
        yield step, origin, _in_state(state.given, step.interaction, keys, longest)
    if is_fresh or state_of(graph).is_resuming:
        yield step, Origin.DOCUMENTS, _artifacts(messages, graph, keys, longest)


def _is_fresh(graph: Run) -> bool:
    """Return whether everything in a graph's state is of this run."""
    thread = thread_of(graph.name, graph.interaction.metadata)
    return not state_of(graph).is_resuming and thread is None


def _in_state(state: Any, interaction: Interaction, keys: Collection[str], longest: int) -> Lists:
    if (held := entries(state)) is not None:
        # Messages hold no documents but artifacts, of earlier turns as well.
        state = {key: value for key, value in held.items() if key != "messages"}
    found = documents_in(state, keys=keys, artifacts=False) if state else []
    return _unknown(found, interaction, longest)


def _unknown(lists: Lists, interaction: Interaction, longest: int) -> Lists:
    """Return the documents that were not seen before, possibly cut."""
    if not lists:
        return []
    seen = (found for found in interaction.lists if not found.is_guessed)
    known = {context.text for found in seen for context in found.contexts}
    new = (tuple(c for c in one if c.text[:longest] not in known) for one in lists)
    return [contexts for contexts in new if contexts]


def _artifacts(
    messages: Sequence[Message], graph: Run, keys: Collection[str], longest: int
) -> Lists:
    """Return unknown documents in this turn's messages of tools."""
    asked = [place for place, message in enumerate(messages) if message.role == "user"]
    found: Lists = []
    for message in messages[asked[-1] :] if asked else messages:
        artifact = message.artifact
        documents = documents_in(artifact, keys=keys, artifacts=False)
        is_known = bool(documents) or holds_documents(artifact)
        found += documents if is_known else rows_in(artifact)
    return _unknown(found, graph.interaction, longest)
