"""How the shape of a reply is asked for, and how a refusal of one way is told from others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum

from rag_eval_hooks.prompts import ReplyError

__all__ = ["Rung", "is_about_shape", "only_text"]


class Rung(IntEnum):
    """The ways to ask for a shape, best first."""

    JSON_SCHEMA = 0
    TOOL = 1
    JSON_OBJECT = 2
    TEXT = 3


_ABOUT_SHAPE = re.compile(
    r"response.?(format|mime|schema)|json.?(schema|object|mode)|structured.?output|guided|"
    r"requested parameters|tool|function.?call|output.?(config|format)",
    re.IGNORECASE,
)


def is_about_shape(complaint: str) -> bool:
    """Whether an endpoint's complaint is about the way in which the shape was asked for.

    Args:
        complaint: What the endpoint said. It may repeat content: it is only looked at.
    """
    return _ABOUT_SHAPE.search(complaint) is not None


def only_text(content: object, calls: Sequence[object]) -> str:
    """The one text of a reply that has a content, tool calls, or both.

    Args:
        content: What the model said beside its tool calls.
        calls: The arguments of each tool call, as JSON.

    Raises:
        ReplyError: There is none, or nobody can say which one is the reply.
    """
    if len(calls) > 1:
        raise ReplyError("it calls the tool more than once")
    text = calls[0] if calls else content
    if not isinstance(text, str) or not text.strip():
        raise ReplyError("it was empty")
    return text
