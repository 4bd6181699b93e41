"""Which question an outermost run answers: a new one, or one that a graph goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_eval_hooks.capture import Origin, Run
from rag_eval_hooks.capture.conversation import is_of_same_user, thread_of
from rag_eval_hooks.capture.interaction import Interaction
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.suspended import Fits
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks_langchain.choices import Choices
from rag_eval_hooks_langchain.documents import Documents
from rag_eval_hooks_langchain.graphs import (
    START,
    is_pulled,
    mark_of,
    node_of,
    resumes,
    update_in,
)

__all__ = ["Turns"]


class Turns:
    """Reads the inputs of outermost runs, and joins what goes on with what stopped.

    What stopped is known again by the mark of its step or by its checkpoint, which LangGraph
    tells again when it goes on there. Two graphs of one name may share a thread: where nothing
    tells that both are one, nothing is joined.

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

    def begin(self, run: Run, inputs: Any) -> None:
        """An outermost run begins."""
        run.resuming = resumes(inputs)
        if run.resuming:
            self._note_documents(run, update_in(inputs))
        elif not _is_blank(inputs):
            self._note_input(run, inputs)

    def ends(self, run: Run, extra: Mapping[str, Any]) -> None:
        """An outermost run ends: one that streamed began with a blank input and tells it now."""
        if "inputs" in extra and not run.query and not run.resuming:
            self._note_input(run, extra["inputs"])

    def gave(self, run: Run, outputs: Any) -> None:
        """The state that a graph gave out may hold the question that no input told."""
        if not run.query and run.keeps_state:
            run.query = self._recorder.text(run, self._choices.asked_in(outputs))

    def step(self, run: Run, graph: Run, metadata: Mapping[str, Any] | None) -> None:
        """A step of a graph begins; the first ones tell what the graph goes on with."""
        run.mark = mark_of(metadata)
        if node_of(run.mark) == START:
            return
        first, graph.keeps_state = not graph.keeps_state, True
        conversation = thread_of(graph.name, graph.interaction.metadata)
        if not graph.outermost or conversation is None or not (first or not graph.query):
            return
        asked = self._asked(run) if is_pulled(metadata) else None
        if graph.resuming:
            self._join(run, graph, conversation, asked)
        elif first:
            node = node_of(run.mark)
            self._recorder.renew(conversation, lambda one: node in _nodes(one))
        if not graph.query:
            graph.query = self._recorder.text(graph, asked)

    def resumed(self, graph: Run, checkpoint: str) -> None:
        """LangGraph tells from which checkpoint a graph goes on."""
        conversation = thread_of(graph.name, graph.interaction.metadata)
        if conversation is not None and graph.outermost:
            self._recorder.resume(graph, conversation, lambda one: checkpoint in one.stops)

    def _join(self, step: Run, graph: Run, conversation: str, asked: str | None) -> None:
        mark = step.mark
        self._recorder.resume(graph, conversation, lambda one: mark in one.stops)
        if graph.resuming:
            self._recorder.resume(graph, conversation, _stopped_before(step, asked))

    def _asked(self, step: Run) -> str | None:
        """What was asked, by the state; the function of an entrypoint is given the input itself."""
        if isinstance(step.given, str):
            return self._choices.question_in(step.given, self._incidents)
        return self._choices.asked_in(step.given)

    def _note_input(self, run: Run, inputs: Any) -> None:
        inputs = update_in(inputs)
        run.query = self._recorder.text(run, self._choices.question_in(inputs, self._incidents))
        self._note_documents(run, inputs)

    def _note_documents(self, run: Run, values: Any) -> None:
        for contexts in self._documents.found_in(values, artifacts=False):
            if contexts:
                self._recorder.documents(run, contexts, Origin.GIVEN)


def _stopped_before(step: Run, asked: str | None) -> Fits:
    """Where the state was edited meanwhile, the steps have new marks; its question is the same."""
    node = node_of(step.mark)

    def fits(one: Interaction) -> bool:
        stopped = set(map(node_of, one.stops)) - {None}
        if not is_of_same_user(one.metadata, step.interaction.metadata):
            return False
        return bool(asked) and one.root.query == asked and (not stopped or node in stopped)

    return fits


def _nodes(interaction: Interaction) -> set[str | None]:
    marks = interaction.stops.union(run.mark for run in interaction.runs if run.mark)
    return set(map(node_of, marks)) - {None}


def _is_blank(inputs: Any) -> bool:
    """Whether this is what a streamed chain reports as its input when it begins."""
    told = inputs.get("input") if isinstance(inputs, dict) and len(inputs) == 1 else None
    return isinstance(told, str) and not told
