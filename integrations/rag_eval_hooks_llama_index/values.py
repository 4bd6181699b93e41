"""Reads question, answer and documents from what LlamaIndex passes around."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
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
from llama_index.core.indices.document_summary.base import DEFAULT_SUMMARY_QUERY
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.workflow import Event, StopEvent
from pydantic import BaseModel

from rag_eval_hooks.capture import Recorder, Run
from rag_eval_hooks.sample import Context

__all__ = [
    "ANSWERS_WITH_SOURCES",
    "STREAMING",
    "answer_of",
    "class_of",
    "generator_of",
    "given_out",
    "is_summary_query",
    "known_text",
    "labels_of",
    "message_texts",
    "metadata_of",
    "nodes_in",
    "note_sources",
    "question_of",
    "question_of_call",
    "retrieved_of",
    "snapshot",
]

STREAMING = (StreamingResponse, AsyncStreamingResponse)
ANSWERS_WITH_SOURCES = (
    Response,
    PydanticResponse,
    *STREAMING,
    AgentChatResponse,
    StreamingAgentChatResponse,
)
_EMPTY = "_empty_response"
"""A synthesizer's attribute, and a part of the names of the generators that stream it."""
_EMPTY_TEXT = "Empty Response"
"""What old versions stream."""

_QUESTION_KEYS = (
    "question",
    "query",
    "query_str",
    "str_or_query_bundle",
    "query_bundle",
    "message",
    "user_msg",
    "user_input",
    "input",
    "start_event",
    "kwargs",
    "chat_history",
    "messages",
)
_ANSWER_KEYS = ("answer", "response", "output", "result", "text")
_SCALARS = (str, int, float, bool)
_FRAMEWORK = "llamaindex."


def question_of_call(arguments: Mapping[str, Any]) -> str | None:
    """Return the user's question in the arguments of the outermost call."""
    asked = question_of(arguments)
    if asked is None:
        asked = next((value for value in arguments.values() if isinstance(value, str)), None)
    return asked


def is_summary_query(arguments: Mapping[str, Any]) -> bool:
    """Return whether a call is one by which `DocumentSummaryIndex` is built."""
    return "query" in arguments and question_of(arguments["query"]) == DEFAULT_SUMMARY_QUERY


def question_of(value: Any) -> str | None:
    """Return the question: a text, a query, a message, a known key, the last user message."""
    if isinstance(value, str):
        return value
    if isinstance(value, QueryBundle):
        return value.query_str
    if isinstance(value, ChatMessage):
        return value.content
    if isinstance(value, Event):
        return question_of(_fields(value))
    if isinstance(value, Mapping):
        return _first(value, _QUESTION_KEYS, question_of)
    if isinstance(value, Sequence):
        return _last_asked(value)
    return None


def _last_asked(messages: Sequence[Any]) -> str | None:
    asked = (m for m in reversed(messages) if isinstance(m, ChatMessage))
    return next((m.content for m in asked if m.role == MessageRole.USER and m.content), None)


def given_out(result: Any) -> Any:
    """Return the result of a call without a workflow's wrapping."""
    if isinstance(result, StopEvent) and result.result is not None:
        return result.result
    return result


def answer_of(value: Any) -> str | None:
    """Return the answer: a text, a response, a message, a known key."""
    if isinstance(value, str):
        return value
    for kind, read in _ANSWERS:
        if isinstance(value, kind):
            return read(value)
    if isinstance(value, Mapping):
        return _first(value, _ANSWER_KEYS, answer_of)
    if isinstance(value, Event):
        return answer_of(_fields(value))
    return value.model_dump_json() if isinstance(value, BaseModel) else None


_ANSWERS: tuple[tuple[type, Callable[[Any], str | None]], ...] = (
    (Response, lambda value: value.response),
    # Already read; `response_txt` is None before, and nothing is read here.
    (StreamingResponse, lambda value: value.response_txt),
    (AsyncStreamingResponse, lambda value: value.response_txt),
    (PydanticResponse, lambda value: answer_of(value.response)),
    (AgentChatResponse, lambda value: value.response),
    (ChatMessage, lambda value: value.content),
    (ChatResponse, lambda value: value.message.content),
    (CompletionResponse, lambda value: value.text),
)


def generator_of(value: Any) -> Any:
    """Return the generator behind a streamed answer, or None for another kind of answer."""
    if isinstance(value, STREAMING):
        return value.response_gen
    return value if _is_generator(class_of(value)) else None


def class_of(value: object) -> type:
    """Return the class of a value, or of what a proxy stands for."""
    return value.__class__


@functools.lru_cache(maxsize=256)
def _is_generator(kind: type) -> bool:
    return issubclass(kind, Generator | AsyncGenerator)


def known_text(synthesizer: Any, value: Any) -> str | None:
    """Return the whole text of a stream that a synthesizer makes without a model, or None."""
    generator = generator_of(value)
    if generator is None or _EMPTY not in "_" + getattr(generator, "__name__", ""):
        return None
    return str(getattr(synthesizer, _EMPTY, _EMPTY_TEXT))


def nodes_in(value: Any) -> list[NodeWithScore] | None:
    """Return the nodes that a call gave out as a list, or None for anything else.

    An empty list counts as one: whose it is tells the caller.
    """
    if isinstance(value, list) and all(isinstance(item, NodeWithScore) for item in value):
        return value
    return None


def snapshot(nodes: Iterable[NodeWithScore]) -> tuple[Context, ...]:
    """Copy what may change later: text, id, score and scalar metadata."""
    return tuple(
        Context(
            text=found.node.get_content(),
            id=found.node.node_id,
            score=None if found.score is None else float(found.score),
            metadata={k: v for k, v in found.node.metadata.items() if isinstance(v, _SCALARS)},
        )
        for found in nodes
    )


def note_sources(recorder: Recorder, run: Run, nodes: Iterable[NodeWithScore]) -> None:
    """Record the sources of an answer that were retrieved: others were made on the way."""
    found = [context for each in run.interaction.lists for context in each.contexts]
    sources = snapshot(nodes)
    kept = sources if not found else retrieved_of(sources, found)
    if kept:
        recorder.documents(run, kept)


def retrieved_of(sources: Iterable[Context], found: Sequence[Context]) -> tuple[Context, ...]:
    """Return the sources that were retrieved: by id, or by a text without a heading line.

    An engine may cut what it retrieved, and number the pieces; others put what they generated
    among the sources of an answer.
    """
    ids = {context.id for context in found}
    texts = [context.text.strip() for context in found]
    return tuple(s for s in sources if s.id in ids or _is_of(s.text.strip(), texts))


def _is_of(text: str, found: Sequence[str]) -> bool:
    body = text.partition("\n")[2].strip()
    return any(
        whole and (whole in text or text in whole or (body and body in whole)) for whole in found
    )


def message_texts(messages: Iterable[ChatMessage]) -> tuple[str, ...]:
    """Return the texts of a chat model's input, in order."""
    return tuple(message.content or "" for message in messages)


def metadata_of(tags: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata from instrument tags, without those that LlamaIndex itself sets."""
    free = (item for item in tags.items() if not item[0].startswith(_FRAMEWORK))
    return {key: value for key, value in free if key != "tags"}


def _fields(event: Event) -> dict[str, Any]:
    """Return the declared and free fields of a workflow's event."""
    return {**vars(event), **dict(event.items())}


def labels_of(tags: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the free labels in the instrument tag `tags`."""
    labels = tags.get("tags", ())
    return (labels,) if isinstance(labels, str) else tuple(map(str, labels))


def _first(values: Mapping[str, Any], keys: Sequence[str], read: Any) -> str | None:
    for key in keys:
        if key in values and (text := read(values[key])) is not None:
            return str(text)
    return None
