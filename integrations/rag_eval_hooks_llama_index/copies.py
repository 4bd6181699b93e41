"""Finds question, answer and sources in copies of calls' arguments and results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from llama_index.core.workflow import Event
from pydantic import BaseModel

from rag_eval_hooks.capture import Run, RunKind, readings
from rag_eval_hooks.capture.copied import Message, entries
from rag_eval_hooks.capture.snapshots import Record
from rag_eval_hooks.capture.text_forms import fold, is_distinctive
from rag_eval_hooks.sample import Context
from rag_eval_hooks_llama_index.vocabulary import NodeContext

_QUESTION_KEYS = (
    *("question", "query", "query_str", "str_or_query_bundle", "query_bundle", "message"),
    *("user_msg", "user_msg_str", "user_input", "input", "chat_history", "messages"),
    *("start_event", "kwargs"),
)
_LEVELS = 6
"""Maximum depth at which a workflow's store is searched for tools' messages."""


def question_of(value: Any) -> str | None:
    return readings.question_of(value, _QUESTION_KEYS)


def texts_in(value: Any) -> list[str]:
    return [text for text in readings.texts_in_input(value) if text.strip()]


def only(texts: Sequence[str]) -> str | None:
    return texts[0] if len(texts) == 1 else None


def answer_of(value: Any) -> str | None:
    """Return the answer in a copy: a text, a response, a number, a known key, or the only text."""
    # Some packages put a response where the type says text.
    while isinstance(value, Message) and not isinstance(value.content, str | list | tuple):
        value = value.content
    if isinstance(value, int | float):
        return str(value)
    is_model = isinstance(value, Record) and issubclass(value.kind, BaseModel)
    if is_model and not issubclass(value.kind, Event) and (text := readings.as_json(value)):
        # Pydantic writes a number the same way.
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    # A list may contain answers to several questions.
    answer = None if isinstance(value, list | tuple) else readings.answer_of(value)
    return only(texts_in(value)) if answer is None else answer


def is_no_question(root: Run) -> bool:
    asked = root.query or root.interaction.asked
    kinds = {run.kind for run in root.interaction.runs}
    return not asked and kinds.isdisjoint((RunKind.RETRIEVER, RunKind.MODEL))


def nodes_in(value: Any) -> list[NodeContext] | None:
    is_list = isinstance(value, list) and all(isinstance(item, NodeContext) for item in value)
    return value if is_list else None


def retrieved(source: Context, retrieved: Iterable[Context], question: str) -> Context | None:
    """Return a source as a context, or None if no retriever returned the source.

    Some engines split documents into numbered pieces, wrap a document in a prompt, or add generated
    texts to the sources.
    """
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


def tool_texts(value: Any, levels: int = _LEVELS) -> Iterator[str]:
    if isinstance(value, Message):
        if value.role == "tool":
            yield value.text
    elif levels:
        held = entries(value)
        parts = value if isinstance(value, list | tuple) else ()
        for part in parts if held is None else held.values():
            yield from tool_texts(part, levels - 1)
