"""Reads copies of what runs were given and gave out, and notes question, answer and documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rag_eval_hooks.capture import CaptureOptions, Origin, Recorder, Run, RunKind
from rag_eval_hooks.capture.copied import Message, chosen_text, entries, fresh, named, state_update
from rag_eval_hooks.capture.documents import (
    DOCUMENT_KEYS,
    chosen_contexts,
    documents_in,
    given_documents,
    holds_documents,
)
from rag_eval_hooks.capture.readings import (
    answer_of,
    lone_text,
    named_answer,
    other_answers,
    question_in_state,
    question_of,
    structured_answer,
    texts_in_input,
    texts_in_state,
    written_texts,
)
from rag_eval_hooks.capture.records import Interaction
from rag_eval_hooks.capture.replies import rows_in
from rag_eval_hooks.capture.text_forms import fold, is_distinctive_text
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain.graphs import artifacts_in, documents_in_output, outermost, state_of

__all__ = ["ChainEnd", "Reader"]


class ChainEnd(NamedTuple):
    """Facts about a chain run at its end, which later events may change."""

    is_graph: bool
    is_resuming: bool
    is_step: bool
    # A retriever had been asked.
    attempted: bool
    # The end event reports the input of a stream.
    reports_input: bool
    # What functions of the application chose: `question`, `state` and `answer`.
    chosen: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads runs under the options of their request."""

    recorder: Recorder
    incidents: Incidents
    options: CaptureOptions

    @property
    def keys(self) -> Collection[str]:
        """Names of lists of documents."""
        named_keys = self.options.document_keys
        return DOCUMENT_KEYS if named_keys is None else named_keys

    # Inputs.

    def input_of_root(self, run: Run, inputs: Any, chosen: Any) -> None:
        """Note the input with which an outermost run starts."""
        if state_of(run).is_continuing:
            self._note_given_documents(run, state_update(inputs))
        elif not (isinstance(inputs, dict) and list(inputs.items()) == [("input", "")]):
            # A streamed chain starts with that blank input.
            self.whole_input(run, inputs, chosen)

    def whole_input(self, run: Run, inputs: Any, chosen: Any) -> None:
        """Note the input of an outermost run if it is not known yet."""
        if run.query:
            return
        inputs = state_update(inputs)
        self.recorder.question(run, self._question_in(inputs, chosen))
        self.recorder.asked(run, list(texts_in_input(inputs)))
        self._note_given_documents(run, inputs)

    def input_of_step(
        self, run: Run, graph: Run, chosen: Any, *, first: bool, pulled: bool, resuming: bool
    ) -> None:
        """Note the question in the input of a step if the graph's input does not hold it."""
        given = state_of(run).given
        if not graph.query and pulled:
            # The input of an entrypoint is the graph's own.
            read = self._question_in if isinstance(given, str) else self._question_in_state
            self.recorder.question(graph, read(given, chosen))
        if first and not graph.query and resuming:
            self.recorder.kept(graph, texts_in_state(given))

    def texts_of_caller(self, run: Run, inputs: Any, *, earlier: bool) -> None:
        """Note rows and texts that a caller gave to a run without any step that found them."""
        values = entries(inputs) or {}
        if run.parent is not None and not run.parent.outermost:
            # What the parent was given was noted then, and conversations go through all steps.
            values = fresh(values, state_of(run.parent).given)
            values = {k: v for k, v in values.items() if not _is_conversation(v, v)}
        texts = [value for value in values.values() if isinstance(value, str | list)]
        self._note_texts(run, texts, Origin.EARLIER if earlier else Origin.STEP)

    def _question_in(self, value: Any, chosen: Any) -> str | None:
        choice = self.options.question
        text = chosen_text("question", choice, value, chosen, question_of, self.incidents)
        return question_of(value) if text is None else text

    def _question_in_state(self, state: Any, chosen: Any) -> str | None:
        if isinstance(self.options.question, str):
            chosen = question_of(named(state, self.options.question))
        return chosen if isinstance(chosen, str) else question_in_state(state)

    def _note_given_documents(self, run: Run, values: Any) -> None:
        for contexts in filter(None, given_documents(values, self.keys)):
            self.recorder.documents(run, contexts, Origin.GIVEN)

    # Outputs of chains.

    def output_of_chain(
        self, run: Run, outputs: Any, given: Any, chosen: Any, *, end: ChainEnd
    ) -> None:
        """Note the answer of an outermost run, and documents and texts of any run."""
        given = given if end.reports_input else state_of(run).given
        if run.outermost:
            if end.reports_input and not end.is_resuming:
                self.whole_input(run, given, end.chosen["question"])
            if end.is_graph and not run.query:
                question = self._question_in_state(outputs, end.chosen["state"])
                self.recorder.question(run, question)
            self._note_answer(run, outputs, given, end.chosen["answer"])
        if end.is_graph:
            lists = documents_in_output(run, outputs, self.keys, self.recorder.longest)
            self._note_lists(run, lists)
        elif not end.is_resuming:
            self._note_found(run, outputs, given, end)
        self._note_written(run, outputs, given)
        self.contexts_chosen(run, outputs, chosen)
        run.state = None

    def _note_answer(self, run: Run, outputs: Any, given: Any, chosen: Any) -> None:
        interaction, choice = run.interaction, self.options.answer
        if run.parent is None and not interaction.passed and holds_documents(outputs):
            # A run that gives a list of documents retrieves for something around it.
            run.kind = RunKind.RETRIEVER
        answer = chosen_text("answer", choice, outputs, chosen, named_answer, self.incidents)
        if answer is None:
            answer = answer_of(outputs, given, lambda text: _is_said(interaction, text))
        self.recorder.answer(run, answer)
        others = () if answer and choice is not None else other_answers(outputs, given, answer)
        found = None
        if answer is None:
            found = structured_answer(outputs, given, is_state=state_of(run).is_graph)
        last = () if choice is not None else written_texts(state_of(run).written, outputs)
        self.recorder.alternatives(run, others, found, last)

    def _note_found(self, run: Run, outputs: Any, given: Any, end: ChainEnd) -> None:
        # A step that empties a list before any retrieval may only clear the state of a turn.
        resets = end.is_step and self.options.document_keys is None and not end.attempted
        resets = resets and all(found.is_guessed for found in run.interaction.lists)
        # Outside of graphs' steps, messages of tools are of earlier turns.
        found = documents_in(outputs, given, keys=self.keys, artifacts=end.is_step, resets=resets)
        self._note_lists(run, found)
        if not found and run.checkpoint is not None:
            self._note_joined_text(run, outputs, given)
        if not run.outermost:
            self._note_texts_beside(run, outputs, given, has_documents=bool(found))

    def _note_joined_text(self, run: Run, outputs: Any, given: Any) -> None:
        """Note documents that a step joined to one text under a name of documents."""
        values = fresh(entries(state_update(outputs)) or {}, given)
        texts = [one for key, one in values.items() if key in self.keys and isinstance(one, str)]
        if texts and is_distinctive_text(texts[0]):
            self.recorder.documents(run, (Context(text=texts[0]),), Origin.TEXT)

    def _note_texts_beside(
        self, run: Run, outputs: Any, given: Any, *, has_documents: bool
    ) -> None:
        """Note texts and rows in a step's output; texts of tools whose runs were seen are known."""
        if isinstance(given, list) and not given and isinstance(outputs, str):
            # The text that a step makes of an empty list is a fixed one.
            run.interaction.step_texts.add(hash(outputs))
        elif not state_of(run).holds_tool:
            calls = _calls_in(given) if state_of(run.parent).is_graph else set()
            for value in _new_values(outputs, given, self.keys if has_documents else ()):
                # A node that calls a plain function as a tool answers the model's call.
                is_reply = not calls.isdisjoint(_answered_by(value))
                self._note_texts(run, [value], Origin.TEXT if is_reply else Origin.STEP)

    def _note_texts(self, run: Run, values: Iterable[Any], origin: Origin) -> None:
        """Note texts of a step. A text that steps hand on is read once."""
        known = run.interaction.step_texts
        for value in values:
            if isinstance(value, str):
                if (key := hash(value)) in known:
                    continue
                known.add(key)
            self._note_lists(run, rows_in(value), origin)

    def _note_lists(
        self,
        run: Run,
        lists: Iterable[tuple[Context, ...]],
        origin: Origin = Origin.DOCUMENTS,
        *,
        is_named: bool = False,
    ) -> None:
        for contexts in lists:
            self.recorder.documents(run, contexts, origin, named=is_named)

    def _note_written(self, run: Run, outputs: Any, given: Any) -> None:
        """Keep the entries that a step with a text put into its graph: the last may report."""
        graph = run.parent
        if run.checkpoint is not None and graph is not None and graph.parent is None:
            values = fresh(entries(state_update(outputs)) or {}, given)
            if graph.state is not None and any(map(lone_text, values.values())):
                graph.state.written = values

    def contexts_chosen(self, run: Run, outputs: Any, chosen: Any) -> None:
        """Note the contexts that the application chose in an output, or by its function."""
        choice = self.options.contexts
        if choice is None:
            return
        # A function that reads one step's output need not fit another's.
        is_last = run.outermost and run.interaction.chosen is None
        contexts = chosen_contexts(choice, outputs, chosen, self.incidents if is_last else None)
        if contexts is not None:
            self.recorder.choose(run, contexts)

    # Outputs of tools.

    def output_of_tool(self, run: Run, output: Any) -> None:
        """Note the documents in a tool's output or artifact, or else its texts."""
        if found := documents_in(output, keys=self.keys):
            self._note_lists(run, found)
            graph = outermost(run)
            if graph.state is not None:
                graph.state.read.update(artifacts_in([output]))
            return
        names = self.options.retrieval_tools
        if names is None or run.name in names:
            self._note_tool(run, output, is_named=names is not None)

    def _note_tool(self, run: Run, output: Any, *, is_named: bool) -> None:
        message = _message_of(output)
        content = message.content if isinstance(message, Message) else message
        if isinstance(message, Message) and not _lists_texts(content):
            content = message.text if is_distinctive_text(message.text) else content
        if isinstance(content, str):
            rows = list(rows_in(getattr(output, "artifact", None)))
            if any(c.text in content for contexts in rows for c in contexts):
                self._note_lists(run, rows)
                return
        self._note_lists(run, rows_in(content), Origin.TEXT, is_named=is_named)


def _message_of(output: Any) -> Any:
    """Return the message of a tool's output, or the output; None for a failure or handover."""
    update = state_update(output)
    if update is not output:
        messages = None if output.hands_over else (entries(update) or {}).get("messages")
        items = messages if isinstance(messages, list | tuple) else [messages]
        tools = [one for one in items if isinstance(one, Message) and one.role == "tool"]
        output = tools[0] if len(tools) == 1 else None
    return None if isinstance(output, Message) and output.failed else output


def _lists_texts(content: Any) -> bool:
    """Return whether a tool gave several texts that a prompt can be searched for."""
    is_list = isinstance(content, list) and len(content) > 1
    return is_list and all(isinstance(one, str) and is_distinctive_text(one) for one in content)


def _is_said(interaction: Interaction, text: str) -> bool:
    """Return whether a model said most of a text."""
    folded = fold(text)
    said = (fold(run.text) for run in interaction.runs if run.kind is RunKind.MODEL and run.text)
    return any(one in folded and 2 * len(one) >= len(folded) for one in said if one)


def _new_values(outputs: Any, given: Any, skipped: Collection[str]) -> list[Any]:
    """Return the values of an output that were not given, without documents and conversations."""
    outputs = state_update(outputs)
    held, before = entries(outputs), entries(given) or {}
    if held is None:
        values = [] if outputs is given else [outputs]
    else:
        values = [v for k, v in held.items() if v is not before.get(k) and k not in skipped]
    known = before.get("messages")
    return [v for v in values if not (holds_documents(v) or _is_conversation(v, known))]


def _is_conversation(value: Any, before: Any) -> bool:
    """Return whether a value is messages without a new message of a tool."""
    if not isinstance(value, list | tuple) or not value or not isinstance(value[0], Message):
        return False
    known = set(map(id, before)) if isinstance(before, list | tuple) else set()
    tools = (m for m in value if isinstance(m, Message) and m.role == "tool")
    return all(id(message) in known for message in tools)


def _calls_in(given: Any) -> set[str]:
    """Return the ids of the calls that the last message of a state makes."""
    lists = (value for value in (entries(given) or {}).values() if isinstance(value, list))
    last = (items[-1] for items in lists if items)
    return {str(c.get("id")) for m in last if isinstance(m, Message) for c in m.calls}


def _answered_by(value: Any) -> set[str]:
    """Return the ids of the calls that a tool's message, or messages in a list, answer."""
    items = value if isinstance(value, list | tuple) else [value]
    return {str(m.call_id) for m in items if isinstance(m, Message) and m.role == "tool"}
