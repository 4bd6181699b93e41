"""Search of an output for lists of documents, bounded in depth and width."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from enum import Enum, auto
from itertools import islice
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import PromptValue

from rag_eval_hooks.context import (
    READABLE_MAPPING,
    contexts_of,
    is_readable,
    scalars,
    score_in,
)
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain.structured import class_of, entries, is_stored, update_of

__all__ = [
    "WIDE",
    "IsKnown",
    "Lists",
    "contexts_in",
    "holds_documents",
    "is_no_container",
    "lists_in",
    "snapshot",
]

_DEEP = 4
WIDE = 1000
"""Containers looked into, and entries of each: whatever a payload holds, the search is bounded."""
_PAIR = 2
_NO_DOCUMENTS = (str, int, float, bytes, PromptValue)

Lists = list[tuple[Context, ...]]
IsKnown: TypeAlias = Callable[[str], bool]


class _ValueForm(Enum):
    """Form of a value for the search, by its class."""

    NOTHING = auto()
    LIST = auto()
    MESSAGE = auto()
    OTHER = auto()


@functools.lru_cache(maxsize=256)
def _form_of(kind: type) -> _ValueForm:
    for form, kinds in _FORMS:
        if issubclass(kind, kinds):
            return form
    return _ValueForm.OTHER


_FORMS = (
    (_ValueForm.NOTHING, (*_NO_DOCUMENTS, type(None))),
    (_ValueForm.LIST, (list, tuple)),
    (_ValueForm.MESSAGE, (BaseMessage,)),
)


def snapshot(document: Document, score: float | None = None) -> Context:
    """Copy what may change later: text, id, score and scalar metadata."""
    metadata = scalars(document.metadata)
    return Context(
        text=document.page_content,
        id=document.id,
        score=score_in(metadata) if score is None else score,
        metadata=metadata,
    )


class _Search:
    """One search; depth and width are bounded."""

    def __init__(
        self, keys: Collection[str], artifacts: bool, resets: bool, is_known: IsKnown | None
    ) -> None:
        self._keys = keys
        self._artifacts = artifacts
        self._resets = resets
        self._is_known = is_known
        self.found: Lists = []

    def look(self, value: Any, given: Any, depth: int) -> None:
        if depth == 0 or value is given:
            return
        form = _form_of(class_of(value))
        if form is _ValueForm.LIST:
            self._list(value, given, depth)
        elif form is _ValueForm.MESSAGE:
            if self._artifacts:
                self._artifact(getattr(value, "artifact", None), depth)
        elif form is _ValueForm.NOTHING:
            return
        elif (values := entries(update_of(value))) is not None:
            before = entries(given) or {}
            for key, item in list(values.items())[:WIDE]:
                self._entry(key, item, before.get(key), depth)

    def _entry(self, key: str, item: Any, before: Any, depth: int) -> None:
        if key in self._keys and item is not before:
            contexts = _under_key(self._unknown(item))
            if contexts is not None:
                if not (_is_handed_on(item, before) or (self._resets and not contexts)):
                    self.found.append(contexts)
                return
        self.look(item, before, depth - 1)

    def _list(self, items: Sequence[Any], given: Any, depth: int) -> None:
        first = next((item for item in items[:WIDE] if item is not None), None)
        if first is None and holds_documents(given):
            # A step that was given documents lets none of them pass.
            self.found.append(())
        elif _document_in(first) is not None:
            if not _same(items, given) and (unknown := self._unknown(items)):
                self.found.append(_documents(unknown))
        elif first is not None and not isinstance(first, _NO_DOCUMENTS):
            if isinstance(first, BaseMessage) and depth == _DEEP:
                # A bare list of messages is a prompt, with artifacts of earlier turns in it.
                return
            known = {id(item) for item in given} if isinstance(given, list | tuple) else ()
            for item in items[:WIDE]:
                if id(item) not in known:
                    self.look(item, None, depth - 1)

    def _unknown(self, items: Any) -> Any:
        """Return a list without the documents that are known, which need not be copied."""
        is_known = self._is_known
        if is_known is None or not isinstance(items, list | tuple):
            return items
        documents = ((item, _document_in(item)) for item in items)
        return [i for i, d in documents if d is None or not is_known(d.page_content)]

    def _artifact(self, artifact: Any, depth: int) -> None:
        if isinstance(artifact, list | tuple) and not artifact:
            self.found.append(())
        elif artifact is not None:
            self.look(artifact, None, depth - 1)


def is_no_container(value: Any) -> bool:
    """Return whether a value holds nothing to search, as a text or a number."""
    return _form_of(class_of(value)) is _ValueForm.NOTHING


def lists_in(
    outputs: Any,
    given: Any,
    keys: Collection[str],
    *,
    artifacts: bool,
    resets: bool,
    is_known: IsKnown | None,
) -> Lists:
    """Return the lists of documents in an output, in order; see `Documents.found_in`."""
    search = _Search(keys, artifacts, resets, is_known)
    search.look(outputs, given, _DEEP)
    return search.found


def holds_documents(value: Any) -> bool:
    """Return whether a value is a list of documents, possibly with scores."""
    first = value[0] if isinstance(value, list | tuple) and value else None
    return _document_in(first) is not None


def _documents(items: Sequence[Any]) -> tuple[Context, ...]:
    found = ((item, _document_in(item)) for item in items)
    return tuple(snapshot(d, _score_beside(item)) for item, d in found if d is not None)


def _under_key(value: Any) -> tuple[Context, ...] | None:
    """Return the contexts under a name of documents; None if something else is there."""
    items = _items(value)
    if items is None:
        return None
    there = [item for item in items if item is not None]
    if (items and not there) or not all(map(_is_document, there[:WIDE])):
        return None
    try:
        return tuple(context for item in there for context in contexts_in(item))
    except TypeError:
        return None


def _items(value: Any) -> Sequence[Any] | None:
    """Return the documents of a list, of a mapping by name, or the only one."""
    if isinstance(value, Document):
        return [value]
    if isinstance(value, READABLE_MAPPING):
        if _is_written(value):
            return [value]
        named = list(islice(value.values(), WIDE))
        return named if named and all(isinstance(v, Document | None) for v in named) else None
    return value if isinstance(value, list | tuple) else None


def _is_document(item: Any) -> bool:
    if isinstance(item, READABLE_MAPPING):
        # A message written as a mapping has a content, too.
        return "role" not in item
    is_text = isinstance(item, str | Context)
    return is_text or _document_in(item) is not None or is_stored(class_of(item))


def _is_written(item: Any) -> bool:
    return isinstance(item, READABLE_MAPPING) and isinstance(item.get("page_content"), str)


def _is_handed_on(item: Any, before: Any) -> bool:
    """Return whether a list holds the same document objects as before; unknown for texts."""
    if not isinstance(item, list | tuple) or not item or isinstance(item[0], str):
        return False
    return _same(item, before)


def _document_in(item: Any) -> Document | None:
    """Return the document, or that of a pair of a document and its score."""
    if isinstance(item, Document):
        return item
    if isinstance(item, tuple) and len(item) == _PAIR and isinstance(item[0], Document):
        return item[0]
    return None


def _score_beside(item: Any) -> float | None:
    return score_in({"score": item[1]}) if isinstance(item, tuple) else None


def contexts_in(item: Any) -> tuple[Context, ...]:
    """Return the contexts that an item of a list of documents or texts stands for.

    Raises:
        TypeError: It is no document.
    """
    document = _document_in(item)
    if document is not None:
        return (snapshot(document, _score_beside(item)),)
    held = entries(item) if is_stored(class_of(item)) else item
    if not is_readable(held):
        raise TypeError(type(held).__name__)
    return contexts_of(held)


def _same(items: Sequence[Any], given: Any) -> bool:
    if not isinstance(given, list | tuple) or len(given) != len(items):
        return False
    return all(one is other for one, other in zip(items, given, strict=True))
