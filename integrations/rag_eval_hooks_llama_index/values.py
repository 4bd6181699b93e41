"""Reads question, answer and tags from what LlamaIndex passes around."""

from __future__ import annotations

import functools
from collections.abc import (
    AsyncGenerator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import fields, is_dataclass
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
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.workflow import Event, StopEvent
from pydantic import BaseModel

from rag_eval_hooks.context import READABLE_MAPPING

__all__ = [
    "ANSWERS_WITH_SOURCES",
    "REPLIES",
    "STREAMING",
    "answer_of",
    "class_of",
    "entries",
    "generator_of",
    "given_out",
    "is_stop",
    "known_text",
    "labels_of",
    "may_stream",
    "message_texts",
    "metadata_of",
    "question_of",
    "texts_in",
]

STREAMING = (StreamingResponse, AsyncStreamingResponse)
ANSWERS_WITH_SOURCES = (
    Response,
    PydanticResponse,
    *STREAMING,
    AgentChatResponse,
    StreamingAgentChatResponse,
)
_STREAMED = (*STREAMING, StreamingAgentChatResponse)
REPLIES = (ChatResponse, CompletionResponse)
_SAID = (*ANSWERS_WITH_SOURCES, *REPLIES)
_EMPTY = "_empty_response"
"""A synthesizer's attribute, and a part of the names of the generators that stream it."""
_EMPTY_TEXT = "Empty Response"
"""Text that old versions stream."""

_QUESTION_KEYS = (
    "question",
    "query",
    "query_str",
    "str_or_query_bundle",
    "query_bundle",
    "message",
    "user_msg",
    "user_msg_str",
    "user_input",
    "input",
    "start_event",
    "kwargs",
    "chat_history",
    "messages",
)
_ANSWER_KEYS = ("answer", "response", "output", "result", "text")
_FRAMEWORK = "llamaindex."
_DEPTH = 6
"""Levels of nested values that are looked into."""


def question_of(value: Any) -> str | None:
    """Return the question: a text, a query, a message, a known key, the last user message."""
    if isinstance(value, str):
        return value
    if isinstance(value, QueryBundle):
        return value.query_str
    if isinstance(value, ChatMessage):
        return value.content
    if isinstance(value, Event):
        return question_of(entries(value))
    if isinstance(value, READABLE_MAPPING):
        return _first(value, _QUESTION_KEYS, question_of)
    if isinstance(value, Sequence):
        return _last_asked(value)
    return None


def _last_asked(messages: Sequence[Any]) -> str | None:
    asked = (m for m in reversed(messages) if isinstance(m, ChatMessage))
    return next((m.content for m in asked if m.role == MessageRole.USER and m.content), None)


def given_out(result: Any) -> Any:
    """Return the result of a call without a workflow's wrapping."""
    if is_stop(result) and result.result is not None:
        return result.result
    return result


def is_stop(result: Any) -> bool:
    """Return whether a value is the event that stops a workflow."""
    # Pydantic is slow at `isinstance`.
    return _is_a(class_of(result), StopEvent)


def may_stream(value: Any) -> bool:
    """Return whether a value may be a streamed answer."""
    kind = class_of(value)
    return _is_generator(kind) or _is_a(kind, _STREAMED)


def answer_of(value: Any, depth: int = _DEPTH) -> str | None:
    """Return the answer: a text, a response, a message, a number, a known key, the only text."""
    if isinstance(value, str):
        return value
    if depth == 0 or value is None:
        return None
    for kind, read in _ANSWERS:
        if isinstance(value, kind):
            # What packages put where the type says text may be a response, too.
            return answer_of(read(value), depth - 1)
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, BaseModel) and not isinstance(value, Event | BaseNode | NodeWithScore):
        return value.model_dump_json()
    held = entries(value) or {}
    named = _first(held, _ANSWER_KEYS, functools.partial(answer_of, depth=depth - 1))
    if named is not None:
        return named
    texts = list(texts_in(value))
    return texts[0] if len(texts) == 1 else None


_ANSWERS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (Response, lambda value: value.response),
    # Already read; `response_txt` is None before, and nothing is read here.
    (StreamingResponse, lambda value: value.response_txt),
    (AsyncStreamingResponse, lambda value: value.response_txt),
    (PydanticResponse, lambda value: value.response),
    (AgentChatResponse, lambda value: value.response),
    (ChatMessage, lambda value: value.content),
    (ChatResponse, lambda value: value.message.content),
    (CompletionResponse, lambda value: value.text),
)


def entries(value: Any) -> dict[str, Any] | None:
    """Return the fields of an event, a mapping, a dataclass or a model by name; None for others."""
    if isinstance(value, Event):
        # Declared and free fields.
        return {**vars(value), **dict(value.items())}
    if isinstance(value, READABLE_MAPPING):
        return {str(key): one for key, one in value.items()}
    if isinstance(value, BaseModel):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name, None) for one in fields(value)}
    return None


def texts_in(value: Any, depth: int = _DEPTH) -> Iterator[str]:
    """Yield the texts in a value that are no documents, in order."""
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, QueryBundle | ChatMessage):
        yield from texts_in(question_of(value), depth)
    elif depth and isinstance(value, _SAID):
        yield from texts_in(answer_of(value, depth), 0)
    elif depth and not isinstance(value, BaseNode | NodeWithScore):
        held = entries(value)
        parts = value if isinstance(value, list | tuple) else ()
        for part in parts if held is None else held.values():
            yield from texts_in(part, depth - 1)


def generator_of(value: Any) -> Any:
    """Return the generator behind a streamed answer, or None for another kind of answer."""
    if isinstance(value, STREAMING):
        return value.response_gen
    return value if _is_generator(class_of(value)) else None


def class_of(value: object) -> type:
    """Return the class of a value, or of what a proxy stands for."""
    return value.__class__


@functools.lru_cache(maxsize=1024)
def _is_a(kind: type, base: type | tuple[type, ...]) -> bool:
    return issubclass(kind, base)


@functools.lru_cache(maxsize=1024)
def _is_generator(kind: type) -> bool:
    return issubclass(kind, Generator | AsyncGenerator)


def known_text(synthesizer: Any, value: Any) -> str | None:
    """Return the whole text of a stream that a synthesizer makes without a model, or None."""
    generator = generator_of(value)
    if generator is None or _EMPTY not in "_" + getattr(generator, "__name__", ""):
        return None
    return str(getattr(synthesizer, _EMPTY, _EMPTY_TEXT))


def message_texts(messages: Iterable[ChatMessage]) -> tuple[str, ...]:
    """Return the texts of a chat model's input, in order."""
    held = messages if isinstance(messages, list | tuple) else ()
    return tuple(message.content or "" for message in held)


def metadata_of(tags: Any) -> dict[str, Any]:
    """Return metadata from instrument tags, without those that LlamaIndex itself sets."""
    given = tags if isinstance(tags, READABLE_MAPPING) else {}
    named = {str(key): value for key, value in given.items()}
    return {k: v for k, v in named.items() if not k.startswith(_FRAMEWORK) and k != "tags"}


def labels_of(tags: Any) -> tuple[str, ...]:
    """Return the free labels in the instrument tag `tags`."""
    labels = tags.get("tags") if isinstance(tags, READABLE_MAPPING) else None
    if isinstance(labels, list | tuple | set | frozenset):
        return tuple(map(str, labels))
    return () if labels is None else (str(labels),)


def _first(values: Mapping[str, Any], keys: Sequence[str], read: Any) -> str | None:
    for key in keys:
        if key in values and (text := read(values[key])) is not None:
            return str(text)
    return None
