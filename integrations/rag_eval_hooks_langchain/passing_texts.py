"""Texts in what steps and tools put out, under any key and in any container."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.prompt_values import PromptValue

from rag_eval_hooks.capture.replies import as_json, found_nothing, json_in, main_part
from rag_eval_hooks.capture.rows import (
    block_text,
    is_message,
    lone_row,
    row_of,
    table_rows,
)
from rag_eval_hooks.capture.text_forms import is_distinctive_text
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain.structured import entries

__all__ = ["input_texts", "rows_in"]

_DEEP = 5
_WIDE = 1000
"""Levels of containers looked into, and entries of each."""
_SKIPPED = (Document, PromptValue, bytes, int, float, type(None))
Lists: TypeAlias = Iterator[tuple[Context, ...]]


def rows_in(value: Any, depth: int = _DEEP) -> Lists:
    """Yield the texts of a value that are long enough to be recognised, those of one list together.

    Args:
        value: A copy of any output. Documents and messages of models and users are left out.
        depth: Levels that are looked into.
    """
    if depth == 0 or isinstance(value, _SKIPPED):
        return
    if isinstance(value, str):
        yield from _in_text(value)
    elif isinstance(value, BaseMessage):
        yield from rows_in(_content_of(value), depth - 1)
    elif isinstance(value, list | tuple):
        yield from _in_list(value, depth)
    else:
        yield from _in_object(value, depth)


def _content_of(message: BaseMessage) -> Any:
    """Return the content of a tool's message, unless it failed; None for other messages."""
    is_tool = isinstance(message, ToolMessage) and message.status != "error"
    return message.content if is_tool else None


def _in_object(value: Any, depth: int) -> Lists:
    if isinstance(value, Context):
        yield (value,)
    elif (lone := lone_row(value)) is not None:
        yield lone
    elif (held := entries(value)) is not None and not is_message(held):
        yield from _in_values(held, depth)


def _in_values(held: Mapping[str, Any], depth: int) -> Lists:
    for item in islice(held.values(), _WIDE):
        yield from rows_in(item, depth - 1)


def _in_text(text: str) -> Lists:
    held = json_in(text)
    if found_nothing(held):
        return
    found: list[tuple[Context, ...]] = []
    if isinstance(held, list):
        found = list(_in_list(held, _DEEP, as_json))
    elif held is not None and lone_row(held) is None:
        found = list(_in_object(main_part(held), _DEEP))
    if found:
        yield from found
    elif is_distinctive_text(text):
        yield (Context(text=text),)


def _in_list(
    items: Sequence[Any],
    depth: int,
    write: Callable[[Any], str] = repr,
) -> Lists:
    items = items[:_WIDE]
    if items and isinstance(items[0], int | float):
        return
    rows = [_row(item) for item in items]
    found = tuple(row for row in rows if row is not None and is_distinctive_text(row.text))
    is_table = 2 * len(found) < len(items) and not isinstance(items[0], BaseMessage | Document)
    table = table_rows(items, write) if is_table else None
    if found and table is None:
        yield found
    elif table is not None:
        yield table
    for item, row in zip(items, rows, strict=True):
        if row is None and not isinstance(item, str):
            if table is None:
                yield from rows_in(item, depth - 1)
            else:
                yield from _in_values(entries(item) or {}, depth - 1)


def _row(item: Any) -> Context | None:
    """Return an item of a list with its main text: under a usual name, else the longest."""
    if isinstance(item, Context):
        return item
    if isinstance(item, str):
        return Context(text=item)
    if isinstance(item, BaseMessage | Document | list | tuple):
        return None
    held = entries(item)
    return None if held is None else row_of(held)


def input_texts(value: Any, depth: int = _DEEP) -> Iterator[str]:
    """Yield every text in the input of an outermost run, with those of messages."""
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, PromptValue):
        value = value.to_messages()
    items: Iterable[Any] = ()
    if isinstance(value, BaseMessage):
        items = [block_text(value.content)]
    elif isinstance(value, list | tuple):
        items = value[:_WIDE]
    elif not isinstance(value, Document) and (held := entries(value)) is not None:
        items = islice(held.values(), _WIDE)
    for item in items if depth else ():
        yield from input_texts(item, depth - 1)
