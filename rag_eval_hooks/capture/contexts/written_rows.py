"""Rows as they are written: by which values one is known, and how far it reaches in a prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_hooks.capture.contexts.text_forms import words

__all__ = ["RowValues", "extent", "row_values", "value_word"]

_LEAST = 10
"""Characters of a row's values by which it is known."""
_MOST = 60
"""Words of a row that is looked for by its values."""
_FAR = 150
"""Characters before a row in which its bracket stands."""
_ROW = re.compile(r"(?:[\[({]|\w{1,80}\().*[\])}]", re.DOTALL)
_NAMES = re.compile(r"""(['"])[^'"\n]{1,60}\1\s*:|\b\w{1,80}=|\b[A-Za-z_][\w.]{0,80}\(""", re.ASCII)
"""Keys, names of fields and of classes in a row as it is written."""
_FIRST_NAME = re.compile(r"""[\[({]*(?:[\w.]{1,80}\()?['"]?([^'"\n:=,]{1,60})['"]?\s?[:=]""")
_BEFORE_VALUES = re.compile(r"\W*")
_OPENING = re.compile(
    r"""(?:\b\w{1,80})?[{\[(]\s?(?:['"]?[\w .-]{1,60}['"]?\s?[:=]\s?)?['"]?\\?$"""
)
_CLOSING = re.compile(r"""['"]?,?\s?[}\])]""")
"""Brackets around a row, with the key, quote and escape between them and its values."""


class RowValues(NamedTuple):
    """Words of a row's values in order, the pairs of brackets around, and the first name in it."""

    words: Sequence[str]
    pairs: int
    name: str


def row_values(text: str) -> RowValues | None:
    """Return the values of a row as it is written by which it is known wherever they stand.

    None for other texts, for rows that are a phrase, and for long ones.
    """
    values = _NAMES.sub(" ", text) if _ROW.fullmatch(text) else ""
    found = list(map(value_word, words(values)))
    has_number = any(map(str.isdigit, found))
    if not (1 if has_number else 2) < len(found) <= _MOST or len(" ".join(found)) < _LEAST:
        return None
    head, name = _BEFORE_VALUES.match(values), _FIRST_NAME.match(text)
    pairs = sum(map(head[0].count, "([{")) if head else 0
    return RowValues(found, max(1, pairs), name[1] if name else "")


def value_word(word: str) -> str:
    """Return a word as values are compared: JSON's name of nothing is Python's."""
    return "none" if word == "null" else word


def extent(text: str, start: int, end: int, row: RowValues) -> tuple[int, int]:
    """Return a span with the brackets right around it, and the name before the first value.

    Args:
        text: A prompt.
        start: Offset of the first value.
        end: Offset behind the last one.
        row: It has pairs of brackets, one or more, of which the span may hold one half.
    """
    most = row.pairs
    while True:
        first = max(0, start - _FAR)
        before, behind = _OPENING.search(text[first:start]), _CLOSING.match(text, end)
        open_pairs = _count(text[start:end], "([{") - _count(text[start:end], ")]}")
        most -= open_pairs == 0
        if (open_pairs >= 0 and not behind) or (open_pairs <= 0 and not before) or most < 0:
            break
        if open_pairs <= 0 and before:
            start = first + before.start()
        if open_pairs >= 0 and behind:
            end = behind.end()
    name = re.compile(rf"(?<!\w){re.escape(row.name)}\W{{1,3}}$", re.IGNORECASE)
    named = name.search(text[max(0, start - _FAR) : start]) if row.name else None
    start -= len(named[0]) if named else 0
    quote = text[end : end + 1]
    is_open = quote in ("'", '"') and text[start:end].count(quote) % 2 == 1
    return start, end + is_open


def _count(text: str, signs: str) -> int:
    return sum(map(text.count, signs))
