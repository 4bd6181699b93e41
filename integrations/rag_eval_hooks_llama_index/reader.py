"""Reads copies of LlamaIndex's spans and events, on a background thread."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.workflow import Event, StartEvent
from pydantic import BaseModel

from rag_eval_hooks.capture import CaptureOptions, Origin, Recorder, Run, RunKind, readings
from rag_eval_hooks.capture.copied import Message, entries, found_nothing
from rag_eval_hooks.capture.documents import (
    DOCUMENT_KEYS,
    Lists,
    documents_in,
    record_in,
    rows_in,
)
from rag_eval_hooks.capture.reader import BaseReader, added_rows
from rag_eval_hooks.capture.snapshots import Opaque, Record
from rag_eval_hooks.capture.text_forms import fold, is_distinctive
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Context
from rag_eval_hooks_llama_index import vocabulary
from rag_eval_hooks_llama_index.spans import Role, start_facts
from rag_eval_hooks_llama_index.vocabulary import NodeContext, Reply, form_of, is_of_framework

_QUESTION_KEYS = (
    *("question", "query", "query_str", "str_or_query_bundle", "query_bundle", "message"),
    *("user_msg", "user_msg_str", "user_input", "input", "chat_history", "messages"),
    *("start_event", "kwargs"),
)
# Maximum depth at which a workflow's store is searched for tools' messages.
_LEVELS = 6
_DOCUMENT_KEYS = (*DOCUMENT_KEYS, "nodes", "chunks", "passages")


class Reader(BaseReader):
    def __init__(self, recorder: Recorder, incidents: Incidents, options: CaptureOptions) -> None:
        super().__init__(recorder, incidents, options, form_of)

    def started(self, run: Run, role: Role, instance: Any, event: Any) -> None:
        # The model may have been called before, and the call's facts have priority.
        run.facts = {**start_facts(run, role, instance, event), **run.facts}

    def tool_arguments(self, run: Run, given: Mapping[str, Any]) -> None:
        self._recorder.for_span(run, arguments=vocabulary.arguments_text(given))

    def query(self, run: Run, given: Mapping[str, Any], role: Role) -> None:
        if role is Role.RETRIEVAL:
            self._recorder.question(run, _question_of(given) or _only(_texts_in(given)))
        elif not run.interaction.root.query:
            self._recorder.question(run, _question_of(given))

    def input(self, run: Run, given: Mapping[str, Any]) -> None:
        held = {key: one for inner in given.values() for key, one in (entries(inner) or {}).items()}
        texts = _texts_in(given)
        asked = self._chosen_text("question", run, {**held, **given}, _question_of)
        asked = _question_of(given) if asked is None else asked
        self._recorder.asked(run, texts)
        self._recorder.question(run, _only(texts) if asked is None else asked)

    def step(self, run: Run, event: Any, state: Mapping[str, Any]) -> None:
        # An earlier run, perhaps of another process, left the question in the store or in events.
        root = run.interaction.root
        if root.query or run.interaction.asked:
            return
        left = {**(entries(event) or {}), **state}
        asked = self._chosen_text("question", root, left, _question_of) or _question_of(left)
        if asked is None and isinstance(event, Record) and issubclass(event.kind, StartEvent):
            asked = next(iter(_texts_in(event)), None)
        if not asked:
            return
        self._recorder.question(root, asked)
        found = [(Origin.GIVEN, contexts) for contexts in _lists(left)]
        found += [(Origin.STEP, rows) for value in left.values() for rows in rows_in(value)]
        found += [(Origin.TEXT, (Context(text=text),)) for text in _tool_texts(state)]
        for origin, contexts in found:
            self._note(run, [one for one in contexts if asked not in one.text], origin)

    def result(
        self, run: Run, result: Any, given: Any = None, *, role: Role, streams: bool
    ) -> None:
        if run.kind is RunKind.TOOL and self._recorder.span_content:
            self._recorder.for_span(run, result=vocabulary.result_text(result))
        self._note_choice(run, result)
        self._note_documents(run, result, role, given or {})
        if role is Role.ENGINE and not ("answer" in run.chosen or _is_response(result)):
            run.interaction.misses_event()
        if streams or role is Role.WRITER:
            return
        if run.outermost:
            self._note_answer(run, result)
        elif role is Role.ENGINE:
            self._recorder.answer(run, _answer_of(result))

    def _note_answer(self, run: Run, result: Any) -> None:
        text = self._chosen_text("answer", run, result, _answer_of)
        text = _answer_of(result) if text is None else text
        unknown = text is None and isinstance(result, Reply) and result.streams
        self._recorder.answer(run, text, unknown=unknown)
        if text is None and not unknown:
            self._recorder.alternatives(run, _texts_in(result), readings.as_json(result))

    def _note_documents(self, run: Run, result: Any, role: Role, given: Mapping[str, Any]) -> None:
        nodes = _nodes_in(result)
        if run.kind is RunKind.TOOL:
            self._note_tool(run, result)
        elif isinstance(result, Reply):
            # A synthesizer without an engine summarizes nodes for an index.
            builds = role is Role.SYNTHESIS and run.parent is None
            if role is Role.ENGINE or (run.outermost and not builds):
                self._note_sources(run, result)
        elif role is Role.RETRIEVAL:
            if nodes is None:
                # The run's documents are unknown.
                run.interaction.misses_event()
            else:
                self._note(run, nodes)
        elif role is Role.POSTPROCESSING and nodes is not None:
            before = (node for value in given.values() for node in _nodes_in(value) or ())
            self._note(run, nodes, given={node.id or "": node.text for node in before})
        elif role is not Role.PART and not run.within(RunKind.RETRIEVER):
            self._note_step(run, result, nodes, role)

    def _note(
        self, run: Run, contexts: Sequence[Context], origin: Origin = Origin.DOCUMENTS, **how: Any
    ) -> None:
        shown = {
            place: context.shown
            for place, context in enumerate(contexts)
            if isinstance(context, NodeContext) and context.node is not None
        }
        self._recorder.documents(run, contexts, origin, shown=shown, **how)

    def _note_sources(self, run: Run, reply: Reply) -> None:
        sources, interaction = reply.sources, run.interaction
        known = [context for each in interaction.lists for context in each.contexts]
        question = interaction.root.query or run.query or ""
        kept = list(filter(None, (_retrieved(one, known, question) for one in sources)))
        # If no source was retrieved, the engine created the sources, such as table rows.
        if kept := [context for context in kept or sources if context.text.strip()]:
            self._note(run, kept, Origin.SOURCES)

    def _note_step(
        self, run: Run, result: Any, nodes: list[NodeContext] | None, role: Role
    ) -> None:
        if nodes:
            self._note(run, nodes)
            return
        if role not in (Role.CHAIN, Role.ENGINE) or is_of_framework(result):
            return
        for contexts in _lists(result):
            self._note(run, contexts)
        question = run.interaction.root.query
        is_event = isinstance(result, Record) and issubclass(result.kind, Event)
        # An event's fields are unrelated texts, like the entries of a store.
        values = list(result.held.values()) if is_event else [result]
        for contexts in added_rows(run, values):
            # A text that contains the question is a prompt.
            if texts := [one for one in contexts if not (question and question in one.text)]:
                self._note(run, texts, Origin.STEP)

    def _note_tool(self, run: Run, output: Any) -> None:
        # The tool may have searched without reporting an event.
        named = self.is_named_tool(run)
        if not isinstance(output, Message):
            # The tool's text is unknown.
            run.interaction.misses_event()
            return
        if output.failed:
            return
        raw = output.artifact
        if found_nothing(raw):
            return
        raw = None if is_of_framework(raw) else raw
        # Under a key, texts of a tool that acts are no documents.
        if lists := documents_in(raw, keys=(), artifacts=False):
            for contexts in lists:
                self._note(run, contexts)
            return
        # For a single record, use the output's text, because the prompt contains this text.
        found = [] if record_in(raw) else [*rows_in(raw)]
        for contexts in found or rows_in(output.text):
            self._note(run, contexts, Origin.TEXT, named=named)

    def prompt(self, run: Run, given: Any) -> None:
        if isinstance(given, Opaque):
            run.interaction.left_out.add("prompt")
        elif isinstance(given, str):
            self._recorder.prompt(run, (given,))
        else:
            roles = [str(message.role) for message in given]
            self._recorder.prompt(run, [message.text for message in given], roles)

    def reply(self, run: Run, response: Any) -> None:
        calls = vocabulary.tool_calls_of(response)
        arguments = [one["arguments"] for one in calls]
        self._recorder.reply(run, vocabulary.reply_facts(response), arguments)
        self._recorder.for_span(run, tool_calls=calls)


def _lists(value: Any) -> Lists:
    return documents_in(value, keys=_DOCUMENT_KEYS, artifacts=False)


def _question_of(value: Any) -> str | None:
    return readings.question_of(value, _QUESTION_KEYS)


def _texts_in(value: Any) -> list[str]:
    return [text for text in readings.texts_in_input(value) if text.strip()]


def _only(texts: Sequence[str]) -> str | None:
    return texts[0] if len(texts) == 1 else None


def _is_response(result: Any) -> bool:
    # A result of the engine itself is a response or a text.
    if isinstance(result, Reply | str):
        return True
    return not isinstance(result, int | float) and any(_texts_in(result))


def _answer_of(value: Any) -> str | None:
    # The answer may be a text, a response, a number, a known key's value, or the only value.
    # Some packages return a response where the annotation says `str`.
    while isinstance(value, Message) and not isinstance(value.content, str | list | tuple):
        value = value.content
    if isinstance(value, int | float):
        return str(value)
    # A list may contain answers to several questions.
    answer = None if isinstance(value, list | tuple) else readings.answer_of(value)
    if answer is not None:
        return answer
    is_model = isinstance(value, Record) and issubclass(value.kind, BaseModel)
    if is_model and not issubclass(value.kind, Event) and (text := readings.as_json(value)):
        # Write a number as pydantic does.
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    parts = (entries(value) or {}).values()
    telling = [p for p in parts if not (p is None or isinstance(p, bool) or _lists(p))]
    # Several parts are an object, not an answer and its surroundings.
    return _only(_texts_in(value)) if len(telling) < 2 else None


def _nodes_in(value: Any) -> list[NodeContext] | None:
    is_list = isinstance(value, list) and all(isinstance(item, NodeContext) for item in value)
    return value if is_list else None


def _retrieved(source: Context, retrieved: Iterable[Context], question: str) -> Context | None:
    # Some engines split documents into numbered pieces, wrap a document in a prompt, or add
    # generated texts to the sources. A source that no retriever returned is not a context.
    wholes = {one.text.strip(): one for one in retrieved if one.text.strip()}
    if any(source.id == context.id for context in retrieved):
        return source
    text = source.text.strip()
    held = [whole for whole in wholes if whole in text]
    if len(held) == 1 and held[0] != text:
        asked, around = fold(question), fold(text.replace(held[0], " "))
        if is_distinctive(asked) and asked in around:
            return wholes[held[0]]
    body = text.partition("\n")[2].strip()
    is_piece = any(text in whole or (body and body in whole) for whole in wholes)
    return source if held or is_piece else None


def _tool_texts(value: Any, levels: int = _LEVELS) -> Iterator[str]:
    if isinstance(value, Message):
        if value.role == "tool":
            yield value.text
    elif levels:
        held = entries(value)
        parts = value if isinstance(value, list | tuple) else ()
        for part in parts if held is None else held.values():
            yield from _tool_texts(part, levels - 1)
