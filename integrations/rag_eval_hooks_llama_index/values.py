"""Question, answer and texts in copies of LlamaIndex's values; streams and tags in live ones."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    MessageRole,
)
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.chat_engine.types import AgentChatResponse, StreamingAgentChatResponse
from llama_index.core.schema import QueryBundle
from llama_index.core.workflow import Event, StopEvent
from pydantic import BaseModel

from rag_eval_hooks.capture.snapshots import Record
from rag_eval_hooks.context import READABLE_MAPPING

__all__ = [
    "REPLIES",
    "RESPONSES",
    "STREAMING",
    "answer_of",
    "generator_of",
    "is_a",
    "is_framework_class",
    "is_of_framework",
    "is_stop",
    "items_of",
    "labels_of",
    "may_stream",
    "message_texts",
    "metadata_of",
    "named",
    "question_of",
    "texts_in",
    "unwrapped",
    "values_by_name",
]

STREAMING = (StreamingResponse, AsyncStreamingResponse)
RESPONSES = (
    Response,
    PydanticResponse,
    *STREAMING,
    AgentChatResponse,
    StreamingAgentChatResponse,
)
REPLIES = (ChatResponse, CompletionResponse)
_QUESTION_KEYS = (
    *("question", "query", "query_str", "str_or_query_bundle", "query_bundle", "message"),
    *("user_msg", "user_msg_str", "user_input", "input", "start_event", "kwargs"),
    *("chat_history", "messages"),
)
_ANSWER_KEYS = ("answer", "response", "output", "result", "text")
_FRAMEWORK_TAGS = "llamaindex."
_LEVELS = 6
"""Levels of nested values that are looked into."""


# Copies, read in the background.


def values_by_name(value: Any) -> Mapping[str, Any] | None:
    """Return the entries of a mapping, or the fields of a copied object; None for other values."""
    if isinstance(value, Record):
        return value.held
    if isinstance(value, READABLE_MAPPING):
        return {str(key): one for key, one in value.items()}
    return None


def items_of(value: Any) -> Iterable[Any]:
    """Return the parts of a container; none for other values."""
    held = values_by_name(value)
    if held is not None:
        return held.values()
    return value if isinstance(value, list | tuple) else ()


def is_a(value: Any, bases: type | tuple[type, ...]) -> bool:
    """Return whether a value, or what a copy was made of, is an instance of a class."""
    return _is_subclass(value.kind if type(value) is Record else value.__class__, bases)


def is_of_framework(value: Any) -> bool:
    """Return whether an object, or what a copy was made of, is LlamaIndex's own."""
    return is_framework_class(value.kind if type(value) is Record else type(value))


def question_of(value: Any) -> str | None:
    """Return the question: a text, a query, a message, a known key, the last user message."""
    if isinstance(value, str):
        return value
    if isinstance(value, QueryBundle):
        return value.query_str
    if isinstance(value, ChatMessage):
        return value.content
    if isinstance(value, list | tuple):
        asked = (m for m in reversed(value) if isinstance(m, ChatMessage) and _is_asked(m))
        return next((message.content for message in asked), None)
    held = values_by_name(value)
    if held is None or (isinstance(value, Record) and not is_a(value, Event)):
        return None
    return _first(held, _QUESTION_KEYS, question_of)


def _is_asked(message: ChatMessage) -> bool:
    return message.role == MessageRole.USER and bool(message.content)


def answer_of(value: Any, levels: int = _LEVELS) -> str | None:
    """Return the answer: a text, a response, a message, a number, a known key, the only text."""
    if isinstance(value, str):
        return value
    if levels == 0 or value is None:
        return None
    for kinds, read in _ANSWERS:
        if isinstance(value, kinds):
            # What packages put where the type says text may be a response, too.
            return answer_of(read(value), levels - 1)
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Record) and is_a(value, BaseModel) and not is_a(value, Event):
        return _as_json(value)
    held = values_by_name(value) or {}
    known = _first(held, _ANSWER_KEYS, functools.partial(answer_of, levels=levels - 1))
    if known is not None:
        return known
    texts = list(texts_in(value))
    return texts[0] if len(texts) == 1 else None


_ANSWERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((Response, PydanticResponse, AgentChatResponse), lambda value: value.response),
    # Already read; `response_txt` is None before, and nothing is read here.
    (STREAMING, lambda value: value.response_txt),
    (ChatMessage, lambda value: value.content),
    (ChatResponse, lambda value: value.message.content),
    (CompletionResponse, lambda value: value.text),
)


def _as_json(value: Any) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.held
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return list(value) if isinstance(value, frozenset) else str(getattr(value, "value", value))


def texts_in(value: Any, levels: int = _LEVELS) -> Iterator[str]:
    """Yield the texts in a value that are no documents, in order."""
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, QueryBundle | ChatMessage):
        yield from texts_in(question_of(value), levels)
    elif levels and isinstance(value, (*RESPONSES, *REPLIES)):
        yield from texts_in(answer_of(value, levels), 0)
    elif levels:
        for part in items_of(value):
            yield from texts_in(part, levels - 1)


def named(value: Any, name: str, levels: int = _LEVELS) -> Any:
    """Return the first value of a name, the outermost first; None where there is none."""
    held = values_by_name(value)
    if held is None or not levels:
        return None
    if name in held:
        return held[name]
    inner = (named(one, name, levels - 1) for one in held.values())
    return next((one for one in inner if one is not None), None)


def _first(held: Mapping[str, Any], keys: Iterable[str], read: Any) -> str | None:
    for key in keys:
        if key in held and (text := read(held[key])) is not None:
            return str(text)
    return None


def message_texts(messages: Any) -> tuple[str, ...]:
    """Return the texts of a chat model's input, in order."""
    held = messages if isinstance(messages, list | tuple) else ()
    return tuple(message.content or "" for message in held)


# Live values, on the request's thread.


def is_stop(result: Any) -> bool:
    """Return whether a value is the event that stops a workflow."""
    return is_a(result, StopEvent)


def unwrapped(result: Any) -> Any:
    """Return the result of a call without a workflow's stop event around it."""
    if is_stop(result) and result.result is not None:
        return result.result
    return result


def may_stream(value: Any) -> bool:
    """Return whether a value may be a streamed answer."""
    return is_a(value, (Generator, AsyncGenerator, *STREAMING, StreamingAgentChatResponse))


def generator_of(value: Any) -> Any:
    """Return the generator behind a streamed answer, or None for another kind of answer."""
    if isinstance(value, STREAMING):
        return value.response_gen
    return value if is_a(value, (Generator, AsyncGenerator)) else None


def metadata_of(tags: Any) -> dict[str, Any]:
    """Return metadata from instrument tags, without those that LlamaIndex itself sets."""
    held = values_by_name(tags) or {}
    return {k: v for k, v in held.items() if not k.startswith(_FRAMEWORK_TAGS) and k != "tags"}


def labels_of(tags: Any) -> tuple[str, ...]:
    """Return the free labels in the instrument tag `tags`."""
    labels = (values_by_name(tags) or {}).get("tags")
    if isinstance(labels, list | tuple | set | frozenset):
        return tuple(map(str, labels))
    return () if labels is None else (str(labels),)


# Pydantic is slow at `isinstance`.
@functools.lru_cache(maxsize=2048)
def _is_subclass(kind: type, bases: type | tuple[type, ...]) -> bool:
    return issubclass(kind, bases)


@functools.lru_cache(maxsize=1024)
def is_framework_class(kind: type) -> bool:
    """Return whether a class is LlamaIndex's; an application may have a package `workflows`."""
    module = kind.__module__
    if module.startswith("llama_index."):
        return True
    known = getattr(sys.modules.get(module), "__file__", None) or ""
    folder = os.path.dirname(sys.modules[Event.__module__].__file__ or "")
    return module.startswith("workflows.") and known.startswith(folder + os.sep)
