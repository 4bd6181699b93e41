"""Defines classes for copies of framework objects, and finds texts and JSON in the copies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rag_eval_hooks.capture.snapshots import Record
from rag_eval_hooks.sample import Context

PAIR: Final = 2
_ENCODED: Final = frozenset(("base64", "image", "audio", "video"))
_ROLES: Final = frozenset(("user", "human", "assistant", "ai", "system", "developer", "tool"))
_ERRORS: Final = frozenset(("error", "errors"))
_OF_ERRORS: Final = frozenset(("code", "status", "message", "detail"))
_WRITTEN: Final = (None, "text", "output_text")
_DEEP: Final = 50
"""Maximum depth of nested containers to search for texts."""
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
    # Other blocks, such as a file, are no part of what the user or the model wrote.
    texts = (
        block.get("text") if isinstance(block, dict) and block.get("type") in _WRITTEN else block
        for block in blocks
    )
    return "".join(text for text in texts if isinstance(text, str))


def block_text(value: Any, depth: int = _DEEP) -> str:
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


def found_nothing(held: Any) -> bool:
    if not isinstance(held, dict):
        return False
    left = {key for key, value in held.items() if not _is_nothing(value)}
    if left & _ERRORS:
        return left <= _ERRORS | _OF_ERRORS
    return not left and any(isinstance(value, list | Mapping) for value in held.values())


def _is_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_nothing, value.values()))
    return not value if isinstance(value, list | str) else value in (None, 0, 1)


def texts_in(value: object, depth: int = _DEEP) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        value = json_in(value)
    if isinstance(value, dict | list | tuple) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_in(item, depth - 1)


def json_in(text: str) -> list[Any] | dict[str, Any] | None:
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return held if isinstance(held, list | dict) else None
