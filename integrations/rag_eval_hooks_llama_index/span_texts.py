"""Tool calls of replies and arguments of tools, as spans show them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["arguments_text", "tool_calls_of"]


def tool_calls_of(response: Any) -> list[dict[str, Any]]:
    """Return id, name and arguments of the tool calls in a reply."""
    blocks = getattr(getattr(response, "message", None), "blocks", None) or ()
    return [
        {"id": block.tool_call_id, "name": block.tool_name, "arguments": block.tool_kwargs}
        for block in blocks
        if getattr(block, "block_type", None) == "tool_call"
    ]


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a tool's call as JSON; what is no JSON value as text."""
    flat = {**arguments, **(arguments.get("kwargs") or {})}
    flat.pop("kwargs", None)
    return json.dumps(flat, default=str, ensure_ascii=False)
