"""Reads the input and the reply of model calls, and the output of tools."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, Generation, LLMResult

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.records import Facts
from rag_eval_hooks.capture.text_forms import is_distinctive_text
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain.question_answer import message_text
from rag_eval_hooks_langchain.structured import update_of

__all__ = [
    "agent_facts",
    "as_json",
    "earlier_replies",
    "first_generation",
    "model_facts",
    "reply_details",
    "reply_text",
    "result_text",
    "roles_of",
    "text_of_tool",
    "tool_calls_of",
    "tool_content",
    "tool_facts",
]

_SCALARS = (str, int, float, bool)
_ROLES = {"human": "user", "ai": "assistant", "function": "tool"}
"""Roles of the GenAI conventions, where LangChain has another word."""


def first_generation(result: LLMResult) -> Generation | None:
    """Return the first reply of a model call, or None."""
    replies = (one for batch in result.generations for one in batch)
    return next(replies, None)


def earlier_replies(messages: Sequence[Sequence[BaseMessage]]) -> Collection[int]:
    """Return the places of what a model said before the last question, counted through."""
    kinds = [message.type for batch in messages for message in batch]
    if "ai" not in kinds or "human" not in kinds:
        return ()
    asked = len(kinds) - 1 - kinds[::-1].index("human")
    return frozenset(place for place, kind in enumerate(kinds[:asked]) if kind == "ai")


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


def roles_of(messages: Sequence[Sequence[BaseMessage]]) -> tuple[str, ...]:
    """Return the role of each message, in the words of the GenAI conventions."""
    return tuple(_role(message) for batch in messages for message in batch)


def _role(message: BaseMessage) -> str:
    kind = message.type.removesuffix("MessageChunk").lower()
    return str(getattr(message, "role", None) or _ROLES.get(kind, kind))


def tool_calls_of(reply: Generation | None) -> Sequence[Mapping[str, Any]] | None:
    """Return id, name and arguments of the tool calls in a reply, or None."""
    calls = (
        getattr(reply.message, "tool_calls", None) if isinstance(reply, ChatGeneration) else None
    )
    return (
        [
            {"id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")}
            for call in calls
        ]
        if calls
        else None
    )


def tool_facts(name: str, event: Mapping[str, Any]) -> Facts:
    """Return name and call id of a tool, from its start event."""
    call_id = event.get("tool_call_id")
    return _scalars(
        {
            semconv.GEN_AI_TOOL_NAME: name,
            semconv.GEN_AI_TOOL_TYPE: "function",
            semconv.GEN_AI_TOOL_CALL_ID: call_id,
        }
    )


def agent_facts(name: str, metadata: Mapping[str, Any]) -> Facts:
    """Return the name of the agent that an outermost run is, or nothing."""
    agent = metadata.get("lc_agent_name")
    is_agent = metadata.get("ls_integration") == "langchain_create_agent"
    return _scalars({semconv.GEN_AI_AGENT_NAME: agent or (name if is_agent else None)})


def result_text(output: Any) -> str | None:
    """Return a tool's output as text, or None if it gives the model no text."""
    if isinstance(output, BaseMessage):
        return message_text(output)
    return output if isinstance(output, str) else None


def text_of_tool(output: Any) -> Context | None:
    """Return a tool's text for the model, if it is long enough to be recognised in a prompt.

    A number or a word is no context; nor is the message of a tool that failed, nor that of a
    command that hands over to another part of a graph.
    """
    update = update_of(output)
    if update is not output:
        output = None if output.goto or output.graph else _only_message(update)
    if isinstance(output, ToolMessage):
        if getattr(output, "status", "success") == "error" or _lists_texts(output.content):
            return None
        output = message_text(output)
    if isinstance(output, str) and is_distinctive_text(output):
        return Context(text=output)
    return None


def _lists_texts(content: Any) -> bool:
    """Return whether a tool gave several texts, each of which can be recognised."""
    return len(content) > 1 and all(isinstance(t, str) and is_distinctive_text(t) for t in content)


def tool_content(output: Any) -> Any:
    """Return a tool's output, or the content of its message."""
    if isinstance(output, ToolMessage):
        return None if getattr(output, "status", "success") == "error" else output.content
    return None if update_of(output) is not output else output


def _only_message(update: Mapping[str, Any]) -> ToolMessage | None:
    messages = update.get("messages")
    items = messages if isinstance(messages, list | tuple) else [messages]
    messages_of_tools = [item for item in items if isinstance(item, ToolMessage)]
    return messages_of_tools[0] if len(messages_of_tools) == 1 else None


def as_json(value: Any) -> str:
    """Return the arguments of a tool as JSON; what is no JSON value as text."""
    return json.dumps(value, default=str, ensure_ascii=False)


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
