"""Types of copied framework objects.

Integrations convert their framework's objects to `Context`, `Message`, `FormattedPrompt` and
`Update`. The application's models and dataclasses become `Record`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rag_eval_hooks.capture.snapshots import Record
from rag_eval_hooks.sample import Context

PAIR: Final = 2
_ENCODED: Final = frozenset(("base64", "image", "audio", "video"))
_ROLES: Final = frozenset(("user", "human", "assistant", "ai", "system", "developer", "tool"))
_BLOCK_LEVELS: Final = 50
_MAX_ITEMS: Final = 1000

Read: TypeAlias = Callable[[Any], str | None]


@dataclass(slots=True, eq=False)
class Message:
    role: str
    # a text, or a list of content blocks
    content: Any
    name: str | None = None
    # tool calls of a model's reply, each with `id`, `name` and `args`
    calls: Sequence[Mapping[str, Any]] = ()
    # the tool call that a tool message answers
    call_id: str | None = None
    artifact: Any = None
    failed: bool = False

    @property
    def text(self) -> str:
        return content_text(self.content)

    @property
    def shown(self) -> str:
        if not isinstance(self.content, list | tuple):
            return self.text
        texts = (content_text([one]) or f"\n{block_text(one)}\n" for one in self.content)
        return "".join(texts)


@dataclass(slots=True, eq=False)
class FormattedPrompt:
    messages: Sequence[Message]


@dataclass(slots=True, eq=False)
class Update:
    values: Any
    hands_over: bool = False


FRAMEWORK: Final = (Context, Message, FormattedPrompt, Update)


def entries(value: Any) -> Mapping[str, Any] | None:
    if type(value) is Record:
        return value.held
    return value if isinstance(value, dict) else None


def state_update(value: Any) -> Any:
    if not isinstance(value, Update):
        return value
    return {"messages": value.values} if isinstance(value.values, list | tuple) else value.values


def fresh(values: Mapping[str, Any], given: Any) -> Mapping[str, Any]:
    """Return the entries of `values` that differ from the input `given`."""
    before, missing = entries(given) or {}, object()
    changed = {k: v for k, v in values.items() if v is not before.get(k, missing)}
    return {k: v for k, v in changed.items() if not isinstance(v, str) or v != before.get(k)}


def is_message(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) == PAIR and isinstance(value[0], str) and value[0] in _ROLES
    held = entries(value) or {}
    return "role" in held and any(key in held for key in ("content", "parts", "blocks"))


def named(value: Any, key: str) -> Any:
    return (entries(value) or {}).get(key)


def content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list | tuple) else ()
    texts = (block.get("text") if isinstance(block, dict) else block for block in blocks)
    return "".join(text for text in texts if isinstance(text, str))


def typed_text(content: Any) -> str:
    if not isinstance(content, list | tuple):
        return content_text(content)
    typed = (not isinstance(one, dict) or one.get("type") in (None, "text") for one in content)
    return content_text([one for one, is_typed in zip(content, typed, strict=True) if is_typed])


def block_text(value: Any, depth: int = _BLOCK_LEVELS) -> str:
    if isinstance(value, str):
        return value
    if depth and isinstance(value, list):
        texts = (block_text(one, depth - 1) for one in value[:_MAX_ITEMS])
        return "\n".join(filter(None, texts))
    if depth and isinstance(value, dict):
        types = (value.get("type"), value.get("source_type"))
        if _ENCODED.isdisjoint(one for one in types if isinstance(one, str)):
            parts = (value.get(key) for key in ("text", "content", "source", "data"))
            texts = (block_text(part, depth - 1) for part in parts)
            return next(filter(None, texts), "")
    return ""
