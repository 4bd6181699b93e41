"""Reads the texts, rows and records in what tools and steps put out, JSON included."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rag_eval_hooks.capture.copied import Message, entries, is_message
from rag_eval_hooks.capture.rows import LONG_TEXT, lone_row, row_of, table_rows
from rag_eval_hooks.capture.text_forms import is_distinctive_text
from rag_eval_hooks.sample import Context

__all__ = ["found_nothing", "json_in", "main_part", "mapping_in", "rows_in", "texts_in"]

_ERRORS = frozenset(("error", "errors"))
_OF_ERRORS = frozenset(("code", "status", "message", "detail"))
"""Names in a reply of a failure."""
_DEEP = 50
"""Levels of containers looked into for all texts."""
_LEVELS = 5
_MAX_ITEMS = 1000
Rows = Iterator[tuple[Context, ...]]


def rows_in(value: Any, depth: int = _LEVELS) -> Rows:
    """Yield the texts of a copy that are long enough to be recognized, one list at a time.

    Prompts and messages of models and users do not count.

    Args:
        value: A copy of what a tool or step gave out.
        depth: Levels of containers to look into.
    """
    if isinstance(value, Message):
        value = value.content if value.role == "tool" and not value.failed else None
    if not depth:
        return
    if isinstance(value, str):
        yield from _in_text(value)
    elif isinstance(value, list | tuple):
        yield from _in_list(value, depth)
    elif isinstance(value, Context):
        yield (value,)
    elif (lone := lone_row(value)) is not None:
        yield lone
    elif (held := entries(value)) is not None and not is_message(held):
        yield from _in_values(held, depth)


def _in_values(held: Mapping[str, Any], depth: int) -> Rows:
    for item in list(held.values())[:_MAX_ITEMS]:
        yield from rows_in(item, depth - 1)


def _in_text(text: str) -> Rows:
    held = json_in(text)
    if found_nothing(held):
        return
    found: list[tuple[Context, ...]] = []
    if isinstance(held, list):
        found = list(_in_list(held, _LEVELS, _as_json))
    elif held is not None and lone_row(held) is None:
        found = list(rows_in(main_part(held)))
    if found:
        yield from found
    elif is_distinctive_text(text):
        yield (Context(text=text),)


def _in_list(items: Sequence[Any], depth: int, write: Callable[[Any], str] = repr) -> Rows:
    items = items[:_MAX_ITEMS]
    if items and isinstance(items[0], int | float):
        return
    rows = list(map(_row, items))
    found = tuple(row for row in rows if row is not None and is_distinctive_text(row.text))
    is_table = 2 * len(found) < len(items) and not isinstance(items[0], Message | Context)
    table = table_rows(items, write) if is_table else None
    if table or found:
        yield table or found
    for item, row in zip(items, rows, strict=True):
        if row is None and not isinstance(item, Context):
            yield from (
                rows_in(item, depth - 1)
                if table is None
                else _in_values(entries(item) or {}, depth - 1)
            )


def _row(item: Any) -> Context | None:
    """Return an item of a list with its main text: under a usual name, else the longest."""
    if isinstance(item, str):
        return Context(text=item)
    held = entries(item)
    return None if held is None else row_of(held)


def found_nothing(held: Any) -> bool:
    """Return whether a reply in JSON is only a failure or an empty page."""
    if not isinstance(held, dict):
        return False
    left = {key for key, value in held.items() if not _is_nothing(value)}
    if left & _ERRORS:
        return left <= _ERRORS | _OF_ERRORS
    return not left and any(isinstance(value, list | Mapping) for value in held.values())


def _is_nothing(value: Any) -> bool:
    """Return whether a value is empty, or the number of an empty page."""
    if isinstance(value, dict):
        return all(map(_is_nothing, value.values()))
    if isinstance(value, list | str):
        return not value
    return value is None or (isinstance(value, int) and value in (0, 1))


def main_part(held: Any) -> Any:
    """Return a reply, as JSON holds it, without the counts and pages beside its documents."""
    if not isinstance(held, dict) or not _holds_documents(held):
        return held
    parts = {key: value for key, value in held.items() if not isinstance(value, dict)}
    deep = (key for key, value in held.items() if isinstance(value, dict))
    return parts | {key: main_part(held[key]) for key in deep if _holds_documents(held[key])}


def _holds_documents(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) >= LONG_TEXT
    if isinstance(value, dict):
        return any(map(_holds_documents, value.values()))
    return isinstance(value, list) and any(_is_hit(v) or _holds_documents(v) for v in value)


def _is_hit(item: Any) -> bool:
    return isinstance(item, dict) and row_of(item) is not None


def texts_in(value: object, depth: int = _DEEP) -> Iterator[str]:
    """Yield every text in a value, those in JSON too."""
    if isinstance(value, str):
        yield value
        value = json_in(value)
    if isinstance(value, dict | list | tuple) and depth:
        for item in value.values() if isinstance(value, dict) else value:
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
        return json.loads(json.dumps(value)) if isinstance(value, dict) else None
    except (TypeError, ValueError, RecursionError):
        return None


def _as_json(value: Any) -> str:
    """Return a value as JSON, with its letters as they are."""
    return json.dumps(value, ensure_ascii=False)
