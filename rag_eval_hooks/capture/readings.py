"""Reads the question and the answer from copies of runs' inputs and outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from enum import Enum
from functools import partial
from numbers import Number
from typing import Any, Final

from rag_eval_hooks.capture.copied import (
    FRAMEWORK,
    PAIR,
    FormattedPrompt,
    Message,
    Read,
    block_text,
    content_text,
    entries,
    fresh,
)
from rag_eval_hooks.capture.snapshots import Record

_QUESTION_KEYS: Final = ("question", "query", "input", "user_input", "user_msg", "messages")
_SURE_KEYS: Final = ("structured_response", "answer", "final_answer")
_OTHER_KEYS: Final = ("output", "result", "response", "reply", "output_text", "generation", "text")
_ANSWER_KEYS: Final = (*_SURE_KEYS, *_OTHER_KEYS)
_PARSED: Final = {"raw", "parsed", "parsing_error"}
_USER: Final = ("user", "human")
_LEVELS: Final = 5
_MAX_ITEMS: Final = 1000


def _first(values: Mapping[str, Any], keys: Sequence[str], read: Read) -> str | None:
    texts = [text for key in keys if key in values and (text := read(values[key])) is not None]
    return next((text for text in texts if text.strip()), texts[0] if texts else None)


def question_of(value: Any, keys: Sequence[str] = _QUESTION_KEYS) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, FormattedPrompt):
        value = value.messages
    if isinstance(value, Message):
        return content_text(value.content)
    if (held := entries(value)) is not None:
        found = _first(held, keys, partial(question_of, keys=keys))
        return _only_text(held) if found is None else found
    items = reversed(value) if isinstance(value, list | tuple) else ()
    return next(filter(None, map(_user_text, items)), None)


def _user_text(item: Any) -> str | None:
    if isinstance(item, Message):
        item = item.role, item.content
    elif isinstance(item, dict):
        item = item.get("role") or item.get("type"), item.get("content")
    if isinstance(item, tuple | list) and len(item) == PAIR:
        return content_text(item[1]) if item[0] in _USER else None
    return item if isinstance(item, str) else None


def _only_text(values: Mapping[str, Any]) -> str | None:
    texts = [value for value in values.values() if isinstance(value, str)]
    has_inner = any(isinstance(value, dict) and value for value in values.values())
    return texts[0] if len(texts) == 1 and not has_inner else None


def question_in_state(state: Any) -> str | None:
    held = {"messages": state} if isinstance(state, list | tuple) else entries(state)
    return None if held is None else _first(held, _QUESTION_KEYS, question_of)


def texts_in_state(state: Any) -> list[str]:
    values = (entries(state) or {}).values()
    asking = (v for v in values if isinstance(v, str) or is_conversation(v))
    return list(filter(None, map(question_of, asking)))


def is_conversation(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, Message) for one in value)


def texts_in_input(value: Any, depth: int = _LEVELS) -> Iterator[str]:
    parts: Sequence[Any] = ()
    if isinstance(value, str):
        yield from filter(None, [value])
    elif isinstance(value, FormattedPrompt):
        parts = value.messages
    elif isinstance(value, Message):
        parts = [block_text(value.content)]
    else:
        parts = value if isinstance(value, list | tuple) else [*(entries(value) or {}).values()]
    for part in parts[:_MAX_ITEMS] if depth else ():
        yield from texts_in_input(part, depth - 1)


def answer_of(value: Any, given: Any = None) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, Message):
        return value.text
    held = entries(value)
    if held is None:
        return _last_answer(value) if isinstance(value, list | tuple) else None
    if held.keys() == _PARSED:
        return named_answer(held["parsed"]) or answer_of(held["raw"])
    values = fresh(held, given)
    texts = (
        _first(values, _SURE_KEYS, named_answer),
        _first(values, _OTHER_KEYS, _answer_text),
        _first(values, ("messages",), answer_of),
    )
    told = (text for text in texts if text and text.strip())
    return next(told, None) or _first(values, _ANSWER_KEYS, named_answer)


def named_answer(value: Any) -> str | None:
    text = _answer_text(value)
    return as_json(value) if text is None else text


def _answer_text(value: Any) -> str | None:
    if (held := entries(value)) is not None:
        return _first(held, (*_ANSWER_KEYS, "messages"), _plain_answer) or None
    return _plain_answer(value)


def _plain_answer(value: Any) -> str | None:
    return answer_of(value) if isinstance(value, str | Message | list | tuple) else None


def _last_answer(messages: Sequence[Any]) -> str | None:
    tool: str | None = None
    for message in reversed([one for one in messages if isinstance(one, Message)]):
        if message.role == "assistant" and message.text:
            return message.text
        if message.role == "user" and not message.name:
            break
        if message.role == "tool":
            tool = tool or message.text
    return tool


def other_answers(value: Any, given: Any) -> tuple[str, ...]:
    return tuple(filter(str.strip, texts_in_input(fresh(entries(value) or {}, given))))


def written_texts(values: Mapping[str, Any] | None, final: Any) -> tuple[str, ...]:
    held = entries(final) or {}
    if not values or _first(held, _SURE_KEYS, named_answer):
        return ()
    last = {key: one if isinstance(one, list) else [one] for key, one in held.items()}
    left = [one for key, value in values.items() if (one := lone_value(value)) in last.get(key, ())]
    return tuple(filter(str.strip, texts_in_input(left)))


def lone_value(value: Any) -> Any:
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    is_object = entries(value) is not None and next(texts_in_input(value), None)
    return value if isinstance(value, str) or is_object else ""


def as_json(value: Any) -> str | None:
    """Return the value as JSON, or None for a text, an empty value, a document or a message."""
    held = entries(value) if isinstance(value, Record) else value
    is_container = isinstance(held, list | tuple | frozenset | dict)
    if not (held if is_container else isinstance(held, Number | date | time | Enum)):
        return None
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError):
        # The value contains an unread object, or an integer with too many digits.
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, FRAMEWORK):
        raise TypeError(type(value).__name__)
    if isinstance(value, Record | frozenset):
        return value.held if isinstance(value, Record) else list(value)
    if isinstance(value, Enum):
        return value.value
    return value.isoformat() if isinstance(value, date | time) else str(value)
