"""Texts, rows of tables and records in copies of what tools and steps put out, JSON included."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from math import inf
from typing import Any, TypeAlias
from uuid import UUID

from rag_eval_hooks.capture.copied import Message, block_text, entries, is_message
from rag_eval_hooks.capture.snapshots import Record
from rag_eval_hooks.capture.text_forms import is_distinctive, is_distinctive_text, width
from rag_eval_hooks.context import contexts_of, scalars, score_in
from rag_eval_hooks.sample import Context

__all__ = ["found_nothing", "is_record", "mapping_in", "rows_in", "texts_in"]

_TEXT_KEYS = ("page_content", "text", "content", "body", "snippet")
_ID_KEYS = ("id", "_id", "doc_id", "chunk_id", "key", "url", "source")
_ERRORS = frozenset(("error", "errors"))
_OF_ERRORS = frozenset(("code", "status", "message", "detail"))
"""Names in a reply of a failure."""
_SCALARS = (str, int, float, Decimal, date, time, timedelta, UUID, type(None))
_LONG_TEXT = 40
"""Characters of a text that is more than a value of a record."""
_MARKS = 6
"""Quotes, colon and comma of an entry, or a number."""
_LEVELS = 5
_RECORD_LEVELS = 8
_DEEP = 50
"""Levels of containers looked into for all texts."""
_MAX_ITEMS = 1000
_MAX_VALUES = 50
"""Items of a list that is a value of a row or record."""
Rows: TypeAlias = Iterator[tuple[Context, ...]]
Write: TypeAlias = Callable[[Any], str]


def rows_in(value: Any, depth: int = _LEVELS) -> Rows:
    """Yield the texts of a copy that are long enough to be recognized, one list at a time.

    Prompts and messages of models and users do not count. Of a record, with all that is nested in
    it, the whole is one text; beside lists of texts, records are counts and pages.
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
    elif (record := _record(value)) is not None:
        yield (record,)
    elif (held := entries(value)) is not None and not is_message(held):
        yield from _in_values(held, depth - 1)


def _in_values(held: Mapping[str, Any], depth: int) -> Rows:
    parts = list(held.values())[:_MAX_ITEMS]
    records = [record for part in parts if (record := _record(part)) is not None]
    found = [rows for part in parts if not is_record(part) for rows in rows_in(part, depth)]
    yield from found or [(record,) for record in records]


def _in_text(text: str) -> Rows:
    held = _json_in(text)
    if found_nothing(held):
        return
    found: list[tuple[Context, ...]] = []
    if isinstance(held, list):
        found = list(_in_list(held, _LEVELS, _as_json))
    elif held is not None and not is_record(held):
        found = list(rows_in(held))
    if found:
        yield from found
    elif is_distinctive_text(text):
        yield (Context(text=text),)


def _in_list(items: Sequence[Any], depth: int, write: Write = repr) -> Rows:
    items = items[:_MAX_ITEMS]
    if items and isinstance(items[0], int | float):
        return
    rows = list(map(_row, items))
    found = tuple(row for row in rows if row is not None and is_distinctive_text(row.text))
    table = _table(items, write) if 2 * len(found) < len(items) else None
    if table or found:
        yield table or found
    for item, row in zip(items, rows, strict=True):
        if row is None and not isinstance(item, Context):
            inner = entries(item) if table is not None else None
            yield from rows_in(item, depth - 1) if inner is None else _in_values(inner, depth - 1)


def _row(item: Any) -> Context | None:
    """Return a row with its main text, under a usual name or else the longest; None without one.

    A message is not a row.
    """
    if isinstance(item, str):
        return Context(text=item)
    held = entries(item)
    if held is None or is_message(held):
        return None
    if isinstance(held.get("page_content"), str):
        return contexts_of({"text": held["page_content"], **held})[0]
    texts = {key: text for key in held if (text := block_text(held[key]))}
    usual = next((texts[key] for key in _TEXT_KEYS if key in texts), None)
    mappings = (part for part in held.values() if isinstance(part, dict))
    inner = (more for part in mappings for more in part.values() if isinstance(more, str))
    text = usual or max((*texts.values(), *inner), key=len, default="")
    is_main = 2 * width(text) >= _written_width(held) and not any(map(_holds_rows, held.values()))
    if not is_distinctive_text(text) or not (usual or is_main):
        return None
    name = next((held[key] for key in _ID_KEYS if isinstance(held.get(key), str | int)), None)
    more = {k: v for k, v in scalars(held).items() if v != text and k not in ("id", "score")}
    return Context(
        text=text,
        id=None if name is None else str(name),
        score=score_in(held),
        metadata={**scalars(held.get("metadata")), **more},
    )


def _holds_rows(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], dict)


def _written_width(value: Any, depth: int = 3) -> int:
    """Return about how wide the short values of a row are, as it is written."""
    if isinstance(value, str):
        return width(value)
    if isinstance(value, dict) and depth:
        names = sum(len(key) if isinstance(key, str) else _MARKS for key in value)
        return names + sum(_MARKS + _written_width(part, depth - 1) for part in value.values())
    return _MARKS


def _table(items: Sequence[Any], write: Write) -> tuple[Context, ...] | None:
    """Return the rows of a table with short values as they are written, or None for other lists.

    Rows too short to be recognized are written as one text.
    """
    written = [_written(item, write, is_row=True) for item in items]
    texts = [text for text in written if text is not None]
    if len(texts) < len(items):
        return None
    if not all(map(is_distinctive, texts)):
        return (Context(text=write(items)),)
    return tuple(
        Context(text=text, metadata=scalars(_fields(item)))
        for text, item in zip(texts, items, strict=True)
    )


def is_record(item: Any) -> bool:
    """Return whether a value outside of a list is a record, and one context with all in it."""
    return _record(item) is not None


def _record(item: Any) -> Context | None:
    """Return a record as it is written; None for what mostly holds texts, hits or other objects."""
    held = _fields(item)
    if not isinstance(held, dict) or _row(held) is not None:
        return None
    text = _written(item, repr)
    return Context(text=text, metadata=scalars(held)) if text and is_distinctive(text) else None


def _written(item: Any, write: Write, *, is_row: bool = False) -> str | None:
    """Return a row or record as it is written, if less than half of it is long texts."""
    apart = _chars_apart(item, set(), _RECORD_LEVELS, is_row=is_row)
    try:
        text = write(item) if apart < inf else ""
    except (TypeError, ValueError):
        # It holds an object that was not read, or a number too long to be written.
        return None
    return text if 2 * apart < len(text) else None


def _chars_apart(value: Any, seen: set[int], levels: int, *, is_row: bool = False) -> float:
    """Return how many characters of a record are texts by themselves; infinity for no record."""
    if isinstance(value, _SCALARS):
        if is_row:
            return inf
        return len(value) if isinstance(value, str) and len(value) >= _LONG_TEXT else 0
    held = _fields(value)
    # No record refers to an earlier one.
    if held is None or not levels or id(value) in seen or _holds_texts(held, is_row=is_row):
        return inf
    if held:
        seen.add(id(value))
    parts = held.values() if isinstance(held, dict) else held
    return sum(_chars_apart(part, seen, levels - 1) for part in parts)


def _holds_texts(held: Mapping[str, Any] | Sequence[Any], *, is_row: bool) -> bool:
    """Return whether a mapping is a message, or a list has long texts, hits or too many items."""
    if isinstance(held, dict):
        return is_message(held) or len(held) > _MAX_ITEMS
    texts = [item for item in list(held)[: _MAX_VALUES + 1] if isinstance(item, str)]
    if is_row:
        return not texts or any(map(is_distinctive_text, texts))
    hits = (item for item in held if isinstance(item, dict))
    return len(held) > _MAX_VALUES or any(map(is_distinctive_text, texts)) or any(map(_row, hits))


def _fields(item: Any) -> Any:
    """Return a mapping or list, or what a record shows of its fields; None for other values."""
    if isinstance(item, Record):
        return {name: value for name, value in item.held.items() if name in item.shown}
    return item if isinstance(item, dict | list | tuple) else None


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


def texts_in(value: object, depth: int = _DEEP) -> Iterator[str]:
    """Yield every text in a value, those in JSON too."""
    if isinstance(value, str):
        yield value
        value = _json_in(value)
    if isinstance(value, dict | list | tuple) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_in(item, depth - 1)


def _json_in(text: str) -> list[Any] | dict[str, Any] | None:
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
