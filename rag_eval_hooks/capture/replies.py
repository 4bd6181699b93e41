"""Replies of tools and interfaces as JSON holds them, and what in them was found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rag_eval_hooks.capture.rows import LONG_TEXT, row_of
from rag_eval_hooks.context import READABLE_MAPPING

__all__ = ["as_json", "found_nothing", "json_in", "main_part", "mapping_in", "texts_in"]

_ERRORS = frozenset(("error", "errors"))
_OF_ERRORS = frozenset(("code", "status", "message", "detail"))
"""Names in a reply of a failure."""
_DEEP = 50
"""Levels of containers looked into."""


def found_nothing(held: Any) -> bool:
    """Return whether a reply, as JSON holds it, is but a failure or an empty page."""
    if not isinstance(held, READABLE_MAPPING):
        return False
    left = {key for key, value in held.items() if not _is_nothing(value)}
    if left & _ERRORS:
        return left <= _ERRORS | _OF_ERRORS
    return not left and any(isinstance(value, list | Mapping) for value in held.values())


def _is_nothing(value: Any) -> bool:
    """Return whether a value is empty, or the number of an empty page."""
    if isinstance(value, READABLE_MAPPING):
        return all(map(_is_nothing, value.values()))
    if isinstance(value, list | str):
        return not value
    return value is None or (isinstance(value, int) and value in (0, 1))


def main_part(held: Any) -> Any:
    """Return a reply, as JSON holds it, without the counts and pages beside its documents."""
    if not isinstance(held, READABLE_MAPPING) or not _holds_documents(held):
        return held
    kept = (key for key, value in held.items() if not isinstance(value, READABLE_MAPPING))
    deep = (key for key, value in held.items() if isinstance(value, READABLE_MAPPING))
    parts = {key: main_part(held[key]) for key in deep if _holds_documents(held[key])}
    return {key: held[key] for key in kept} | parts


def _holds_documents(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) >= LONG_TEXT
    if isinstance(value, READABLE_MAPPING):
        return any(map(_holds_documents, value.values()))
    return isinstance(value, list) and any(_is_hit(v) or _holds_documents(v) for v in value)


def _is_hit(item: Any) -> bool:
    return isinstance(item, READABLE_MAPPING) and row_of(item) is not None


def texts_in(value: object, depth: int = _DEEP) -> Iterator[str]:
    """Yield every text in a value, those in JSON too."""
    if isinstance(value, str):
        yield value
        value = json_in(value)
    if isinstance(value, (*READABLE_MAPPING, list, tuple)) and depth:
        for item in value.values() if isinstance(value, READABLE_MAPPING) else value:
            yield from texts_in(item, depth - 1)


def json_in(text: str) -> list[Any] | dict[str, Any] | None:
    """Return the list or object that a text of JSON holds; None for other texts."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return held if isinstance(held, list | dict) else None


def mapping_in(value: object) -> dict[str, Any] | None:
    """Return a mapping as JSON holds it; None for other values, and for what JSON cannot hold."""
    try:
        return json.loads(json.dumps(value)) if isinstance(value, READABLE_MAPPING) else None
    except (TypeError, ValueError, RecursionError):
        return None


def as_json(value: Any) -> str:
    """Return a value as JSON, with its letters as they are."""
    return json.dumps(value, ensure_ascii=False)
