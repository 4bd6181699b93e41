"""Texts in what steps and tools put out, under any key and in any container."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.prompt_values import PromptValue

from rag_eval_hooks.capture.contexts.text_forms import is_telling, is_telling_text
from rag_eval_hooks.context import contexts_of, scalars, score_in
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain.structured import entries

__all__ = ["AsContext", "block_text", "input_texts", "rows_in"]

AsContext: TypeAlias = Callable[[Any], Any]
"""From an object of the application's to its text, or None."""

_TEXT_KEYS = ("page_content", "text", "content", "body", "snippet")
_ID_KEYS = ("id", "_id", "doc_id", "chunk_id", "key", "url", "source")
_ENCODED = frozenset(("base64", "image", "audio", "video"))
"""Forms of blocks whose data are no text."""
_DEEP = 5
_WIDE = 1000
"""Levels of containers looked into, and entries of each."""
_MARKS = 6
"""Quotes, colon and comma of an entry."""
_SKIPPED = (Document, PromptValue, bytes, int, float, type(None))
Lists: TypeAlias = Iterator[tuple[Context, ...]]


def rows_in(value: Any, as_context: AsContext | None = None, depth: int = _DEEP) -> Lists:
    """Yield the texts of a value that are long enough to be recognised, those of one list together.

    Args:
        value: Any output. Documents and messages of models and users are left out.
        as_context: Reads objects of the application's own.
        depth: Levels that are looked into.
    """
    if depth == 0 or isinstance(value, _SKIPPED):
        return
    if isinstance(value, str):
        yield from _in_text(value, as_context, depth)
    elif isinstance(value, BaseMessage):
        yield from rows_in(_content_of(value), as_context, depth - 1)
    elif isinstance(value, list | tuple):
        yield from _in_list(value, as_context, depth)
    else:
        yield from _in_object(value, as_context, depth)


def _content_of(message: BaseMessage) -> Any:
    """Return the content of a tool's message, unless it failed; None for other messages."""
    is_tool = isinstance(message, ToolMessage) and message.status != "error"
    return message.content if is_tool else None


def _in_object(value: Any, as_context: AsContext | None, depth: int) -> Lists:
    if as_context is not None and (row := _own(value, as_context)) is not None:
        yield (row,)
    elif (held := entries(value)) is not None and "role" not in held:
        for item in islice(held.values(), _WIDE):
            yield from rows_in(item, as_context, depth - 1)


def _in_text(text: str, as_context: AsContext | None, depth: int) -> Lists:
    if text.lstrip()[:1] in ("[", "{"):
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, list | dict):
            found = list(rows_in(parsed, as_context, depth - 1))
            if found:
                yield from found
                return
    if is_telling_text(text):
        yield (Context(text=text),)


def _in_list(items: Sequence[Any], as_context: AsContext | None, depth: int) -> Lists:
    items = items[:_WIDE]
    rows = [_row(item, as_context) for item in items]
    found = tuple(row for row in rows if row is not None and is_telling_text(row.text))
    if found and 2 * len(found) >= len(items):
        yield found
    elif items and all(isinstance(item, Mapping) for item in items):
        # Rows of a table with short values are shown as they are written.
        written = [repr(item) for item in items]
        long = all(is_telling(one) for one in written)
        yield tuple(Context(text=one) for one in (written if long else [repr(items)]))
    for item, row in zip(items, rows, strict=True):
        if row is None and not isinstance(item, str):
            yield from rows_in(item, as_context, depth - 1)


def _row(item: Any, as_context: AsContext | None) -> Context | None:
    """Return an item of a list with its main text: under a usual name, else the longest."""
    if isinstance(item, str):
        return Context(text=item)
    if isinstance(item, BaseMessage | Document | list | tuple):
        return None
    if as_context is not None and (own := _own(item, as_context)) is not None:
        return own
    held = entries(item)
    if held is None or "role" in held:
        return None
    if isinstance(held.get("page_content"), str):
        return contexts_of({"text": held["page_content"], **held})[0]
    texts = {key: text for key in held if (text := block_text(held[key]))}
    usual = next((texts[key] for key in _TEXT_KEYS if key in texts), None)
    inner = (more for item in held.values() if isinstance(item, Mapping) for more in item.values())
    text = usual or max((*texts.values(), *filter(_is_text, inner)), key=len, default="")
    if not is_telling_text(text) or (usual is None and 2 * len(text) < _written(held)):
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


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _written(held: Mapping[str, Any]) -> int:
    """Return about how many characters the short values of a row take, as it is written."""
    short = (value for value in held.values() if isinstance(value, str | int | float))
    return sum(len(str(value)) for value in short) + sum(len(key) + _MARKS for key in held)


def _own(item: Any, as_context: AsContext) -> Context | None:
    text = as_context(item)
    return text if isinstance(text, Context) else Context(text=text) if text else None


def block_text(value: Any) -> str:
    """Return the text of a content block, of blocks in it, or of its source; "" for none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(block_text, value[:_WIDE])))
    if isinstance(value, Mapping) and _ENCODED.isdisjoint(_forms(value)):
        parts = (value.get(key) for key in ("text", "content", "source", "data"))
        return next(filter(None, (block_text(p) for p in parts if p is not None)), "")
    return ""


def _forms(block: Mapping[str, Any]) -> set[str]:
    """Return in what form a block, or its source, is written."""
    return {form for key in ("type", "source_type") if isinstance(form := block.get(key), str)}


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
