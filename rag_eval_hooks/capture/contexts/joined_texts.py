"""Texts that a step joined of what was found before: each of their parts is a context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeAlias

from rag_eval_hooks.capture.contexts.text_forms import fold, is_telling
from rag_eval_hooks.capture.records import DocumentList, Origin
from rag_eval_hooks.sample import Context

__all__ = ["separated"]

_JOINED = (Origin.TEXT, Origin.STEP, Origin.EARLIER)
_Texts: TypeAlias = Mapping[str, Context]


def separated(lists: Iterable[DocumentList]) -> Iterator[DocumentList]:
    """Yield lists of texts in order, those with a joined text with its parts in its place.

    A list that another stage made of earlier texts, of which each is longer, stays: so does a
    text with one part in it, which is the form that the model was shown.
    """
    known: dict[str, Context] = {}
    for _, beside in groupby(lists, lambda found: id(found.run)):
        group = list(beside)
        texts = known | _texts(group)
        apart = [_apart(found, texts) for found in group]
        known |= _texts(apart)
        yield from apart


def _texts(lists: Iterable[DocumentList]) -> dict[str, Context]:
    contexts = (c for found in lists if found.origin in _JOINED for c in found.contexts)
    texts = ((fold(context.text), context) for context in contexts)
    return {text: context for text, context in texts if is_telling(text)}


def _apart(found: DocumentList, known: _Texts) -> DocumentList:
    if found.origin not in _JOINED or len(found.contexts) != 1:
        return found
    parts = _parts(fold(found.contexts[0].text), known)
    return replace(found, contexts=parts) if parts else found


def _parts(joined: str, known: _Texts) -> tuple[Context, ...]:
    """Return the parts that make up a text, in order; none if there are no such."""
    found = ((joined.find(text), -len(text), text) for text in known if text != joined)
    parts: list[tuple[int, int]] = []
    names: list[str] = []
    for start, length, text in sorted(one for one in found if one[0] >= 0):
        if not parts or start - length > parts[-1][1]:
            parts.append((start, start - length))
            names.append(text)
    return tuple(known[name] for name in names) if _make_up(joined, parts) else ()


def _make_up(joined: str, parts: Sequence[tuple[int, int]]) -> bool:
    """Return whether two parts or more make up a text: between them stand at most headings.

    What is as long as one of the parts may be a part of its own.
    """
    ends = [0, *(end for _, end in parts)]
    starts = [*(start for start, _ in parts), len(joined)]
    between = max(start - end for start, end in zip(starts, ends, strict=True))
    return len(parts) > 1 and between < min(end - start for start, end in parts)
