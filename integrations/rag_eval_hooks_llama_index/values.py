"""Question and answer in copies of LlamaIndex's values; streams and tags in live ones."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import AsyncGenerator, Generator
from typing import Any

from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.workflow import Event, StopEvent
from pydantic import BaseModel

from rag_eval_hooks.capture import documents, readings
from rag_eval_hooks.capture.copied import Message
from rag_eval_hooks.capture.snapshots import Record
from rag_eval_hooks.context import READABLE_MAPPING

__all__ = [
    "DOCUMENT_KEYS",
    "LEVELS",
    "STREAMING",
    "answer_of",
    "generator_of",
    "is_framework_class",
    "is_of_framework",
    "is_stop",
    "labels_of",
    "may_stream",
    "metadata_of",
    "question_of",
    "texts_in",
    "unwrapped",
]

STREAMING = (StreamingResponse, AsyncStreamingResponse)
DOCUMENT_KEYS = (*documents.DOCUMENT_KEYS, "nodes", "chunks", "passages")
_QUESTION_KEYS = (
    *("question", "query", "query_str", "str_or_query_bundle", "query_bundle", "message"),
    *("user_msg", "user_msg_str", "user_input", "input", "chat_history", "messages"),
    *("start_event", "kwargs"),
)
_FRAMEWORK_TAGS = "llamaindex."
LEVELS = 6
"""Levels of nested values that are looked into."""


def question_of(value: Any) -> str | None:
    """Return the question in a copy: a text, a known key, the last user message, the only text."""
    return readings.question_of(value, _QUESTION_KEYS)


def texts_in(value: Any) -> list[str]:
    """Return the texts in a copy that are no documents, in order."""
    return [text for text in readings.texts_in_input(value, LEVELS) if text.strip()]


def answer_of(value: Any) -> str | None:
    """Return the answer in a copy: a text, a response, a number, a known key, the only text."""
    # What packages put where the type says text may be a response, too.
    while isinstance(value, Message) and not isinstance(value.content, str | list | tuple):
        value = value.content
    if isinstance(value, int | float):
        return str(value)
    is_model = isinstance(value, Record) and issubclass(value.kind, BaseModel)
    if is_model and not issubclass(value.kind, Event) and (text := readings.as_json(value)):
        # As pydantic writes it.
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    # A list may hold the answers to several questions.
    answer = None if isinstance(value, list | tuple) else readings.answer_of(value)
    texts = texts_in(value) if answer is None else []
    return texts[0] if len(texts) == 1 else answer


def is_of_framework(value: Any) -> bool:
    """Return whether a copy was made of LlamaIndex's own events or messages, or a list of them."""
    if isinstance(value, list):
        return bool(value) and all(map(is_of_framework, value))
    is_event = isinstance(value, Record) and is_framework_class(value.kind)
    return is_event or isinstance(value, Message)


# Live values, on the request's thread.


def is_stop(result: Any) -> bool:
    """Return whether a value is the event that stops a workflow."""
    return _is_subclass(result.__class__, StopEvent)


def unwrapped(result: Any) -> Any:
    """Return the result of a call without a workflow's stop event around it."""
    return result.result if is_stop(result) and result.result is not None else result


def may_stream(value: Any) -> bool:
    """Return whether a value may be a streamed answer."""
    kinds = (Generator, AsyncGenerator, *STREAMING, StreamingAgentChatResponse)
    return _is_subclass(value.__class__, kinds)


def generator_of(value: Any) -> Any:
    """Return the generator behind a streamed answer, or None for another kind of answer."""
    if isinstance(value, STREAMING):
        return value.response_gen
    return value if _is_subclass(value.__class__, (Generator, AsyncGenerator)) else None


def metadata_of(tags: Any) -> dict[str, Any]:
    """Return metadata from instrument tags, without those that LlamaIndex itself sets."""
    held = tags.items() if isinstance(tags, READABLE_MAPPING) else ()
    named = {str(key): value for key, value in held}
    return {k: v for k, v in named.items() if not k.startswith(_FRAMEWORK_TAGS) and k != "tags"}


def labels_of(tags: Any) -> tuple[str, ...]:
    """Return the free labels in the instrument tag `tags`."""
    labels = tags.get("tags") if isinstance(tags, READABLE_MAPPING) else None
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
