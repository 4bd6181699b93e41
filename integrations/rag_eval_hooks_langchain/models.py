"""Reads the input and the reply of model calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, Generation, LLMResult

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.interaction import Facts
from rag_eval_hooks_langchain.question_answer import message_text

__all__ = ["first_generation", "model_facts", "reply_details", "reply_text"]

_SCALARS = (str, int, float, bool)


def first_generation(result: LLMResult) -> Generation | None:
    """Return the first reply of a model call, or None."""
    replies = (one for batch in result.generations for one in batch)
    return next(replies, None)


def reply_text(reply: Generation | None) -> str | None:
    """Return the text of a reply, or None if it has none, as when it only picks a tool."""
    if isinstance(reply, ChatGeneration):
        return message_text(reply.message) or None
    return None if reply is None else reply.text or None


def reply_details(reply: Generation | None) -> tuple[Facts, Sequence[Any]]:
    """Return model, tokens and id of a reply, and the arguments of its tool calls."""
    if not isinstance(reply, ChatGeneration):
        return {}, ()
    calls = getattr(reply.message, "tool_calls", None)
    return _reply_facts(reply.message), [call.get("args") for call in calls] if calls else ()


def model_facts(started: Mapping[str, Any]) -> Facts:
    """Return the provider and the model that a call asks for, from its start event."""
    metadata = started.get("metadata") or {}
    invocation = started.get("invocation_params") or {}
    model = metadata.get("ls_model_name") or invocation.get("model") or invocation.get("model_name")
    return _scalars(
        {
            semconv.GEN_AI_PROVIDER_NAME: metadata.get("ls_provider"),
            semconv.GEN_AI_REQUEST_MODEL: model,
        }
    )


def _reply_facts(message: BaseMessage) -> Facts:
    described = message.response_metadata
    usage: Mapping[str, Any] = getattr(message, "usage_metadata", None) or {}
    return _scalars(
        {
            semconv.GEN_AI_RESPONSE_MODEL: described.get("model_name") or described.get("model"),
            semconv.GEN_AI_RESPONSE_ID: described.get("id") or message.id,
            semconv.GEN_AI_INPUT_TOKENS: usage.get("input_tokens"),
            semconv.GEN_AI_OUTPUT_TOKENS: usage.get("output_tokens"),
        }
    )


def _scalars(facts: Mapping[str, Any]) -> Facts:
    return {k: v for k, v in facts.items() if isinstance(v, _SCALARS) and v != ""}
