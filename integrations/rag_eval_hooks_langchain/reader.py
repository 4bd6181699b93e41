"""Reads the question, the answer and the documents from copies of inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from langchain_core.outputs import Generation

from rag_eval_hooks import semconv
from rag_eval_hooks.capture import CaptureOptions, Origin, Recorder, Run, RunKind
from rag_eval_hooks.capture.copied import Message, entries, fresh, named, state_update
from rag_eval_hooks.capture.documents import (
    DOCUMENT_KEYS,
    contexts_in,
    documents_in,
    holds_documents,
    rows_in,
)
from rag_eval_hooks.capture.provenance import looks_up
from rag_eval_hooks.capture.reader import BaseReader, added_rows
from rag_eval_hooks.capture.readings import (
    answer_of,
    as_json,
    is_conversation,
    lone_value,
    named_answer,
    other_answers,
    question_in_state,
    question_of,
    texts_in_input,
    texts_in_state,
    written_texts,
)
from rag_eval_hooks.capture.snapshots import Opaque
from rag_eval_hooks.capture.text_forms import is_distinctive_text
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain import vocabulary
from rag_eval_hooks_langchain.graphs import state_of, unseen_documents


class Reader(BaseReader):
    def __init__(self, recorder: Recorder, incidents: Incidents, options: CaptureOptions) -> None:
        super().__init__(recorder, incidents, options, vocabulary.form_of)

    def started(self, run: Run, serialized: Any, told: Any) -> None:
        # A token may have arrived, which sets the fact that the model streams.
        run.facts = {**vocabulary.start_facts(run.kind, run.name, serialized, told), **run.facts}

    def input_of_root(self, run: Run, inputs: Any) -> None:
        state_of(run).given = inputs
        if state_of(run).is_resuming:
            self._note_given_documents(run, state_update(inputs))
        elif not (isinstance(inputs, dict) and list(inputs.items()) == [("input", "")]):
            # A streamed chain starts with a blank input.
            self.whole_input(run, inputs)

    def whole_input(self, run: Run, inputs: Any) -> None:
        if not run.query:
            inputs = state_update(inputs)
            text = self._chosen_text("question", run, inputs, question_of)
            self._recorder.question(run, question_of(inputs) if text is None else text)
            self._recorder.asked(run, list(texts_in_input(inputs)))
            self._note_given_documents(run, inputs)

    def input_of_step(self, run: Run, inputs: Any) -> None:
        state, graph = state_of(run), run.parent
        state.given = inputs
        if graph is None or state.is_earlier is None:
            return
        if state.shows_state and not graph.query and state_of(graph).is_resuming:
            self._recorder.kept(graph, texts_in_state(inputs))
        values = entries(inputs) or {}
        if not graph.outermost:
            # The parent's input is already recorded, and every step passes on the conversation.
            values = fresh(values, state_of(graph).given)
            values = {k: v for k, v in values.items() if not is_conversation(v)}
        texts = [value for value in values.values() if isinstance(value, str | list)]
        origin = Origin.EARLIER if state.is_earlier else Origin.STEP
        for text in _unseen(run, texts):
            self._note_lists(run, rows_in(text), origin)

    def _question_in_state(self, run: Run, state: Any) -> str | None:
        choice, chosen = self.options.question, run.chosen.get("question")
        if isinstance(choice, str):
            chosen = question_of(named(state, choice))
            self.note_match(run, "question", state, is_met=isinstance(chosen, str))
        return chosen if isinstance(chosen, str) else question_in_state(state)

    def _note_given_documents(self, run: Run, values: Any) -> None:
        given = documents_in(values, artifacts=False)
        self._note_lists(run, filter(None, given), Origin.GIVEN)

    def output_of_chain(self, run: Run, outputs: Any, *streamed: Any) -> None:
        # A stream reports its input only at its end, as `streamed`.
        state, graph = state_of(run), run.parent
        given = streamed[0] if streamed else state.given
        if run.outermost:
            if streamed and not state.is_resuming:
                self.whole_input(run, given)
            if state.is_graph and not run.query:
                self._recorder.question(run, self._question_in_state(run, outputs))
            self._note_answer(run, outputs, given)
        if not (state.is_graph or state.is_resuming):
            self._note_found(run, outputs, given)
        if run.checkpoint is not None and graph is not None and graph.parent is None:
            written = fresh(entries(state_update(outputs)) or {}, given)
            if graph.state is not None and any(map(lone_value, written.values())):
                graph.state.written = written
        self._note_choice(run, outputs)
        run.state = None

    def _note_answer(self, run: Run, outputs: Any, given: Any) -> None:
        state, answer = state_of(run), self._chosen_text("answer", run, outputs, named_answer)
        answer = answer_of(outputs, given) if answer is None else answer
        if run.parent is None and not run.interaction.passed and holds_documents(outputs):
            # A run that returns a list of documents retrieves for a separate model call.
            run.kind = RunKind.RETRIEVER
        self._recorder.answer(run, answer)
        others = () if answer else other_answers(outputs, given)
        found = None if answer is not None or state.is_graph else as_json(outputs)
        is_chosen = self.options.answer is not None
        last = () if is_chosen else written_texts(state.written, outputs)
        self._recorder.alternatives(run, others, found, last)

    def _note_found(self, run: Run, outputs: Any, given: Any) -> None:
        # Outside graph steps, tool messages come from earlier turns.
        is_step = state_of(run.parent).is_graph
        found = documents_in(outputs, given, artifacts=is_step)
        if is_step and not run.interaction.retrieves:
            # A step that empties a list before any retrieval may only reset the state.
            found = list(filter(None, found))
        self._note_lists(run, found)
        if not run.outermost:
            values = _new_values(outputs, given, DOCUMENT_KEYS if found else ())
            rows = added_rows(run, _unseen(run, values))
            self._note_lists(run, rows, Origin.STEP)

    def _note_lists(
        self, run: Run, lists: Iterable[Any], origin: Origin = Origin.DOCUMENTS, **how: Any
    ) -> None:
        for contexts in lists:
            self._recorder.documents(run, contexts, origin, **how)

    def query(self, run: Run, query: Any) -> None:
        asked = question_of(query)
        self._recorder.question(run, str(query) if asked is None and query is not None else asked)

    def found(self, run: Run, documents: Any) -> None:
        contexts = contexts_in(documents) if documents else ()
        if contexts is None:
            raise TypeError(type(documents[0]).__name__)
        self._recorder.documents(run, contexts)

    def prompt(self, run: Run, batches: Any) -> None:
        if isinstance(batches, Opaque):
            run.interaction.left_out.add("prompt")
            return
        parts = [one for batch in batches for one in ([batch] if isinstance(batch, str) else batch)]
        messages = [one for one in parts if isinstance(one, Message)]
        texts = [one.shown for one in messages] or parts
        self._recorder.prompt(run, texts, [message.role for message in messages])
        if unseen := unseen_documents(run, self._recorder.longest):
            step, origin, lists = unseen
            self._note_lists(step, lists, origin)

    def reply(self, run: Run, replies: Sequence[Generation]) -> None:
        reply = next(iter(replies), None)
        calls = getattr(getattr(reply, "message", None), "tool_calls", None) or ()
        self._recorder.answer(run, vocabulary.reply_text(reply))
        arguments = [one.get("args") for one in calls]
        self._recorder.reply(run, vocabulary.reply_facts(replies), arguments)
        shown = [
            {"id": one.get("id"), "name": one.get("name"), "arguments": one.get("args")}
            for one in calls
        ]
        self._recorder.for_span(run, tool_calls=shown or None)

    def arguments(self, run: Run, inputs: Any, written: Any) -> None:
        self._recorder.for_span(run, arguments=as_json(inputs) or written)

    def result(self, run: Run, output: Any) -> None:
        if isinstance(output, Message) and output.call_id:
            run.facts = {**run.facts, semconv.GEN_AI_TOOL_CALL_ID: output.call_id}
        text = output.text if isinstance(output, Message) else output
        self._recorder.for_span(run, result=text if isinstance(text, str) else None)
        self._note_choice(run, output)
        named = self.is_named_tool(run)
        content = message = _message_of(output)
        if isinstance(message, Message):
            content = message.text if is_distinctive_text(message.text) else message.content
        # A tool that acts may write a model's words in the form of documents.
        may_search = named is not False and looks_up(run.name, run.description) is not False
        is_text = may_search and isinstance(content, str)
        written = vocabulary.written_documents(content) if is_text else None
        if found := documents_in(output) or documents_in(written):
            self._note_lists(run, found)
            if written:
                # The whole text is no wider passage, because a step returns it again.
                self._note_lists(run, [(Context(text=content),)], Origin.TEXT, named=False)
            return
        text = content if isinstance(content, str) and named is not False else ""
        rows = list(rows_in(getattr(output, "artifact", None))) if text else []
        if any(context.text in text for contexts in rows for context in contexts):
            self._note_lists(run, rows)
        else:
            self._note_lists(run, rows_in(content), Origin.TEXT, named=named)


def _message_of(output: Any) -> Any:
    # A failed tool and a handover to another agent have no message.
    update = state_update(output)
    if update is not output:
        messages = None if output.hands_over else (entries(update) or {}).get("messages")
        items = messages if isinstance(messages, list | tuple) else [messages]
        tools = [one for one in items if isinstance(one, Message) and one.role == "tool"]
        output = tools[0] if len(tools) == 1 else None
    return None if isinstance(output, Message) and output.failed else output


def _unseen(run: Run, values: Sequence[Any]) -> list[Any]:
    known = run.interaction.step_texts
    unseen = [one for one in values if not (isinstance(one, str) and hash(one) in known)]
    known.update(hash(one) for one in unseen if isinstance(one, str))
    return unseen


def _new_values(outputs: Any, given: Any, skipped: Collection[str]) -> list[Any]:
    outputs = state_update(outputs)
    held, before = entries(outputs), entries(given) or {}
    if held is None:
        values = [] if outputs is given else [outputs]
    else:
        values = [v for k, v in held.items() if v is not before.get(k) and k not in skipped]
    told = before.get("messages")
    known = set(map(id, told)) if isinstance(told, list | tuple) else set()
    # A step returns the messages that it received, too.
    values = [
        [one for one in v if id(one) not in known] if is_conversation(v) else v for v in values
    ]
    return [v for v in values if not holds_documents(v)]
