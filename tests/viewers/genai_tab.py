"""Rules of Jaeger's GenAI tab: which attributes it shows, and which it cannot read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

ICONS = frozenset(
    {
        *("chat", "text_completion", "generate_content", "embeddings", "execute_tool"),
        *("invoke_agent", "create_agent", "invoke_workflow", "retrieval"),
    }
)
OTHERS = frozenset({"evaluation", "rerank", "token_score"})
"""Operations of ours with the generic icon."""
SYSTEM = "gen_ai.system_instructions"
NEEDED = {"execute_tool": "gen_ai.tool.name", "invoke_agent": "gen_ai.agent.name"}
MESSAGES = ("gen_ai.input.messages", "gen_ai.output.messages")
UNDECIDED = "undecided"
HEADLINE = ("name", "explanation")
"""An undecided result has no value."""
PARTS = {"text": ("content",), "tool_call": ("name",), "tool_call_response": ("response",)}


def problems(name: str, attributes: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {problem}" for problem in _problems(name, attributes)]


def sections(attributes: Mapping[str, Any]) -> dict[str, Any]:
    said = [
        (message["role"], part.get("content"))
        for key in MESSAGES
        for message in json.loads(attributes.get(key, "[]"))
        for part in message["parts"]
    ]
    shown = {*MESSAGES, SYSTEM}
    others = {k: v for k, v in sorted(attributes.items()) if k.startswith("gen_ai.")}
    return {"conversation": said, "other": {k: v for k, v in others.items() if k not in shown}}


def headline(attributes: Mapping[str, Any]) -> dict[str, Any]:
    prefix = "gen_ai.evaluation."
    return {k.removeprefix(prefix): v for k, v in attributes.items() if k.startswith(prefix)}


def _problems(name: str, attributes: Mapping[str, Any]) -> Iterator[str]:
    operation = str(attributes.get("gen_ai.operation.name"))
    if operation not in ICONS | OTHERS:
        yield f"unknown operation {operation}"
    elif not name.startswith(operation):
        yield f"its name does not begin with {operation}"
    if NEEDED.get(operation, "gen_ai.operation.name") not in attributes:
        yield f"{operation} without {NEEDED[operation]}"
    for key in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
        if not isinstance(attributes.get(key, 0), int):
            yield f"{key} is no whole number"
    for key in (*MESSAGES, SYSTEM):
        if key in attributes:
            read = json.loads(attributes[key])
            yield from _of_messages(key, [{"role": "", "parts": read}] if key == SYSTEM else read)
    yield from _of_scores(attributes)


def _of_scores(attributes: Mapping[str, Any]) -> Iterator[str]:
    result = headline(attributes)
    if any(key.startswith("rag.eval.") and key.endswith(".score") for key in attributes):
        if missing := [field for field in HEADLINE if field not in result]:
            yield f"scores without a headline: no {missing}"
    elif result.get("score.label", UNDECIDED) != UNDECIDED:
        yield "a headline without a score"


def _of_messages(key: str, messages: Any) -> Iterator[str]:
    if not isinstance(messages, list) or not messages:
        yield f"{key} is no list of messages"
        return
    for message in messages:
        parts = message.get("parts")
        if not isinstance(message.get("role"), str) or not isinstance(parts, list) or not parts:
            yield f"{key}: a message without a role or parts"
            continue
        for part in parts:
            fields = PARTS.get(part.get("type"))
            if fields is None or any(field not in part for field in fields):
                yield f"{key}: a part that cannot be shown: {part}"
