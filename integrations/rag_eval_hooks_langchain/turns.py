"""Finds the question of an outermost run: a new one, or one that a graph goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_eval_hooks.capture import Origin, Run
from rag_eval_hooks.capture.conversation import thread_of
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.records import Interaction
from rag_eval_hooks.capture.resume import Fits
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Status
from rag_eval_hooks_langchain.choices import Choices
from rag_eval_hooks_langchain.documents import Documents
from rag_eval_hooks_langchain.graphs import (
    START,
    ChainState,
    checkpoint_of,
    is_pulled,
    node_of,
    state_of,
    update_in,
)
from rag_eval_hooks_langchain.passing_texts import input_texts
from rag_eval_hooks_langchain.question_answer import texts_in_state

__all__ = ["Turns"]


class Turns:
    """Reads the inputs of outermost runs, and joins what goes on with what stopped.

    What stopped is recognised by the checkpoint of its step, which LangGraph names again when it
    goes on there. Two graphs of one name may share a thread: where nothing shows that both are
    one, nothing is joined.

    Args:
        recorder: Of the evaluator.
        documents: Finds documents that the caller gives.
        choices: Tell where the question stands.
        incidents: Where choices that fail are counted.
    """

    def __init__(
        self,
        recorder: Recorder,
        documents: Documents,
        choices: Choices,
        incidents: Incidents,
    ) -> None:
        self._recorder = recorder
        self._documents = documents
        self._choices = choices
        self._incidents = incidents

    def begin(self, run: Run, inputs: Any, called: Any) -> None:
        """Note the input of an outermost run, whatever it is."""
        if state_of(run).is_continuing:
            self._note_documents(run, update_in(inputs))
        elif not _is_blank(inputs):
            self._note_input(run, inputs, called)

    def ends(self, run: Run, inputs: Any, called: Any) -> None:
        """Note the input of an outermost run that ends; a streamed one began with a blank input."""
        if not run.query:
            self._note_input(run, inputs, called)

    def gave(self, run: Run, outputs: Any, called: Any) -> None:
        """Look in the state that a graph gave out for a question that no input held."""
        if not run.query:
            self._recorder.question(run, self._choices.asked_in(outputs, called))

    def step(self, run: Run, graph: Run, metadata: Mapping[str, Any] | None) -> bool:
        """Note a step of a graph that begins; the first ones show what the graph goes on with.

        Returns:
            Whether the question may be in what the step is given.
        """
        run.checkpoint = checkpoint_of(metadata)
        if node_of(run.checkpoint) == START:
            return False
        run.batch = None if is_pulled(metadata) else run.name
        first = graph.state is None or not graph.state.is_graph
        if first:
            self._become_graph(graph)
        conversation = thread_of(graph.name, graph.interaction.metadata)
        if not graph.outermost or conversation is None:
            return False
        if state_of(graph).is_resuming:
            checkpoint = run.checkpoint
            self._resume(graph, conversation, lambda one: checkpoint in one.stops)
        elif first:
            node = node_of(run.checkpoint)
            self._recorder.suspensions.renew(
                conversation, lambda one: one.status is Status.OK or node in _nodes(one)
            )
        return True

    def asks(
        self, run: Run, graph: Run, called: Any, *, first: bool, pulled: bool, resuming: bool
    ) -> None:
        """Note the question in what a step is given, if the graph's input does not hold it."""
        if graph.query:
            return
        if pulled:
            self._recorder.question(graph, self._asked(run, called))
        if first and not graph.query and resuming:
            self._recorder.kept(graph, list(texts_in_state(state_of(run).given)))

    def _become_graph(self, run: Run) -> None:
        if run.state is None:
            run.state = ChainState()
        run.state.is_graph = True
        if run.parent is None:
            run.interaction.resumable = True

    def resumed(self, graph: Run, checkpoint: str) -> None:
        """Continue what stopped at the checkpoint from which a graph goes on."""
        conversation = thread_of(graph.name, graph.interaction.metadata)
        if conversation is not None and graph.outermost:
            self._resume(graph, conversation, lambda one: checkpoint in one.stops)

    def _resume(self, graph: Run, conversation: str, fits: Fits) -> bool:
        resumed = self._recorder.suspensions.resume(graph, conversation, fits)
        if resumed and graph.state is not None:
            graph.state.is_resuming = False
        return resumed

    def _asked(self, step: Run, called: Any) -> str | None:
        """Return the question in the input of a step; an entrypoint's is the graph's own input."""
        given = state_of(step).given
        if isinstance(given, str):
            return self._choices.question_in(given, self._incidents, called)
        return self._choices.asked_in(given, called)

    def _note_input(self, run: Run, inputs: Any, called: Any) -> None:
        inputs = update_in(inputs)
        self._recorder.question(run, self._choices.question_in(inputs, self._incidents, called))
        self._recorder.asked(run, list(filter(None, input_texts(inputs))))
        self._note_documents(run, inputs)

    def _note_documents(self, run: Run, values: Any) -> None:
        for contexts in self._documents.given_in(values):
            if contexts:
                self._recorder.documents(run, contexts, Origin.GIVEN)


def _nodes(interaction: Interaction) -> set[str | None]:
    named = (run.checkpoint for run in interaction.runs if run.checkpoint)
    return set(map(node_of, interaction.stops.union(named))) - {None}


def _is_blank(inputs: Any) -> bool:
    """Return whether this is what a streamed chain reports as its input when it begins."""
    text = inputs.get("input") if isinstance(inputs, dict) and len(inputs) == 1 else None
    return isinstance(text, str) and not text
