"""Reads what model calls were asked and gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.interaction import Facts
from rag_eval_hooks_langchain.values import message_text

__all__ = ["model_facts", "picks_of", "result_facts", "result_text"]

_SCALARS = (str, int, float, bool)


def result_text(result: LLMResult) -> str | None:
    """What a model gave out, or None when it gave no text, as when it only picks a tool."""
    for batch in result.generations:
        for generation in batch:
            if isinstance(generation, ChatGeneration):
                return message_text(generation.message) or None
            return generation.text or None
    return None


def picks_of(result: LLMResult) -> Sequence[Any]:
    """The arguments of the tool calls in a reply."""
    calls = getattr(_first_message(result), "tool_calls", None)
    return [call.get("args") for call in calls] if calls else ()


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


def _first_message(result: LLMResult) -> BaseMessage | None:
    for batch in result.generations:
        for generation in batch:
            return generation.message if isinstance(generation, ChatGeneration) else None
    return None


def _told(facts: Mapping[str, Any]) -> Facts:
    return {k: v for k, v in facts.items() if isinstance(v, _SCALARS) and v != ""}
