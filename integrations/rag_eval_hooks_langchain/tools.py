"""The text of a tool that gives no documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage

from rag_eval_hooks.capture.contexts.text_forms import fold, is_telling
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain.documents import update_of
from rag_eval_hooks_langchain.question_answer import message_text

__all__ = ["text_of_tool"]


def text_of_tool(output: Any) -> Context | None:
    """What a tool told the model, where it is long enough to be known again in a prompt.

    A number or a word is no context; nor is the message of a tool that failed, nor that of a
    command that hands over to another part of a graph.
    """
    update = update_of(output)
    if update is not output:
        output = None if output.goto or output.graph else _only_message(update)
    if isinstance(output, ToolMessage):
        if getattr(output, "status", "success") == "error":
            return None
        output = message_text(output)
    if isinstance(output, str) and is_telling(fold(output)):
        return Context(text=output)
    return None


def _only_message(update: Mapping[str, Any]) -> ToolMessage | None:
    messages = update.get("messages")
    items = messages if isinstance(messages, list | tuple) else [messages]
    told = [item for item in items if isinstance(item, ToolMessage)]
    return told[0] if len(told) == 1 else None
