"""Finds documents, texts, table rows and records in the copied inputs and outputs of runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from rag_eval_hooks.capture.copied import (
    PAIR,
    Message,
    block_text,
    entries,
    found_nothing,
    is_message,
    json_in,
    state_update,
)
from rag_eval_hooks.capture.snapshots import Record
from rag_eval_hooks.capture.text_forms import is_distinctive, is_distinctive_text, width
from rag_eval_hooks.context import contexts_of, scalars, score_in
from rag_eval_hooks.sample import Context

DOCUMENT_KEYS: Final = (
    *("documents", "docs", "context", "contexts"),
    *("retrieved_documents", "retrieved_docs", "source_documents"),
)
_LIST_LEVELS: Final = 4
_TEXT_KEYS = ("page_content", "text", "content", "body", "snippet")
_ID_KEYS = ("id", "_id", "doc_id", "chunk_id", "key", "url", "source")
_SCALARS = (int, float, Decimal, date, time, timedelta, UUID, type(None))
_LONG_TEXT = 40
"""Minimum width of a separate text. A shorter text is a field of a record."""
_PASSAGE_ID = re.compile(
    r"(?:[a-z]|doc(?:ument)?|chunk|node|id|passage|source|hit)?[\W_]{0,3}\d[\w-]*", re.I
)
_MARKS = 6
_LEVELS = 8
_MAX_ITEMS = 1000
Lists: TypeAlias = list[tuple[Context, ...]]
Rows: TypeAlias = Iterator[tuple[Context, ...]]
Write: TypeAlias = Callable[[Any], str]


def documents_in(
    value: Any, given: Any = None, *, keys: Collection[str] = DOCUMENT_KEYS, artifacts: bool = True
) -> Lists:
    """Return the lists of documents in `value`. Skip values that are also in `given`.

    If the key of a list is in `keys`, the list may also be empty, or contain texts or mappings.
    """
    return list(_ListSearch(keys, artifacts).lists_in(value, given, _LIST_LEVELS))


def holds_documents(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and _document(value[0]) is not None


def contexts_in(value: Any) -> tuple[Context, ...] | None:
    is_list = isinstance(value, list | tuple) and _document(value) is None
    contexts = _contexts(value[:_MAX_ITEMS] if is_list else [value])
    if contexts is None:
        contexts = tuple(row for rows in rows_in(value) for row in rows) or None
    return contexts


class _ListSearch(NamedTuple):
    keys: Collection[str]
    artifacts: bool

    def lists_in(self, value: Any, given: Any, depth: int) -> Iterator[tuple[Context, ...]]:
        if depth == 0 or value is given:
            return
        if isinstance(value, list | tuple):
            listed = given if isinstance(given, list | tuple) else ()
            yield from self._in_list(value[:_MAX_ITEMS], listed, depth)
        elif isinstance(value, Message):
            artifact = value.artifact if self.artifacts else None
            empty = isinstance(artifact, list | tuple) and not artifact
            yield from [()] if empty else self.lists_in(artifact, None, depth - 1)
        elif (held := entries(state_update(value))) is not None:
            before = entries(given) or {}
            for key, item in list(held.items())[:_MAX_ITEMS]:
                is_named = key in self.keys and item is not before.get(key)
                if is_named and (contexts := _under_key(item)) is not None:
                    yield contexts
                else:
                    yield from self.lists_in(item, before.get(key), depth - 1)

    def _in_list(
        self, items: Sequence[Any], before: Sequence[Any], depth: int
    ) -> Iterator[tuple[Context, ...]]:
        first = next((item for item in items if item is not None), None)
        ids = list(map(id, before))
        if first is None and holds_documents(before):
            # The step received documents and returned an empty list.
            yield ()
        elif _document(first) is not None:
            if list(map(id, items)) != ids:
                yield tuple(filter(None, map(_document, items)))
        elif not (isinstance(first, Message) and depth == _LIST_LEVELS):
            # Skip a bare list of messages, because prompts repeat artifacts of earlier turns.
            known = set(ids)
            for item in items:
                if id(item) not in known:
                    yield from self.lists_in(item, None, depth - 1)


def _document(item: Any) -> Context | None:
    is_pair = isinstance(item, tuple) and len(item) == PAIR and isinstance(item[0], Context)
    return Context.of(item) if is_pair or isinstance(item, Context) else None


def _under_key(value: Any) -> tuple[Context, ...] | None:
    items = [value] if isinstance(value, Context) else value
    if not isinstance(items, list | tuple):
        return None
    kept = [one for one in items if one is not None]
    # A pair such as (title, text) contains no document.
    are_known = all(isinstance(one, str | dict) or _document(one) is not None for one in kept)
    return contexts_in(kept) if are_known and (kept or not items) else None


def _contexts(items: Sequence[Any]) -> tuple[Context, ...] | None:
    if any(isinstance(one, dict) and is_message(one) for one in items):
        return None
    several = (one if isinstance(one, list) else [one] for one in items)
    try:
        return tuple(context for one in several for context in contexts_of(one))
    except TypeError:
        return None


def rows_in(value: Any, depth: int = _LEVELS) -> Rows:
    """Yield the texts in a value, as lists. Skip texts that are too short to find in a prompt."""
    if isinstance(value, Message):
        value = value.content if value.role == "tool" and not value.failed else None
    if isinstance(value, str):
        yield from _in_text(value)
    elif isinstance(value, Context):
        yield (value,)
    elif not depth or is_message(value):
        return
    elif isinstance(value, list | tuple):
        yield from _in_list(value, depth)
    elif (held := entries(value)) is not None:
        record = record_in(value)
        yield from _in_values(held, depth - 1) if record is None else [(record,)]


def _in_values(held: Mapping[str, Any], depth: int) -> Rows:
    values = list(held.values())[:_MAX_ITEMS]
    are_ids = len(held) > 1 and all(_PASSAGE_ID.fullmatch(str(key)) for key in held)
    if are_ids and all(isinstance(one, str) and is_distinctive_text(one) for one in values):
        yield tuple(Context(text=text, id=str(key)) for key, text in held.items())[:_MAX_ITEMS]
        return
    parts = [(part, record_in(part)) for part in values]
    found = [rows for part, record in parts if record is None for rows in rows_in(part, depth)]
    yield from found or [(record,) for _, record in parts if record is not None]


def _in_text(text: str) -> Rows:
    held = json_in(text)
    if found_nothing(held):
        return
    if isinstance(held, list):
        found = list(_in_list(held, _LEVELS, partial(json.dumps, ensure_ascii=False)))
    else:
        found = [] if record_in(held) else list(rows_in(held))
    yield from found or ([(Context(text=text),)] if is_distinctive_text(text) else ())


def _in_list(items: Sequence[Any], depth: int, write: Write = repr) -> Rows:
    items = items[:_MAX_ITEMS]
    rows = list(map(_passage, items))
    found = tuple(row for row in rows if row and is_distinctive_text(row.text))
    if 2 * len(found) < len(items) and (table := _table(items, write)):
        yield table
        return
    if found:
        yield found
    for item, row in zip(items, rows, strict=True):
        if row is None and not isinstance(item, Context):
            yield from rows_in(item, depth - 1)


def _passage(item: Any) -> Context | None:
    if isinstance(item, str):
        return Context(text=item)
    if is_message(item):
        return None
    if (held := entries(item)) is None:
        return _row(item) if isinstance(item, list | tuple) else None
    text = _usual_text(held) or _main_text(held)
    if not is_distinctive_text(text):
        return None
    name = next((held[key] for key in _ID_KEYS if isinstance(held.get(key), str | int)), None)
    more = {k: v for k, v in scalars(held).items() if v != text and k not in ("id", "score")}
    return Context(
        text=text,
        id=None if name is None else str(name),
        score=score_in(held),
        metadata={**scalars(held.get("metadata")), **more},
    )


def _row(cells: Sequence[Any]) -> Context | None:
    # A row is, for example, (text, score), (record, score) or (id, text, page).
    numbers = [float(cell) for cell in cells if isinstance(cell, float)]
    score = numbers[0] if len(numbers) == 1 else None
    records = list(filter(None, map(entries, cells)))
    texts = [cell for cell in cells if isinstance(cell, str)]
    if len(cells) == PAIR and len(records) == 1 and not texts:
        record = _passage(records[0])
        return record and replace(record, score=record.score if score is None else score)
    text, *others = sorted(texts, key=width, reverse=True) or [""]
    if len(cells) < PAIR or 2 * width(text) < _widths(cells)[0]:
        return None
    # A second long text is another passage, except for an address.
    long = (one for one in others if width(one) >= _LONG_TEXT)
    if not is_distinctive_text(text) or any(" " in one or not one.isascii() for one in long):
        return None
    return Context(text=text, score=score, metadata=scalars(next(iter(records), None)))


def _usual_text(held: Mapping[str, Any]) -> str:
    return next(filter(None, (block_text(held[key]) for key in _TEXT_KEYS if key in held)), "")


def _main_text(held: Mapping[str, Any]) -> str:
    if any(isinstance(v, list | tuple) and v and isinstance(v[0], dict) for v in held.values()):
        return ""
    mappings = (part for part in held.values() if isinstance(part, dict))
    inner = (more for part in mappings for more in part.values() if isinstance(more, str))
    longest = max((*map(block_text, held.values()), *inner), key=len, default="")
    return longest if 2 * width(longest) >= _widths(held)[0] else ""


def _table(items: Sequence[Any], write: Write) -> tuple[Context, ...]:
    fields = list(map(_fields, items))
    # An item without text, such as a vector, is not a row.
    if not all(f is not None and any(isinstance(v, str) for v in f) for f in fields):
        return ()
    texts = [text for item in items if (text := _written(item, write))]
    if len(texts) < len(items):
        return ()
    if not all(map(is_distinctive, texts)):
        return (Context(text=write(items)),)
    rows = zip(texts, fields, strict=True)
    return tuple(Context(text=text, metadata=scalars(held)) for text, held in rows)


def record_in(item: Any) -> Context | None:
    held = _fields(item)
    text = _written(item, repr) if isinstance(held, dict) else None
    return Context(text=text, metadata=scalars(held)) if text and is_distinctive(text) else None


def _written(item: Any, write: Write) -> str | None:
    whole, long = _widths(item)
    if not whole or 2 * long >= whole:
        return None
    try:
        return write(item)
    except (TypeError, ValueError, RecursionError):
        # The value contains an unread object, or an integer with too many digits.
        return None


def _widths(value: Any, levels: int = _LEVELS) -> tuple[float, float]:
    if isinstance(value, str):
        size = width(value)
        return size + _MARKS, size if size >= _LONG_TEXT else 0
    if isinstance(value, _SCALARS):
        return _MARKS, 0
    held = _fields(value)
    named = held if isinstance(held, dict) else {}
    if held is None or not levels or is_message(named) or is_distinctive_text(_usual_text(named)):
        return _MARKS, inf
    widths = [_widths(part, levels - 1) for part in (named.values() or held)]
    keys = sum(len(str(key)) for key in named)
    return keys + sum(whole for whole, _ in widths), sum(long for _, long in widths)


def _fields(item: Any) -> Any:
    if isinstance(item, Record):
        return {name: value for name, value in item.held.items() if name in item.shown}
    return item if isinstance(item, dict | list | tuple) else None
