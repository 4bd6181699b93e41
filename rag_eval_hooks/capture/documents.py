"""Finds documents in copies of runs' inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from rag_eval_hooks.capture.copied import PAIR, Message, entries, is_message, state_update
from rag_eval_hooks.capture.rows import rows_in
from rag_eval_hooks.context import contexts_of
from rag_eval_hooks.sample import Context

DOCUMENT_KEYS: Final = (
    *("documents", "docs", "context", "contexts"),
    *("retrieved_documents", "retrieved_docs", "source_documents"),
)
_LEVELS: Final = 4
_MAX_ITEMS: Final = 1000

Lists: TypeAlias = list[tuple[Context, ...]]


def documents_in(
    value: Any, given: Any = None, *, keys: Collection[str] = DOCUMENT_KEYS, artifacts: bool = True
) -> Lists:
    """Return the lists of documents in a value, in order.

    Skip documents that the input `given` already contains. A list under a key in `keys` counts
    even if it is empty, or contains texts or mappings. With `artifacts`, search tool artifacts.
    """
    return list(_ListSearch(keys, artifacts).lists_in(value, given, _LEVELS))


def given_documents(value: Any) -> Lists:
    if found := documents_in(value, artifacts=False):
        return found
    tables = (table for key, table in (entries(value) or {}).items() if key in DOCUMENT_KEYS)
    rows = (table for table in tables if isinstance(table, list) and table)
    return [found for table in rows if isinstance(table[0], dict) for found in rows_in(table)]


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
        elif not (isinstance(first, Message) and depth == _LEVELS):
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
    return _contexts(kept) if are_known and (kept or not items) else None


def _contexts(items: Sequence[Any]) -> tuple[Context, ...] | None:
    if any(isinstance(one, dict) and is_message(one) for one in items):
        return None
    several = (one if isinstance(one, list) else [one] for one in items)
    try:
        return tuple(context for one in several for context in contexts_of(one))
    except TypeError:
        return None
