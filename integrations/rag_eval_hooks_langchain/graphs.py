"""Captures LangGraph: steps, turns of a conversation, resumed threads, documents in a state."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_hooks.capture import Recorder, Run
from rag_eval_hooks.capture.copied import entries
from rag_eval_hooks.capture.documents import Lists, documents_in
from rag_eval_hooks.capture.options import thread_of
from rag_eval_hooks.capture.records import Interaction, Origin

_STEP_TAG = re.compile("graph:step:")
# The first step of every graph in old versions.
_START = "__start__"


class ChainState:
    # Defaults of the class, because most steps change only the input.
    # A copy of the run's input.
    given: Any = None
    # Whether the output is a state, which may contain entries of earlier runs.
    is_graph: bool = False
    # Whether the run continues a request that started in another process.
    is_resuming: bool = False
    # Whether the run is a step of an outermost graph that has a thread id.
    shows_state: bool = False
    # Whether the input is the state, and not a value that another node sent.
    is_pulled: bool = False
    # Whether the input's texts are from an earlier turn, or None after a graph's first steps.
    is_earlier: bool | None = None
    # Whether capture already searched the input for documents.
    is_searched: bool = False
    # Entries that the last step with a text wrote.
    written: Mapping[str, Any] | None = None


_NO_STATE = ChainState()


def state_of(run: Run | None) -> ChainState:
    return run.state if run is not None and isinstance(run.state, ChainState) else _NO_STATE


@functools.cache
def with_graph_events(kind: type[Any]) -> type[Any]:
    # LangGraph reports interrupts only to its own handler class. Importing that class takes a
    # quarter of a second, so the import waits until a handler is created.
    try:
        from langgraph.callbacks import GraphCallbackHandler
    except ImportError:
        return kind
    if issubclass(kind, GraphCallbackHandler):
        return kind
    return type(kind.__name__, (kind, GraphCallbackHandler), {"__module__": kind.__module__})


def is_step(tags: Sequence[str]) -> bool:
    return any(map(_STEP_TAG.match, tags))


def is_raised_as(error: BaseException, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(error).__mro__)


def resumes(inputs: Any) -> bool:
    if inputs is None:
        return True
    return type(inputs).__name__ == "Command" and getattr(inputs, "resume", None) is not None


def outermost(run: Run) -> Run:
    while run.parent is not None and not run.outermost:
        run = run.parent
    return run


def begin_step(recorder: Recorder, run: Run, parent: Run, event: Mapping[str, Any]) -> None:
    # The step's checkpoint identifies an interrupted request. LangGraph names the same checkpoint
    # when the request resumes.
    state, graph, tags = state_of(run), state_of(parent), event.get("tags")
    begins = is_step(tags) if tags else False
    if first := not graph.is_graph:
        state.is_earlier = begins and parent.outermost and not graph.is_resuming
    if not begins:
        return
    metadata = event.get("metadata") or {}
    run.checkpoint = metadata.get("langgraph_checkpoint_ns") or None
    if _node_of(run.checkpoint) != _START:
        path = metadata.get("langgraph_path") or ("",)
        state.is_pulled = not isinstance(path, list | tuple) or path[0] != "__pregel_push"
        run.batch = None if state.is_pulled else run.name
        _begin_turn(recorder, run, parent, first=first)


def _begin_turn(recorder: Recorder, step: Run, graph: Run, *, first: bool) -> None:
    if graph.state is None:
        graph.state = ChainState()
    graph.state.is_graph = True
    graph.interaction.resumable |= graph.parent is None
    conversation = thread_of(graph.name, graph.interaction.metadata)
    if not graph.outermost or conversation is None:
        return
    state_of(step).shows_state = True
    if graph.state.is_resuming:
        resume_at(recorder, graph, step.checkpoint)
    elif first:
        node = _node_of(step.checkpoint)
        recorder.suspensions.renew(conversation, lambda one: node in _nodes(one))


def resume_at(recorder: Recorder, graph: Run, checkpoint: str | None) -> None:
    conversation = thread_of(graph.name, graph.interaction.metadata)
    if conversation is None or not graph.outermost:
        return
    fits = recorder.suspensions.resume(graph, conversation, lambda one: checkpoint in one.stops)
    if fits and graph.state is not None:
        graph.state.is_resuming = False


def _node_of(checkpoint: str | None) -> str | None:
    node, _, rest = (checkpoint or "").partition(":")
    return node if rest else None


def _nodes(interaction: Interaction) -> set[str | None]:
    checkpoints = (run.checkpoint for run in interaction.runs if run.checkpoint)
    return set(map(_node_of, interaction.stops.union(checkpoints))) - {None}


def unseen_documents(call: Run, longest: int) -> tuple[Run, Origin, Lists] | None:
    # Return the documents of a step's state once. Only the state contains the documents of cached
    # nodes and of earlier processes. Without a thread, every document comes from this run. With a
    # thread, a document may come from an earlier turn. Such a document is a context only if the
    # answering call shows the document.
    step = next((run for run in call.ancestors() if run.checkpoint), None)
    if step is None or not (given := state_of(step).given) or state_of(step).is_searched:
        return None
    state_of(step).is_searched = True
    graph, interaction = outermost(step), step.interaction
    is_resuming = state_of(graph).is_resuming
    is_fresh = not is_resuming and thread_of(graph.name, interaction.metadata) is None
    if (held := entries(given)) is not None:
        # Messages, even of earlier turns, contain documents only as artifacts.
        given = {key: value for key, value in held.items() if key != "messages"}
    found = documents_in(given, artifacts=False)
    origin = Origin.DOCUMENTS if is_fresh else Origin.GIVEN
    return step, origin, _unknown(found, interaction, longest)


def _unknown(lists: Lists, interaction: Interaction, longest: int) -> Lists:
    # The text of a recorded document may be cut.
    seen = (
        found for found in interaction.lists if found.origin not in (Origin.STEP, Origin.EARLIER)
    )
    known = {context.text for found in seen for context in found.contexts} if lists else set()
    new = (tuple(c for c in one if c.text[:longest] not in known) for one in lists)
    return [contexts for contexts in new if contexts]
