"""Rows, of hits with a main text and of tables with short values, and records by themselves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from math import inf, isinf
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from rag_eval_hooks.capture.copied import FRAMEWORK, block_text, is_message
from rag_eval_hooks.capture.snapshots import Record
from rag_eval_hooks.capture.text_forms import is_distinctive, is_distinctive_text, width
from rag_eval_hooks.context import READABLE_MAPPING, contexts_of, scalars, score_in
from rag_eval_hooks.sample import Context

__all__ = [
    "LONG_TEXT",
    "lone_row",
    "row_of",
    "table_rows",
]

_TEXT_KEYS = ("page_content", "text", "content", "body", "snippet")
_ID_KEYS = ("id", "_id", "doc_id", "chunk_id", "key", "url", "source")
_WIDE = 1000
"""Items of a list that are read."""
_BROAD = 50
"""Values of a sequence that are looked at."""
_SCALARS = (str, int, float, Decimal, date, time, timedelta, UUID, type(None))
_LEVELS = 8
"""Levels of a record."""
LONG_TEXT = 40
"""Characters of a text that is more than a value of a record."""
_MARKS = 6
"""Quotes, colon and comma of an entry, or a number."""


def row_of(held: Mapping[str, Any]) -> Context | None:
    """Return a row with its main text, under a usual name or else the longest; None without one.

    A message is none.

    Args:
        held: Its values by name.
    """
    if is_message(held):
        return None
    if isinstance(held.get("page_content"), str):
        return contexts_of({"text": held["page_content"], **held})[0]
    texts = {key: text for key in held if (text := block_text(held[key]))}
    usual = next((texts[key] for key in _TEXT_KEYS if key in texts), None)
    inner = (
        more
        for item in held.values()
        if isinstance(item, READABLE_MAPPING)
        for more in item.values()
    )
    text = usual or max((*texts.values(), *filter(_is_text, inner)), key=len, default="")
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
    return isinstance(value, list | tuple) and any(
        isinstance(v, READABLE_MAPPING) for v in value[:1]
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _written(value: Any, depth: int = 3) -> int:
    """Return about how many characters the short values of a row take, as it is written."""
    if isinstance(value, str):
        return width(value)
    if isinstance(value, READABLE_MAPPING) and depth:
        names = sum(len(key) if isinstance(key, str) else _MARKS for key in value)
        return names + sum(_MARKS + _written(part, depth - 1) for part in value.values())
    return _MARKS


def table_rows(
    items: Sequence[Any], write: Callable[[Any], str] = repr
) -> tuple[Context, ...] | None:
    """Return the rows of a table with short values as they are written, or None for other lists.

    Args:
        items: Mappings, objects with fields, or rows as databases give them.
        write: Writes a row; rows too short to be recognised are written as one text.
    """
    items = list(map(_shown, items[:_WIDE]))
    rows = [_values(item) for item in items]
    values = [row for row in rows if row is not None]
    if not values or len(values) < len(rows):
        return None
    try:
        written = [write(item) for item in items]
    except Exception:  # noqa: BLE001 - the host's edge: objects of an application write themselves
        return None
    if 2 * sum(map(_longest_text, values)) >= sum(map(len, written)):
        return None
    if not all(map(is_distinctive, written)):
        return (Context(text=write(items)),)
    held = [
        scalars(item) if isinstance(item, READABLE_MAPPING) else {} for item in map(_fields, items)
    ]
    return tuple(Context(text=t, metadata=m) for t, m in zip(written, held, strict=True))


def lone_row(item: Any) -> tuple[Context, ...] | None:
    """Return a record outside of a list as one context, with all that is nested in it.

    None for values that mostly hold texts or hits, and for objects of frameworks.
    """
    item = _shown(item)
    held = _fields(item)
    if not isinstance(held, READABLE_MAPPING) or row_of(held) is not None:
        return None
    apart = _apart(item, set())
    written = "" if isinf(apart) else _repr(item)
    if not is_distinctive(written) or 2 * apart >= len(written):
        return None
    return (Context(text=written, metadata=scalars(held)),)


def _apart(value: Any, seen: set[int], depth: int = _LEVELS) -> float:
    """Return how many characters of a record are texts by themselves; infinity if it is none.

    Nothing in a record refers to what was seen before.
    """
    if isinstance(value, str):
        return len(value) if len(value) >= LONG_TEXT else 0
    if isinstance(value, _SCALARS):
        return 0
    parts = _parts(value) if depth and id(value) not in seen else None
    if parts is None:
        return inf
    if parts:
        seen.add(id(value))
    apart: float = 0
    for part in parts:
        apart += _apart(part, seen, depth - 1)
        if isinf(apart):
            return inf
    is_texts = isinstance(value, list | tuple) and any(map(_is_telling_item, parts))
    return len(_repr(value)) if is_texts else apart


def _parts(value: Any) -> Sequence[Any] | None:
    """Return the values of a record, or of a list in one; None for what is or holds documents."""
    held = _fields(value)
    if isinstance(held, READABLE_MAPPING):
        parts, most = list(held.values()), _WIDE
        # Documents and messages are objects that hold metadata.
        is_document = held is not value and any(
            isinstance(part, READABLE_MAPPING) for part in parts
        )
        is_document = is_document or is_message(held)
    elif isinstance(held, list | tuple):
        parts, most = list(held[: _BROAD + 1]), _BROAD
        is_document = any(map(_is_document, parts))
    else:
        return None
    return None if is_document or len(parts) > most else parts


def _is_document(item: Any) -> bool:
    """Return whether an item of a list is a long text or a hit."""
    if isinstance(item, str):
        return len(item) >= LONG_TEXT
    return isinstance(item, READABLE_MAPPING) and row_of(item) is not None


def _is_telling_item(item: Any) -> bool:
    return isinstance(item, str) and is_distinctive_text(item)


def _repr(item: Any) -> str:
    """Return an object of an application as it writes itself; "" where it cannot."""
    try:
        return repr(item)
    except Exception:  # noqa: BLE001 - the host's edge
        return ""


def _shown(item: Any) -> Any:
    """Return a row that does not show its values as a mapping, any other value as it is."""
    return dict(item) if isinstance(item, sqlite3.Row) else item


def _fields(item: Any) -> Any:
    """Return what an object shows of its fields as a mapping, any other value as it is."""
    if isinstance(item, Record):
        return {name: value for name, value in item.held.items() if name in item.shown}
    if isinstance(item, FRAMEWORK):
        return item
    if isinstance(item, BaseModel):
        known = type(item).model_fields.items()
        names = [name for name, field in known if field.repr and not field.exclude]
    elif is_dataclass(item) and not isinstance(item, type):
        names = [field.name for field in fields(item) if field.repr]
    else:
        return item
    return {name: getattr(item, name, None) for name in names}


def _values(item: Any) -> Sequence[Any] | None:
    """Return the values of a row; None for what is no row, such as a message."""
    held = _fields(item)
    if isinstance(held, READABLE_MAPPING):
        values = list(held.values())
        # Objects of frameworks hold others; vectors and lists of rows are no short values.
        is_record = held is item or all(isinstance(value, _SCALARS) for value in values)
        is_short = not any(map(_is_long, values))
        return values if is_record and is_short and not is_message(held) else None
    if not isinstance(held, list | tuple):
        return None
    texts = [value for value in held[:_BROAD] if isinstance(value, str)]
    return held if texts and not any(map(is_distinctive_text, texts)) else None


def _is_long(value: Any) -> bool:
    return isinstance(value, list | tuple) and (len(value) > _BROAD or _holds_rows(value))


def _longest_text(values: Sequence[Any]) -> int:
    return max((len(value) for value in values if isinstance(value, str)), default=0)
