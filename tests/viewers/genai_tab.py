"""Rules of Jaeger's GenAI tab: what a click on a span shows, and what it cannot read.

The tab shows agent, provider and model, tokens, the conversation, the tool call, then all other
`gen_ai.*` attributes by name; it takes messages as JSON of roles and parts.
"""

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
MESSAGES = ("gen_ai.input.messages", "gen_ai.output.messages")
UNDECIDED = "undecided"
HEADLINE = ("name", "explanation")
"""An undecided result has no value."""
PARTS = {
    "text": ("content",),
    "tool_call": ("name",),
    "tool_call_response": ("response",),
}


def problems(name: str, attributes: Mapping[str, Any]) -> list[str]:
    """Say what the tab could not show of a span."""
    return [f"{name}: {problem}" for problem in _problems(name, attributes)]


def sections(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conversation as (role, text) pairs, and the other attributes by name."""
    said = [
        (message["role"], part.get("content"))
        for key in MESSAGES
        for message in json.loads(attributes.get(key, "[]"))
        for part in message["parts"]
    ]
    shown = {*MESSAGES, "gen_ai.system_instructions"}
    others = {k: v for k, v in sorted(attributes.items()) if k.startswith("gen_ai.")}
    return {"conversation": said, "other": {k: v for k, v in others.items() if k not in shown}}


def headline(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result that the tab shows, by field."""
    prefix = "gen_ai.evaluation."
    return {k.removeprefix(prefix): v for k, v in attributes.items() if k.startswith(prefix)}


def _problems(name: str, attributes: Mapping[str, Any]) -> Iterator[str]:
    yield from _of_operation(name, attributes)
    for key in MESSAGES:
        yield from _of_messages(key, attributes.get(key))
    if (system := attributes.get("gen_ai.system_instructions")) is not None:
        yield from _of_parts("gen_ai.system_instructions", json.loads(system))
    for key in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
        if not isinstance(attributes.get(key, 0), int):
            yield f"{key} is no whole number"
    yield from _of_scores(attributes)


def _of_operation(name: str, attributes: Mapping[str, Any]) -> Iterator[str]:
    operation = attributes.get("gen_ai.operation.name")
    if operation not in ICONS | OTHERS:
        yield f"unknown operation {operation}"
    elif not name.startswith(str(operation)):
        yield f"its name does not begin with {operation}"
    needed = {"execute_tool": "gen_ai.tool.name", "invoke_agent": "gen_ai.agent.name"}
    if needed.get(str(operation), "gen_ai.operation.name") not in attributes:
        yield f"{operation} without {needed[str(operation)]}"


def _of_scores(attributes: Mapping[str, Any]) -> Iterator[str]:
    scored = {k for k in attributes if k.startswith("rag.eval.") and k.endswith(".score")}
    if scored:
        missing = [field for field in HEADLINE if field not in headline(attributes)]
        if missing:
            yield f"scores without a headline: no {missing}"
    elif headline(attributes).get("score.label", UNDECIDED) != UNDECIDED:
        yield "a headline without a score"


def _of_messages(key: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    read = json.loads(value)
    if not isinstance(read, list) or not read:
        yield f"{key} is no list of messages"
        return
    for message in read:
        if not isinstance(message.get("role"), str):
            yield f"{key}: a message without a role"
        yield from _of_parts(key, message.get("parts"))


def _of_parts(key: str, parts: Any) -> Iterator[str]:
    if not isinstance(parts, list) or not parts:
        yield f"{key}: no parts"
        return
    for part in parts:
        wanted = PARTS.get(part.get("type"))
        if wanted is None or any(field not in part for field in wanted):
            yield f"{key}: a part that cannot be shown: {part}"
