"""Rows with a main text, tables of short values, and records, in copies of what steps put out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from math import inf
from typing import Any
from uuid import UUID

from rag_eval_hooks.capture.copied import block_text, is_message
from rag_eval_hooks.capture.snapshots import Record
from rag_eval_hooks.capture.text_forms import is_distinctive, is_distinctive_text, width
from rag_eval_hooks.context import contexts_of, scalars, score_in
from rag_eval_hooks.sample import Context

__all__ = ["LONG_TEXT", "lone_row", "row_of", "table_rows"]

_TEXT_KEYS = ("page_content", "text", "content", "body", "snippet")
_ID_KEYS = ("id", "_id", "doc_id", "chunk_id", "key", "url", "source")
_MAX_ITEMS = 1000
_MAX_VALUES = 50
"""Items of a list that is a value of a row or record."""
_SCALARS = (str, int, float, Decimal, date, time, timedelta, UUID, type(None))
_LEVELS = 8
LONG_TEXT = 40
"""Characters of a text that is more than a value of a record."""
_MARKS = 6
"""Quotes, colon and comma of an entry, or a number."""


def row_of(held: Mapping[str, Any]) -> Context | None:
    """Return a row with its main text, under a usual name or else the longest; None without one.

    A message is not a row.
    """
    if is_message(held):
        return None
    if isinstance(held.get("page_content"), str):
        return contexts_of({"text": held["page_content"], **held})[0]
    texts = {key: text for key in held if (text := block_text(held[key]))}
    usual = next((texts[key] for key in _TEXT_KEYS if key in texts), None)
    mappings = (item for item in held.values() if isinstance(item, dict))
    inner = (more for item in mappings for more in item.values() if isinstance(more, str))
    text = usual or max((*texts.values(), *inner), key=len, default="")
    if not is_distinctive_text(text):
        return None
    if usual is None and (2 * width(text) < _written(held) or any(map(_holds_rows, held.values()))):
        return None
    names = (held[key] for key in _ID_KEYS if isinstance(held.get(key), str | int))
    more = {k: v for k, v in scalars(held).items() if v != text and k not in ("id", "score")}
    name = next(names, None)
    metadata = {**scalars(held.get("metadata")), **more}
    return Context(
        text=text,
        id=None if name is None else str(name),
        score=score_in(held),
        metadata=metadata,
    )


def _holds_rows(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], dict)


def _written(value: Any, depth: int = 3) -> int:
    """Return about how many characters the short values of a row take, as it is written."""
    if isinstance(value, str):
        return width(value)
    if isinstance(value, dict) and depth:
        names = sum(len(key) if isinstance(key, str) else _MARKS for key in value)
        return names + sum(_MARKS + _written(part, depth - 1) for part in value.values())
    return _MARKS


def table_rows(
    items: Sequence[Any], write: Callable[[Any], str] = repr
) -> tuple[Context, ...] | None:
    """Return the rows of a table with short values as they are written, or None for other lists.

    Args:
        items: Mappings, records or sequences.
        write: Writes a row; rows too short to be recognized are written as one text.
    """
    items = items[:_MAX_ITEMS]
    rows = [_short_values(item) for item in items]
    values = [row for row in rows if row is not None]
    if not values or len(values) < len(rows):
        return None
    try:
        written = [write(item) for item in items]
    except (TypeError, ValueError):
        # A row holds an object that was not read, or a number too long to be written.
        return None
    if 2 * sum(map(_longest_text, values)) >= sum(map(len, written)):
        return None
    if not all(map(is_distinctive, written)):
        return (Context(text=write(items)),)
    return tuple(
        Context(text=text, metadata=scalars(_fields(item)))
        for text, item in zip(written, items, strict=True)
    )


def _short_values(item: Any) -> Sequence[Any] | None:
    held = _fields(item)
    if isinstance(held, dict):
        values = list(held.values())
        return None if is_message(held) or any(map(_is_long, values)) else values
    texts = [value for value in held or () if isinstance(value, str)]
    return held if texts and not any(map(is_distinctive_text, texts[:_MAX_VALUES])) else None


def _is_long(value: Any) -> bool:
    return isinstance(value, list | tuple) and (len(value) > _MAX_VALUES or _holds_rows(value))


def _longest_text(values: Sequence[Any]) -> int:
    return max((len(value) for value in values if isinstance(value, str)), default=0)


def lone_row(item: Any) -> tuple[Context, ...] | None:
    """Return a record outside of a list as one context, with all that is nested in it.

    None for values that mostly hold texts or hits, and for objects of frameworks.
    """
    held = _fields(item)
    if not isinstance(held, dict) or row_of(held) is not None:
        return None
    apart = _chars_apart(item, set(), _LEVELS)
    try:
        written = repr(item) if apart < inf else ""
    except ValueError:
        # It holds a number too long to be written.
        return None
    if not is_distinctive(written) or 2 * apart >= len(written):
        return None
    return (Context(text=written, metadata=scalars(held)),)


def _chars_apart(value: Any, seen: set[int], levels: int, *, in_list: bool = False) -> float:
    """Return how many characters of a record are texts by themselves; infinity for no record."""
    if isinstance(value, str):
        is_apart = is_distinctive_text(value) if in_list else len(value) >= LONG_TEXT
        return len(value) if is_apart else 0
    if isinstance(value, _SCALARS):
        return 0
    held = _fields(value)
    # Nothing in a record refers to what was seen before.
    if held is None or not levels or id(value) in seen or _holds_documents(held):
        return inf
    if held:
        seen.add(id(value))
    parts, is_list = (held.values(), False) if isinstance(held, dict) else (held, True)
    return sum(_chars_apart(part, seen, levels - 1, in_list=is_list) for part in parts)


def _holds_documents(held: Mapping[str, Any] | Sequence[Any]) -> bool:
    """Return whether a mapping is a message, or a list has long texts, hits or too many items."""
    if isinstance(held, dict):
        return is_message(held) or len(held) > _MAX_ITEMS
    return len(held) > _MAX_VALUES or any(map(_is_document, held))


def _is_document(item: Any) -> bool:
    if isinstance(item, str):
        return len(item) >= LONG_TEXT
    return isinstance(item, dict) and row_of(item) is not None


def _fields(item: Any) -> Any:
    """Return a mapping or list, or what a record shows of its fields; None for other values."""
    if isinstance(item, Record):
        return {name: value for name, value in item.held.items() if name in item.shown}
    return item if isinstance(item, dict | list | tuple) else None
