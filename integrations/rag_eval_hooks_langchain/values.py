"""Reads question, answer and documents from what LangChain passes around."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.prompt_values import PromptValue

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.run import Facts
from rag_eval_hooks.sample import Context

__all__ = [
    "answer_of",
    "documents_in",
    "message_text",
    "message_texts",
    "model_facts",
    "question_of",
    "result_facts",
    "result_text",
    "snapshot",
]

_QUESTION_KEYS = ("question", "query", "input", "user_input", "user_msg")
_ANSWER_KEYS = ("answer", "output", "result", "response", "output_text", "generation", "text")
_SCORE_KEYS = ("relevance_score", "score", "similarity_score", "_score")
_SCALARS = (str, int, float, bool)


def question_of(inputs: Any) -> str | None:
    """What the user asked: a text, a known key, the last human message."""
    if isinstance(inputs, str):
        return inputs
    if isinstance(inputs, PromptValue):
        return question_of(inputs.to_messages())
    if isinstance(inputs, BaseMessage):
        return message_text(inputs)
    if isinstance(inputs, Mapping):
        return _first(inputs, (*_QUESTION_KEYS, "messages"), question_of)
    if isinstance(inputs, Sequence):
        return _last_message(inputs, HumanMessage)
    return None


def answer_of(outputs: Any) -> str | None:
    """What the user got: a text, a message, a known key, the last message of a model."""
    if isinstance(outputs, str):
        return outputs
    if isinstance(outputs, BaseMessage):
        return message_text(outputs)
    if isinstance(outputs, Mapping):
        return _first(outputs, (*_ANSWER_KEYS, "messages"), answer_of)
    if isinstance(outputs, Sequence):
        return _last_message(outputs, (AIMessage, AIMessageChunk))
    return None


def documents_in(value: Any) -> tuple[Context, ...] | None:
    """The documents that a run gave out: a list of them, or the first such list in a mapping.

    Returns:
        None when there is no list of documents; an empty list is none either, as its type is
        unknown.
    """
    if isinstance(value, list | tuple):
        if value and all(isinstance(item, Document) for item in value):
            return tuple(map(snapshot, value))
    elif isinstance(value, dict):
        for item in value.values():
            if isinstance(item, list | tuple) and (found := documents_in(item)) is not None:
                return found
    return None


def snapshot(document: Document) -> Context:
    """A copy of what may change later: text, id, score and scalar metadata."""
    metadata = document.metadata
    return Context(
        text=document.page_content,
        id=document.id,
        score=_score(metadata),
        metadata={k: v for k, v in metadata.items() if isinstance(v, _SCALARS)},
    )


def message_texts(messages: Sequence[Sequence[BaseMessage]]) -> tuple[str, ...]:
    """The texts of a chat model's input, in order."""
    return tuple(message_text(message) for batch in messages for message in batch)


def result_text(result: LLMResult) -> str | None:
    """What a model gave out, or None when it gave no text, as when it only picks a tool."""
    for batch in result.generations:
        for generation in batch:
            if isinstance(generation, ChatGeneration):
                return message_text(generation.message) or None
            return generation.text or None
    return None


def model_facts(started: Mapping[str, Any]) -> Facts:
    """Provider and model that a call asks for, from the keywords of its start event."""
    metadata = started.get("metadata") or {}
    invocation = started.get("invocation_params") or {}
    model = metadata.get("ls_model_name") or invocation.get("model") or invocation.get("model_name")
    return _told(
        {
            semconv.GEN_AI_PROVIDER_NAME: metadata.get("ls_provider"),
            semconv.GEN_AI_REQUEST_MODEL: model,
        }
    )


def result_facts(result: LLMResult) -> Facts:
    """Model, tokens and id that a reply tells."""
    message = _first_message(result)
    if message is None:
        return {}
    told = message.response_metadata
    usage: Mapping[str, Any] = getattr(message, "usage_metadata", None) or {}
    return _told(
        {
            semconv.GEN_AI_RESPONSE_MODEL: told.get("model_name") or told.get("model"),
            semconv.GEN_AI_RESPONSE_ID: told.get("id") or message.id,
            semconv.GEN_AI_INPUT_TOKENS: usage.get("input_tokens"),
            semconv.GEN_AI_OUTPUT_TOKENS: usage.get("output_tokens"),
        }
    )


def _first(values: Mapping[str, Any], keys: Sequence[str], read: Any) -> str | None:
    for key in keys:
        if key in values and (text := read(values[key])) is not None:
            return str(text)
    return None


def _last_message(
    messages: Sequence[Any], kind: type[BaseMessage] | tuple[type[BaseMessage], ...]
) -> str | None:
    for message in reversed(messages):
        if isinstance(message, kind) and (text := message_text(message)):
            return text
    return None


def message_text(message: BaseMessage) -> str:
    """A message's text; of content blocks, the text blocks joined."""
    content = message.content
    if isinstance(content, str):
        return content
    blocks = (block if isinstance(block, str) else block.get("text") for block in content)
    return "".join(block for block in blocks if isinstance(block, str))


def _first_message(result: LLMResult) -> BaseMessage | None:
    for batch in result.generations:
        for generation in batch:
            return generation.message if isinstance(generation, ChatGeneration) else None
    return None


def _score(metadata: Mapping[str, Any]) -> float | None:
    for key in _SCORE_KEYS:
        value = metadata.get(key)
        # Rerankers give NumPy numbers, which have this one method in common with ours.
        if value is not None and hasattr(value, "__float__"):
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                return float(value)
    return None


def _told(facts: Mapping[str, Any]) -> Facts:
    return {key: value for key, value in facts.items() if isinstance(value, _SCALARS)}
