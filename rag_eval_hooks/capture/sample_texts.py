"""Redacts the texts of one sample, and cuts them to the text limits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from rag_eval_hooks.capture.records import DocumentList, Origin
from rag_eval_hooks.capture.text_forms import words
from rag_eval_hooks.config import limits
from rag_eval_hooks.redaction import MARGIN, Session
from rag_eval_hooks.sample import Context

__all__ = ["SampleTexts"]

_MOST_IDS = 1000


class SampleTexts:
    """Builds the values of a sample's fields, and records the names of cut fields.

    Redaction reads `MARGIN` characters beyond the limit. It then recognizes a value that crosses
    the limit.
    """

    def __init__(self, limit: int, cut_texts: Set[str], session: Session, *, redacts: bool) -> None:
        self._limit = limit
        self._cut_texts = cut_texts
        self._session = session
        self._redacts = redacts
        self._read = limit + MARGIN * redacts
        self._cut_fields: list[str] = []

    def text(self, field: str, text: str) -> str:
        is_cut = self._is_cut(text)
        redact = self._session.cut_text if is_cut and self._redacts else self._session.text
        return self._limited(field, redact(field, text[: self._read]), is_cut)

    def optional(self, field: str, text: str | None) -> str | None:
        return None if text is None else self.text(field, text)

    def identity(self, field: str, text: str | None) -> str | None:
        """Return the id of a user or session. The id is hashed if the settings have a key."""
        if text is None or not self._redacts:
            return self.optional(field, text)
        is_cut = self._is_cut(text)
        redacted = self._session.identity(field, text[: self._read], is_cut=is_cut)
        return self._limited(field, redacted or "", is_cut)

    def contexts(
        self, contexts: tuple[Context, ...] | None, answer: str, lists: Iterable[DocumentList]
    ) -> tuple[Context, ...] | None:
        if contexts is None:
            return None
        if len(contexts) > limits.CONTEXTS:
            contexts = _likeliest(contexts, answer, limits.CONTEXTS, lists)
            self._cut_fields.append("contexts")
        return tuple(
            replace(
                context,
                text=self.text(f"contexts[{index}].text", context.text),
                id=self._session.value(f"contexts[{index}].id", context.id),
                metadata=self.metadata(f"contexts[{index}].metadata", context.metadata),
            )
            for index, context in enumerate(contexts)
        )

    def metadata(self, field: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return metadata with its texts cut, without values that are too large."""
        kept: dict[str, Any] = {}
        for key, value in values.items():
            name = f"{field}.{key}"
            written = self._session.text(field, str(key)) if self._redacts else key
            if isinstance(value, str):
                kept[written] = self.text(name, value)
                continue
            is_small = _is_small(value, self._read)
            if is_small and self._redacts:
                value = self._session.value(name, value)
            if is_small and isinstance(value, str):
                kept[written] = self._limited(name, value, False)
            elif is_small and _is_small(value, self._limit):
                kept[written] = value
            else:
                self._cut_fields.append(name)
        return kept

    def ids(self, field: str, ids: Sequence[str] | None) -> tuple[str, ...] | None:
        return None if ids is None else tuple(self.text(field, one) for one in ids[:_MOST_IDS])

    def truncated(self, more: Iterable[str]) -> tuple[str, ...]:
        names = dict.fromkeys((*self._cut_fields, *more))
        return tuple(self._session.text("truncated", name) for name in names)

    def _is_cut(self, text: str) -> bool:
        return len(text) > self._read or text in self._cut_texts

    def _limited(self, field: str, text: str, is_cut: bool) -> str:
        if is_cut or len(text) > self._limit:
            self._cut_fields.append(field)
        return text[: self._limit]


def _is_small(value: Any, most: int) -> bool:
    if isinstance(value, int | float | bool | None):
        return True
    try:
        return len(repr(value)) <= most
    except Exception:  # noqa: BLE001 - the host's edge: its object is dropped and noted
        return False


def _likeliest(
    contexts: tuple[Context, ...], answer: str, most: int, lists: Iterable[DocumentList]
) -> tuple[Context, ...]:
    """Return the contexts that most likely support the answer, in their order.

    A word of the answer counts more if fewer contexts contain it. Among equal contexts the
    best-ranked wins, then the last, because an agent's last search is nearest to its answer.
    """
    said, texts = set(words(answer)), [context.text.lower() for context in contexts]
    held = [[word for word in said if word in text] for text in texts]
    times = Counter(word for words_held in held for word in words_held)
    # Exact sums: equal words weigh the same in any order.
    weights = [math.fsum(1 / times[word] for word in words_held) for words_held in held]
    # Sources of an answer may join several searches.
    searches = [found.contexts for found in lists if found.origin is not Origin.SOURCES]
    ranks = {one.id or one.text: rank for found in searches for rank, one in enumerate(found)}

    def order(index: int) -> tuple[float, int, int]:
        context = contexts[index]
        return weights[index], -ranks.get(context.id or context.text, index), index

    ranked = sorted(range(len(contexts)), key=order)
    return tuple(contexts[index] for index in sorted(ranked[-most:]))
