"""Documents that stand in a graph's state though no step was seen to find them.

A cached node does not run, a run that is taken up again begins in the middle, and what another
process found is only in the checkpoint. A state may as well hold documents of an earlier turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage

from rag_eval_hooks.capture import Run, RunKind
from rag_eval_hooks.capture.contexts.search import shown_in
from rag_eval_hooks.capture.contexts.text_forms import fold
from rag_eval_hooks.capture.conversation import thread_of
from rag_eval_hooks.capture.interaction import DocumentList, Interaction
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks_langchain.documents import Documents, IsKnown, Lists
from rag_eval_hooks_langchain.structured import entries
from rag_eval_hooks_langchain.values import message_text

__all__ = ["States"]


class States:
    """Finds them where a model is called, in what its step was given.

    Without a thread nothing is older than the run, so that all count. Else those count that the
    call shows beside the question, and not in the course of a conversation.

    Args:
        recorder: Of the evaluator.
        documents: Finds documents in values.
    """

    def __init__(self, recorder: Recorder, documents: Documents) -> None:
        self._recorder = recorder
        self._documents = documents

    def note(self, call: Run, messages: Sequence[BaseMessage] | str) -> None:
        """Records what a model call is given of them.

        Args:
            call: The call; nothing happens outside the steps of a graph.
            messages: What the model is given, or the prompt of a plain one.
        """
        step = next((run for run in call.ancestors() if run.mark), None)
        if step is None or step.given is None:
            return
        graph = _outermost(step)
        fresh = _is_fresh(graph)
        if step.unseen is None:
            step.unseen = self._in_state(step.given, step.interaction)
        found, step.unseen = (step.unseen, []) if fresh else _shown(step, messages)
        if fresh or graph.resuming:
            found = [*found, *self._artifacts(messages, step.interaction)]
        for contexts in found:
            self._recorder.documents(step, contexts)

    def note_output(self, graph: Run, outputs: Any) -> None:
        """Records what a graph gives out where nothing was found and no model's call was seen."""
        interaction = graph.interaction
        if interaction.lists or not (_is_fresh(graph) or graph.resuming):
            return
        if not any(run.kind is RunKind.MODEL for run in interaction.runs):
            for contexts in self._in_state(outputs, interaction):
                self._recorder.documents(graph, contexts)

    def _in_state(self, state: Any, interaction: Interaction) -> Lists:
        values = entries(state)
        if values is not None:
            # Messages hold no documents but artifacts, of earlier turns as well.
            state = {key: value for key, value in values.items() if key != "messages"}
        if not state:
            return []
        is_known = self._known(interaction)
        found = self._documents.found_in(state, artifacts=False, is_known=is_known)
        return _without(found, is_known)

    def _artifacts(self, messages: Sequence[BaseMessage] | str, interaction: Interaction) -> Lists:
        tools = [
            m for m in _this_turn(messages) if isinstance(m, ToolMessage) and m.artifact is not None
        ]
        if not tools:
            return []
        is_known = self._known(interaction)
        lists = (self._documents.in_artifact(m.artifact, is_known) for m in tools)
        return _without([contexts for found in lists for contexts in found], is_known)

    def _known(self, interaction: Interaction) -> IsKnown:
        """Whether a text is that of a document which was seen before, possibly cut."""
        known = {c.text for found in interaction.lists for c in found.contexts}
        longest = self._recorder.longest
        return lambda text: text in known or (len(text) > longest and text[:longest] in known)


def _without(lists: Lists, is_known: IsKnown) -> Lists:
    new = (tuple(c for c in contexts if not is_known(c.text)) for contexts in lists)
    return [contexts for contexts in new if contexts]


def _shown(step: Run, messages: Sequence[BaseMessage] | str) -> tuple[Lists, Lists]:
    """Of what is unseen in the state of a step, that which a call shows, and the rest."""
    if not step.unseen:
        return [], []
    lists = [DocumentList(step, contexts) for contexts in step.unseen]
    shown = shown_in(_beside_question(messages), lists)
    texts = {context.text for context in shown}
    rest = [tuple(c for c in contexts if c.text not in texts) for contexts in step.unseen]
    return [shown] if shown else [], [contexts for contexts in rest if contexts]


def _outermost(step: Run) -> Run:
    run = step
    while run.parent is not None and not run.outermost:
        run = run.parent
    return run


def _is_fresh(graph: Run) -> bool:
    """Whether all that its state holds is of this run."""
    return not graph.resuming and thread_of(graph.name, graph.interaction.metadata) is None


def _beside_question(messages: Sequence[BaseMessage] | str) -> str:
    """What a model is told, without the turns before."""
    if isinstance(messages, str):
        return fold(messages)
    told = [m for m in messages if isinstance(m, SystemMessage)] + _this_turn(messages)
    return fold("\n".join(map(message_text, told)))


def _this_turn(messages: Sequence[BaseMessage] | str) -> list[BaseMessage]:
    if isinstance(messages, str):
        return []
    asked = [place for place, m in enumerate(messages) if isinstance(m, HumanMessage)]
    return list(messages[asked[-1] :]) if asked else list(messages)
