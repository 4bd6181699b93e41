"""Reads the input and the reply of model calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.interaction import Facts
from rag_eval_hooks_langchain.question_answer import message_text

__all__ = ["model_facts", "reply_of"]

_SCALARS = (str, int, float, bool)


def reply_of(result: LLMResult) -> tuple[str | None, Facts, Sequence[Any]]:
    """Return the reply of a model.

    Returns:
        Its text, None if it gave none, as when it only picks a tool; model, tokens and id; and
        the arguments of its tool calls.
    """
    first = next((one for batch in result.generations for one in batch), None)
    if not isinstance(first, ChatGeneration):
        return (first.text or None) if first is not None else None, {}, ()
    message = first.message
    calls = getattr(message, "tool_calls", None)
    arguments = [call.get("args") for call in calls] if calls else ()
    return message_text(message) or None, _reply_facts(message), arguments


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
