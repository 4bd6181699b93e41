"""Finds documents in what runs give out: lists, pairs with scores, states, artifacts of tools."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import islice
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.prompt_values import PromptValue

from rag_eval_hooks.capture.contexts.text_forms import is_telling_text
from rag_eval_hooks.context import contexts_of, scalars, score_in
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain.passing_texts import AsContext, rows_in
from rag_eval_hooks_langchain.structured import class_of, entries, is_stored, update_of

__all__ = [
    "DOCUMENT_KEYS",
    "Documents",
    "IsKnown",
    "Lists",
    "holds_documents",
    "snapshot",
    "values_of",
]

DOCUMENT_KEYS = (
    "documents",
    "docs",
    "context",
    "contexts",
    "retrieved_documents",
    "retrieved_docs",
    "source_documents",
)
"""Names under which an empty list, one of texts or of mappings, is a retrieval."""

_DEEP = 4
_WIDE = 1000
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


class Documents:
    """Searches outputs for lists of documents.

    Args:
        keys: Names under which an empty list, one of texts or of mappings, is a retrieval; None
            for the usual ones.
        as_context: Reads objects of the application's own; may raise.
    """

    def __init__(self, keys: Collection[str] | None, as_context: AsContext | None = None) -> None:
        self._keys = frozenset(DOCUMENT_KEYS if keys is None else keys)
        self._as_context = as_context

    def found_in(
        self,
        outputs: Any,
        given: Any = None,
        *,
        artifacts: bool = True,
        is_known: IsKnown | None = None,
    ) -> Lists:
        """Return the lists of documents in an output, in order; an empty one may count too.

        Args:
            outputs: What a run gave out.
            given: What it was given: lists and messages that it merely hands on are no find.
            artifacts: Whether messages of tools in it are new, and their artifacts a find.
            is_known: By the text of a document, whether it is no find.
        """
        if _form_of(class_of(outputs)) is _ValueForm.NOTHING:
            # A formatter that lets no document pass gives a blank text.
            blank = isinstance(outputs, str) and not outputs.strip() and holds_documents(given)
            return [()] if blank else []
        search = _Search(self._keys, artifacts, is_known)
        search.look(outputs, given, _DEEP)
        return search.found

    def given_in(self, inputs: Any) -> Lists:
        """Return the lists of documents in a root's input; under one of the names, rows count."""
        found = self.found_in(inputs, artifacts=False)
        if found:
            return found
        named = ((entries(inputs) or {}).get(key) for key in self._keys)
        tables = (v for v in named if isinstance(v, list) and v and isinstance(v[0], Mapping))
        return [rows for table in tables for rows in rows_in(table, self._as_context)]

    def passing(self, value: Any) -> Lists:
        """Return all other texts in an output that may be documents, by the lists they are in."""
        return [rows for one in values_of(value, None) for rows in self.rows(one)]

    def rows(self, value: Any) -> Iterator[tuple[Context, ...]]:
        """Yield all other texts in one value of an output, by the lists they are in."""
        return rows_in(value, self._as_context)

    def text_in(self, outputs: Any, given: Any = None) -> Context | None:
        """Return the text under one of the names: documents that a step of a graph has joined."""
        before = entries(given) or {}
        for key, item in (entries(update_of(outputs)) or {}).items():
            if key in self._keys and isinstance(item, str) and item != before.get(key):
                return Context(text=item) if is_telling_text(item) else None
        return None

    def in_artifact(self, artifact: Any, is_known: IsKnown) -> Lists:
        """Return the lists in a tool's artifact, also of documents written as mappings."""
        found = self.found_in(artifact, artifacts=False, is_known=is_known)
        return found or self.passing(artifact)

    def typed(self, value: Any) -> tuple[Context, ...] | None:
        """Return the contexts in a value that should hold documents or texts, possibly none."""
        if not isinstance(value, list | tuple):
            value = [value]
        try:
            return tuple(c for item in value[:_WIDE] for c in _read(item))
        except TypeError:
            rows = [row for found in rows_in(value, self._as_context) for row in found]
            return tuple(rows) or None


def values_of(outputs: Any, given: Any) -> list[Any]:
    """Return the values of an output that were not given; a conversation is none."""
    outputs = update_of(outputs)
    values = entries(outputs)
    if values is None:
        return [] if outputs is given else [outputs]
    before = entries(given) or {}
    fresh = [v for k, v in values.items() if v is not before.get(k)]
    return [v for v in fresh if not _is_conversation(v, before.get("messages"))]


def _is_conversation(value: Any, before: Any) -> bool:
    """Return whether a value is messages, none of which is a tool's and new."""
    if not isinstance(value, list | tuple) or not isinstance(next(iter(value), None), BaseMessage):
        return False
    known = set(map(id, before)) if isinstance(before, list | tuple) else set()
    return not any(isinstance(m, ToolMessage) and id(m) not in known for m in value)


class _Search:
    """One search; depth and width are bounded."""

    def __init__(self, keys: Collection[str], artifacts: bool, is_known: IsKnown | None) -> None:
        self._keys = keys
        self._artifacts = artifacts
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
            for key, item in list(values.items())[:_WIDE]:
                self._entry(key, item, before.get(key), depth)

    def _entry(self, key: str, item: Any, before: Any, depth: int) -> None:
        if key in self._keys and item is not before:
            contexts = _under_key(self._unknown(item))
            if contexts is not None:
                if not _is_handed_on(item, before):
                    self.found.append(contexts)
                return
        self.look(item, before, depth - 1)

    def _list(self, items: Sequence[Any], given: Any, depth: int) -> None:
        first = next((item for item in items[:_WIDE] if item is not None), None)
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
            for item in items[:_WIDE]:
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
    if (items and not there) or not all(map(_is_document, there[:_WIDE])):
        return None
    try:
        return tuple(context for item in there for context in _read(item))
    except TypeError:
        return None


def _items(value: Any) -> Sequence[Any] | None:
    """Return the documents of a list, of a mapping by name, or the only one."""
    if isinstance(value, Document):
        return [value]
    if isinstance(value, Mapping):
        if _is_written(value):
            return [value]
        named = list(islice(value.values(), _WIDE))
        return named if named and all(isinstance(v, Document | None) for v in named) else None
    return value if isinstance(value, list | tuple) else None


def _is_document(item: Any) -> bool:
    if isinstance(item, Mapping):
        # A message written as a mapping has a content, too.
        return "role" not in item
    is_text = isinstance(item, str | Context)
    return is_text or _document_in(item) is not None or is_stored(class_of(item))


def _is_written(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("page_content"), str)


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


def _read(item: Any) -> tuple[Context, ...]:
    document = _document_in(item)
    if document is not None:
        return (snapshot(document, _score_beside(item)),)
    return contexts_of(entries(item) if is_stored(class_of(item)) else item)


def _same(items: Sequence[Any], given: Any) -> bool:
    if not isinstance(given, list | tuple) or len(given) != len(items):
        return False
    return all(one is other for one, other in zip(items, given, strict=True))
