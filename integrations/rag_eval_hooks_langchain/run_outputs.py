"""Notes what runs give out, and documents in a graph's state that no step was seen to find.

A cached node does not run, a run that is taken up again begins in the middle, and what another
process found is only in the checkpoint. A state may as well hold documents of an earlier turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from rag_eval_hooks.capture import Origin, Recorder, Run, RunKind
from rag_eval_hooks.capture.conversation import thread_of
from rag_eval_hooks.capture.passages import shown_in
from rag_eval_hooks.capture.records import DocumentList, Interaction
from rag_eval_hooks.capture.text_forms import fold
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain.choices import Choices
from rag_eval_hooks_langchain.document_search import IsKnown, Lists, holds_documents
from rag_eval_hooks_langchain.documents import Documents
from rag_eval_hooks_langchain.graphs import state_of
from rag_eval_hooks_langchain.models import text_of_tool, tool_content
from rag_eval_hooks_langchain.question_answer import lone_text, message_text, written
from rag_eval_hooks_langchain.structured import entries, fresh, structured, update_of

__all__ = ["RunOutputs"]


class RunOutputs:
    """Notes the documents and the answer that runs give out.

    Documents in a graph's state that no step was seen to find are looked for where a model is
    called. Without a thread nothing is older than the run, so that all count. Else those count
    that the call shows beside the question, not within a conversation.

    Args:
        recorder: Of the evaluator.
        documents: Finds documents in values.
        choices: Choices of the application.
        incidents: Counts choices that fail.
    """

    def __init__(
        self, recorder: Recorder, documents: Documents, choices: Choices, incidents: Incidents
    ) -> None:
        self._recorder = recorder
        self._documents = documents
        self._choices = choices
        self._incidents = incidents

    def note_answer(self, run: Run, outputs: Any, given: Any, called: Any) -> None:
        """Note the answer of an outermost run.

        Args:
            run: The run.
            outputs: Its output.
            given: Its input.
            called: What the application's function chose.
        """
        if run.parent is None and not run.interaction.passed and holds_documents(outputs):
            # What gives a list of documents retrieves for something around it.
            run.kind = RunKind.RETRIEVER
        said = partial(_is_said, run.interaction)
        answer = self._choices.answer_in(outputs, self._incidents, given, said, called)
        self._recorder.answer(run, answer)
        others = self._choices.other_answers(outputs, given, answer)
        found = None
        if answer is None:
            found = structured(outputs, given, state=state_of(run).is_graph)
        last = () if self._choices.answer else written(state_of(run).written, outputs)
        self._recorder.alternatives(run, others, found, last)

    def note_written(self, run: Run, outputs: Any, given: Any) -> None:
        """Note what a step put into the state of its graph; the last step may write a report."""
        graph = run.parent
        if run.checkpoint is not None and graph is not None and graph.parent is None:
            values = fresh(entries(update_of(outputs)) or {}, given)
            if graph.state is not None and any(map(lone_text, values.values())):
                graph.state.written = values

    def note_documents(
        self,
        run: Run,
        outputs: Any,
        given: Any = None,
        *,
        is_step: bool = False,
        asked: bool = True,
    ) -> bool:
        """Note the documents in an output.

        Args:
            run: The run.
            outputs: Its output.
            given: Its input.
            is_step: Whether it was a step of a graph.
            asked: Whether a retriever had been asked when it ended.

        Returns:
            Whether there were any.
        """
        # Elsewhere than in steps of graphs and in tools, messages of tools are of earlier turns.
        fresh = run.kind is RunKind.TOOL or is_step
        resets = is_step and not (asked or _has_documents(run.interaction))
        found = self._documents.found_in(outputs, given, artifacts=fresh, resets=resets)
        for contexts in found:
            self._recorder.documents(run, contexts)
        graph = _outermost(run)
        if found and run.kind is RunKind.TOOL and graph.state is not None:
            graph.state.read.update(_artifacts_in([outputs]))
        return bool(found)

    def note_text(self, run: Run, text: Context | None) -> None:
        """Note a text that may be retrieved."""
        if text is not None:
            self._recorder.documents(run, (text,), Origin.TEXT)

    def note_tool(self, run: Run, output: Any, *, named: bool) -> None:
        """Note the texts of a tool that gave no documents.

        Args:
            run: The tool's run.
            output: Its output.
            named: Whether the application named it as one that retrieves.
        """
        text = text_of_tool(output)
        rows = self._documents.passing(getattr(output, "artifact", None))
        if text and any(c.text in text.text for contexts in rows for c in contexts):
            for contexts in rows:
                self._recorder.documents(run, contexts)
            return
        found = self._documents.passing(tool_content(output)) if text is None else [(text,)]
        if text is not None and text.text.lstrip()[:1] in ("[", "{"):
            found = self._documents.passing(text.text)
        for contexts in found:
            self._recorder.documents(run, contexts, Origin.TEXT, named=named)

    def note_passing(self, run: Run, outputs: Any, given: Any, *, beside: bool = False) -> None:
        """Note texts in a step's output; those of tools whose runs were seen are known.

        A text that a step makes of an empty list is a fixed one.

        Args:
            run: The step.
            outputs: Its output.
            given: Its input.
            beside: Whether it holds documents, which were noted.
        """
        if isinstance(given, list) and not given and isinstance(outputs, str):
            run.interaction.step_texts.add(hash(outputs))
        elif not state_of(run).holds_tool:
            called = _calls_in(given) if state_of(run.parent).is_graph else set()
            for value in self._documents.values_beside(outputs, given, beside=beside):
                # A node that calls a plain function as a tool answers the model's call.
                origin = Origin.STEP if called.isdisjoint(_answered_by(value)) else Origin.TEXT
                self._note_step(run, [value], origin)

    def note_given(self, run: Run, inputs: Any, *, earlier: bool) -> None:
        """Note rows and texts that a run's caller gave it without any step that found them.

        Args:
            run: Any run but an outermost one, and but later steps of a graph.
            inputs: Its input.
            earlier: Whether what the graph's input did not hold was in the state before.
        """
        values = None if isinstance(inputs, BaseMessage) else entries(inputs)
        if values is not None:
            texts = [value for value in values.values() if isinstance(value, str | list)]
            self._note_step(run, texts, Origin.EARLIER if earlier else Origin.STEP)

    def _note_step(self, run: Run, values: Iterable[Any], origin: Origin = Origin.STEP) -> None:
        """Note texts of a step. One that is handed on from step to step is read once."""
        known = run.interaction.step_texts
        for value in values:
            if isinstance(value, str):
                if (key := hash(value)) in known:
                    continue
                known.add(key)
            for contexts in self._documents.rows(value):
                self._recorder.documents(run, contexts, origin)

    def note_joined_text(self, run: Run, outputs: Any, given: Any) -> None:
        """Note documents that a step of a graph has joined to one text."""
        if run.checkpoint is not None:
            self.note_text(run, self._documents.text_in(outputs, given))

    def note_choice(self, run: Run, outputs: Any, called: Any) -> None:
        """Note the contexts that the application chose in an output, or by its function."""
        if self._choices.contexts is None:
            return
        # A function that reads one step's output need not fit another's.
        is_last = run.outermost and run.interaction.chosen is None
        incidents = self._incidents if is_last else None
        chosen = self._choices.contexts_in(outputs, self._documents, incidents, called)
        if chosen is not None:
            self._recorder.choose(run, chosen)

    def note_unseen(self, call: Run, messages: Sequence[BaseMessage] | str) -> None:
        """Note documents in a step's state that a model call is given.

        Args:
            call: The call; nothing happens outside the steps of a graph.
            messages: Input of a chat model, or the prompt of a plain one.
        """
        step = next((run for run in call.ancestors() if run.checkpoint), None)
        if step is None or (state := state_of(step)).given is None:
            return
        graph = _outermost(step)
        fresh = _is_fresh(graph)
        if state.unseen is None:
            state.unseen = self._in_state(state.given, step.interaction)
        found, state.unseen = (state.unseen, []) if fresh else _shown(step, state.unseen, messages)
        if fresh or state_of(graph).is_resuming:
            found = [*found, *self._artifacts(messages, graph)]
        for contexts in found:
            self._recorder.documents(step, contexts)

    def note_final_state(self, graph: Run, outputs: Any) -> None:
        """Note documents in a graph's output if nothing was found and no model's call was seen."""
        interaction = graph.interaction
        if interaction.retrieves or not (_is_fresh(graph) or state_of(graph).is_resuming):
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

    def _artifacts(self, messages: Sequence[BaseMessage] | str, graph: Run) -> Lists:
        """Return unknown documents in messages of tools; each message is read once a graph."""
        read: set[tuple[str, int]] = set() if graph.state is None else graph.state.read
        tools = _artifacts_in(_this_turn(messages))
        unread = [artifact for key, artifact in tools.items() if key not in read]
        if not unread:
            return []
        read.update(tools)
        is_known = self._known(graph.interaction)
        lists = (self._documents.in_artifact(artifact, is_known) for artifact in unread)
        return _without([contexts for found in lists for contexts in found], is_known)

    def _known(self, interaction: Interaction) -> IsKnown:
        """Return a test of whether a text is that of a document seen before, possibly cut."""
        known = {
            c.text for found in interaction.lists if not found.is_guessed for c in found.contexts
        }
        longest = self._recorder.longest
        return lambda text: text in known or (len(text) > longest and text[:longest] in known)


def _artifacts_in(messages: Iterable[Any]) -> dict[tuple[str, int], Any]:
    """Return the artifacts in messages of tools, each by the call and its identity."""
    return {
        (m.tool_call_id, id(m.artifact)): m.artifact
        for m in messages
        if isinstance(m, ToolMessage) and m.artifact is not None
    }


def _has_documents(interaction: Interaction) -> bool:
    """Return whether there were documents of a step's or the caller's, of which none may pass.

    A step that empties a list before may only clear the state of the turn before.
    """
    return not all(found.is_guessed for found in interaction.lists)


def _is_said(interaction: Interaction, text: str) -> bool:
    """Return whether most of a text is what a model said."""
    folded = fold(text)
    said = (fold(run.text) for run in interaction.runs if run.kind is RunKind.MODEL and run.text)
    return any(one in folded and 2 * len(one) >= len(folded) for one in said if one)


def _without(lists: Lists, is_known: IsKnown) -> Lists:
    new = (tuple(c for c in contexts if not is_known(c.text)) for contexts in lists)
    return [contexts for contexts in new if contexts]


def _shown(step: Run, unseen: Lists, messages: Sequence[BaseMessage] | str) -> tuple[Lists, Lists]:
    """Return those of the unseen documents of a step that a call shows, and the rest."""
    if not unseen:
        return [], []
    lists = [DocumentList(step, contexts) for contexts in unseen]
    shown = shown_in(_beside_question(messages), lists)
    texts = {context.text for context in shown}
    rest = [tuple(c for c in contexts if c.text not in texts) for contexts in unseen]
    return [shown] if shown else [], [contexts for contexts in rest if contexts]


def _outermost(step: Run) -> Run:
    run = step
    while run.parent is not None and not run.outermost:
        run = run.parent
    return run


def _calls_in(given: Any) -> set[str]:
    """Return the ids of the calls that the last message of a state makes."""
    lists = (value for value in (entries(given) or {}).values() if isinstance(value, list))
    last = (messages[-1] for messages in lists if messages)
    return {str(c["id"]) for m in last if isinstance(m, AIMessage) for c in m.tool_calls}


def _answered_by(value: Any) -> set[str]:
    """Return the ids of the calls that a tool's message, or those in a list, answer."""
    items = value if isinstance(value, list | tuple) else [value]
    return {str(item.tool_call_id) for item in items if isinstance(item, ToolMessage)}


def _is_fresh(graph: Run) -> bool:
    """Return whether everything in a graph's state is of this run."""
    return (
        not state_of(graph).is_resuming
        and thread_of(graph.name, graph.interaction.metadata) is None
    )


def _beside_question(messages: Sequence[BaseMessage] | str) -> str:
    """Return a model's input without the turns before, folded."""
    if isinstance(messages, str):
        return fold(messages)
    parts = [m for m in messages if isinstance(m, SystemMessage)] + _this_turn(messages)
    return fold("\n".join(map(message_text, parts)))


def _this_turn(messages: Sequence[BaseMessage] | str) -> list[BaseMessage]:
    if isinstance(messages, str):
        return []
    asked = [place for place, m in enumerate(messages) if isinstance(m, HumanMessage)]
    return list(messages[asked[-1] :]) if asked else list(messages)
