"""Span attributes of runs, and the replies of models, from LangChain's events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, Generation, LLMResult

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.copied import content_text
from rag_eval_hooks.capture.records import Facts

__all__ = [
    "agent_facts",
    "class_name",
    "first_generation",
    "model_facts",
    "reply_facts",
    "reply_text",
    "tool_calls",
    "tool_facts",
]

_SCALARS = (str, int, float, bool)


def class_name(serialized: Mapping[str, Any] | None) -> str | None:
    """Return the name of a tool, or the class behind a run that has no name of its own."""
    described = serialized or {}
    path = described.get("id")
    name = path[-1] if path else described.get("name")
    return None if name is None else str(name)


def first_generation(result: LLMResult) -> Generation | None:
    """Return the first reply of a model call, or None."""
    replies = (one for batch in result.generations for one in batch)
    return next(replies, None)


def reply_text(reply: Generation | None) -> str | None:
    """Return the text of a reply, or None if it has none, as when it only picks a tool."""
    if isinstance(reply, ChatGeneration):
        return content_text(reply.message.content) or None
    return None if reply is None else reply.text or None


def tool_calls(reply: Generation | None) -> Sequence[Mapping[str, Any]]:
    """Return the tool calls in a reply, each with `id`, `name` and `args`."""
    message = reply.message if isinstance(reply, ChatGeneration) else None
    return getattr(message, "tool_calls", None) or ()


def reply_facts(reply: Generation | None) -> Facts:
    """Return model, tokens and id of a reply."""
    if not isinstance(reply, ChatGeneration):
        return {}
    message: BaseMessage = reply.message
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


def tool_facts(name: str, started: Mapping[str, Any]) -> Facts:
    """Return name and call id of a tool, from its start event."""
    return _scalars(
        {
            semconv.GEN_AI_TOOL_NAME: name,
            semconv.GEN_AI_TOOL_TYPE: "function",
            semconv.GEN_AI_TOOL_CALL_ID: started.get("tool_call_id"),
        }
    )


def agent_facts(name: str, metadata: Mapping[str, Any]) -> Facts:
    """Return the name of the agent that an outermost run is, or nothing."""
    agent = metadata.get("lc_agent_name")
    is_agent = metadata.get("ls_integration") == "langchain_create_agent"
    return _scalars({semconv.GEN_AI_AGENT_NAME: agent or (name if is_agent else None)})


def _scalars(facts: Mapping[str, Any]) -> Facts:
    return {k: v for k, v in facts.items() if isinstance(v, _SCALARS) and v != ""}
