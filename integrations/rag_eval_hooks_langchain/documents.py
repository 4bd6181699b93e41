"""Finds documents in what runs give out: lists, pairs with scores, states, artifacts of tools."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from rag_eval_hooks.capture.text_forms import is_distinctive_text
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain.document_search import (
    WIDE,
    IsKnown,
    Lists,
    contexts_in,
    holds_documents,
    is_no_container,
    lists_in,
)
from rag_eval_hooks_langchain.passing_texts import rows_in
from rag_eval_hooks_langchain.structured import entries, update_of

__all__ = ["DOCUMENT_KEYS", "Documents"]

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


class Documents:
    """Searches outputs for lists of documents.

    Args:
        keys: Names under which an empty list, one of texts or of mappings, is a retrieval; None
            for the usual ones, under which an empty one may be a reset.
    """

    def __init__(self, keys: Collection[str] | None) -> None:
        self._keys = frozenset(DOCUMENT_KEYS if keys is None else keys)
        self._is_default = keys is None

    def found_in(
        self,
        outputs: Any,
        given: Any = None,
        *,
        artifacts: bool = True,
        resets: bool = False,
        is_known: IsKnown | None = None,
    ) -> Lists:
        """Return the lists of documents in an output, in order; an empty one may count too.

        Args:
            outputs: What a run gave out.
            given: What it was given: lists and messages that it merely hands on are no find.
            artifacts: Whether messages of tools in it are new, and their artifacts a find.
            resets: Whether an empty list under a usual name is no find: nothing was retrieved yet.
            is_known: By the text of a document, whether it is no find.
        """
        if is_no_container(outputs):
            # A formatter that lets no document pass gives a blank text.
            blank = isinstance(outputs, str) and not outputs.strip() and holds_documents(given)
            return [()] if blank else []
        resets = resets and self._is_default
        return lists_in(
            outputs, given, self._keys, artifacts=artifacts, resets=resets, is_known=is_known
        )

    def given_in(self, inputs: Any) -> Lists:
        """Return the lists of documents in a root's input; under one of the names, rows count."""
        found = self.found_in(inputs, artifacts=False)
        if found:
            return found
        named = ((entries(inputs) or {}).get(key) for key in self._keys)
        tables = (v for v in named if isinstance(v, list) and v and isinstance(v[0], Mapping))
        return [rows for table in tables for rows in rows_in(table)]

    def passing(self, value: Any) -> Lists:
        """Return all other texts in an output that may be documents, by the lists they are in."""
        return [rows for one in _values(value, None) for rows in self.rows(one)]

    def values_beside(self, outputs: Any, given: Any, *, beside: bool) -> list[Any]:
        """Return the values of an output that were not given, beside documents if it has some."""
        known = self._keys if beside else frozenset[str]()
        return [one for one in _values(outputs, given, known) if not holds_documents(one)]

    def rows(self, value: Any) -> Iterator[tuple[Context, ...]]:
        """Yield all other texts in one value of an output, by the lists they are in."""
        return rows_in(value)

    def text_in(self, outputs: Any, given: Any = None) -> Context | None:
        """Return the text under one of the names: documents that a step of a graph has joined."""
        before = entries(given) or {}
        for key, item in (entries(update_of(outputs)) or {}).items():
            if key in self._keys and isinstance(item, str) and item != before.get(key):
                return Context(text=item) if is_distinctive_text(item) else None
        return None

    def in_artifact(self, artifact: Any, is_known: IsKnown) -> Lists:
        """Return the lists in a tool's artifact, also of documents written as mappings."""
        found = self.found_in(artifact, artifacts=False, is_known=is_known)
        return found if found or holds_documents(artifact) else self.passing(artifact)

    def typed(self, value: Any) -> tuple[Context, ...] | None:
        """Return the contexts in a value that should hold documents or texts, possibly none."""
        if not isinstance(value, list | tuple):
            value = [value]
        try:
            return tuple(c for item in value[:WIDE] for c in contexts_in(item))
        except TypeError:
            rows = [row for found in rows_in(value) for row in found]
            return tuple(rows) or None


def _values(outputs: Any, given: Any, known: Collection[str] = ()) -> list[Any]:
    """Return the values of an output that were not given; a conversation is none.

    Args:
        outputs: Of a step.
        given: Its input.
        known: Keys of values that are left out.
    """
    outputs = update_of(outputs)
    values = None if isinstance(outputs, BaseMessage) else entries(outputs)
    if values is None:
        return [] if outputs is given else [outputs]
    before = entries(given) or {}
    fresh = [v for k, v in values.items() if v is not before.get(k) and k not in known]
    return [v for v in fresh if not _is_conversation(v, before.get("messages"))]


def _is_conversation(value: Any, before: Any) -> bool:
    """Return whether a value is messages, none of which is a tool's and new."""
    if not isinstance(value, list | tuple) or not isinstance(next(iter(value), None), BaseMessage):
        return False
    known = set(map(id, before)) if isinstance(before, list | tuple) else set()
    return not any(isinstance(m, ToolMessage) and id(m) not in known for m in value)
