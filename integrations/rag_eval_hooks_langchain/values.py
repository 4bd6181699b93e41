"""Reads question and answer from what LangChain passes around."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

__all__ = [
    "answer_of",
    "entries",
    "message_text",
    "message_texts",
    "named",
    "question_of",
    "structured",
    "texts_in",
]

_QUESTION_KEYS = ("question", "query", "input", "user_input", "user_msg")
_ANSWER_KEYS = ("answer", "output", "result", "response", "output_text", "generation", "text")
_USER = ("user", "human")
_PAIR = 2


def question_of(inputs: Any) -> str | None:
    """What the user asked: a text, a known key, the last human message, the only text."""
    if isinstance(inputs, str):
        return inputs
    if isinstance(inputs, PromptValue):
        return question_of(inputs.to_messages())
    if isinstance(inputs, BaseMessage):
        return message_text(inputs)
    if (values := entries(inputs)) is not None:
        found = _first(values, (*_QUESTION_KEYS, "messages"), question_of)
        return found if found is not None else _only_text(values)
    if isinstance(inputs, Sequence):
        asked = (text for item in reversed(inputs) if (text := _human_text(item)))
        return next(asked, None)
    return None


def answer_of(outputs: Any) -> str | None:
    """What the user got: a text, a message, a known key, the last message of a model."""
    if isinstance(outputs, str):
        return outputs
    if isinstance(outputs, BaseMessage):
        return message_text(outputs)
    if (values := entries(outputs)) is not None:
        return _first(values, (*_ANSWER_KEYS, "messages"), answer_of)
    if isinstance(outputs, Sequence):
        return _last_answer(outputs)
    return None


def structured(outputs: Any) -> str | None:
    """A structured answer as JSON, where it is plain data."""
    values = entries(outputs)
    if not values:
        return None
    try:
        return json.dumps(dict(values), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return None


def named(values: Any, key: str, read: Callable[[Any], str | None]) -> str | None:
    """The text under a key that the application named, or None where there is none."""
    found = (entries(values) or {}).get(key)
    return None if found is None else read(found)


def entries(value: Any) -> Mapping[str, Any] | None:
    """The entries of a mapping, or of a state or an answer that is an object with fields."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)):
        return getattr(value, "__dict__", None)
    return None


def texts_in(values: Any) -> tuple[str, ...]:
    """The texts that stand directly in a state."""
    found = entries(values) or {}
    return tuple(value for value in found.values() if isinstance(value, str) and value)


def message_texts(messages: Sequence[Sequence[BaseMessage]]) -> tuple[str, ...]:
    """The texts of a chat model's input, in order."""
    return tuple(message_text(message) for batch in messages for message in batch)


def message_text(message: BaseMessage) -> str:
    """A message's text; of content blocks, the text blocks joined."""
    return _content_text(message.content)


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(_block_texts(content)) if isinstance(content, Sequence) else ""


def _block_texts(blocks: Sequence[Any]) -> Iterator[str]:
    for block in blocks:
        text = block.get("text") if isinstance(block, Mapping) else block
        if isinstance(text, str):
            yield text


def _human_text(item: Any) -> str | None:
    """The text of a human message, as an object, a mapping or a pair of role and content."""
    if isinstance(item, HumanMessage):
        return message_text(item)
    if isinstance(item, Mapping) and (item.get("role") or item.get("type")) in _USER:
        return _content_text(item.get("content"))
    if isinstance(item, tuple) and len(item) == _PAIR and item[0] in _USER:
        return _content_text(item[1])
    return item if isinstance(item, str) else None


def _last_answer(messages: Sequence[Any]) -> str | None:
    """The last text of a model after the last question; else that of a tool that answered."""
    tool: str | None = None
    for message in reversed(messages):
        if isinstance(message, AIMessage | AIMessageChunk) and (text := message_text(message)):
            return text
        if isinstance(message, HumanMessage) and not message.name:
            break
        if isinstance(message, ToolMessage):
            tool = tool or message_text(message)
    return tool


def _first(
    values: Mapping[str, Any], keys: Sequence[str], read: Callable[[Any], str | None]
) -> str | None:
    for key in keys:
        if key in values and (text := read(values[key])) is not None:
            return text
    return None


def _only_text(values: Mapping[str, Any]) -> str | None:
    texts = [value for value in values.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None
