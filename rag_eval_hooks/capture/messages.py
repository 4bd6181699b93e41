"""Conversations as the GenAI conventions write them: messages with a role and parts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.records import Run
from rag_eval_hooks.redaction.redactor import Content, CutText

__all__ = ["agent_messages", "model_messages", "tool_content"]

_SYSTEM: Final = ("system", "developer")
_Text = str | CutText


def agent_messages(question: _Text | None, answer: _Text | None) -> dict[str, Content]:
    """Return question and answer of a request as its conversation."""
    messages = {
        semconv.GEN_AI_INPUT_MESSAGES: [] if question is None else [_message("user", question)],
        semconv.GEN_AI_OUTPUT_MESSAGES: [] if answer is None else [_reply([_text(answer)])],
    }
    return {key: value for key, value in messages.items() if value}


def model_messages(run: Run) -> dict[str, Content]:
    """Return system instructions, input and output of a model call.

    Texts without a role, as of a completion model, are the user's.
    """
    roles = run.span_content.get("roles", ())
    cut = run.interaction.cut_texts
    system: list[Any] = []
    given: list[Any] = []
    for index, prompt in enumerate(run.prompt):
        role = roles[index] if len(roles) == len(run.prompt) else "user"
        text = CutText(prompt) if prompt in cut else prompt
        if role in _SYSTEM:
            system.append(_text(text))
        elif prompt:
            given.append(_message(role, text))
    parts = [_text(CutText(run.text) if run.text in cut else run.text)] if run.text else []
    parts += map(_tool_call, run.span_content.get("tool_calls", ()))
    content: dict[str, Content] = {
        semconv.GEN_AI_SYSTEM_INSTRUCTIONS: system,
        semconv.GEN_AI_INPUT_MESSAGES: given,
        semconv.GEN_AI_OUTPUT_MESSAGES: [_reply(parts, "text" if run.text else "tool")]
        if parts
        else [],
    }
    return {key: value for key, value in content.items() if value}


def tool_content(run: Run) -> dict[str, Content]:
    """Return arguments and result of a tool call; JSON is redacted value by value."""
    cut = run.interaction.cut_texts
    texts = {
        semconv.GEN_AI_TOOL_ARGUMENTS: run.span_content.get("arguments"),
        semconv.GEN_AI_TOOL_RESULT: run.span_content.get("result"),
    }
    return {
        key: CutText(text) if text in cut else _read(text)
        for key, text in texts.items()
        if text is not None
    }


def _read(text: str) -> Content:
    """Return the object or list that a text is the JSON of, else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict | list) else text


def _text(text: _Text) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _message(role: str, text: _Text) -> dict[str, Any]:
    if role == "tool":
        return {"role": role, "parts": [{"type": "tool_call_response", "response": text}]}
    return {"role": role, "parts": [_text(text)]}


def _reply(parts: Sequence[Mapping[str, Any]], kind: str = "text") -> dict[str, Any]:
    reason = "stop" if kind == "text" else "tool_call"
    return {"role": "assistant", "parts": list(parts), "finish_reason": reason}


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    known = {"id": call.get("id"), "name": call.get("name"), "arguments": call.get("arguments")}
    return {"type": "tool_call", **{k: v for k, v in known.items() if v is not None}}
