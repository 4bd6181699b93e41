"""Rows as they are written: by which values one is known, and how far it reaches in a prompt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from rag_eval_hooks.capture.contexts.text_forms import words

__all__ = [
    "NEAR",
    "Occurrence",
    "Phrase",
    "RowValues",
    "extent",
    "near_one_another",
    "row_values",
    "shortest",
    "value_word",
]

NEAR = 6
"""Words among which the next value of a row stands: labels are in between."""
_LEAST = 10
"""Characters of a row's values by which it is known."""
_LEAST_OWN = 3
"""Characters of its values that no other row has."""
_MOST = 400
"""Words of a row that is looked for by its values."""
_SEVERAL = 3
"""Values by which a row is known of which a prompt shows less than half."""
_FAR = 150
"""Characters before a row in which its bracket stands."""
_ROW = re.compile(r"(?:[\[({]|\w{1,80}\().*[\])}]", re.DOTALL)
_NAMES = re.compile(r"""(['"])[^'"\n]{1,60}\1\s*:|\b\w{1,80}=|\b[A-Za-z_][\w.]{0,80}\(""", re.ASCII)
"""Keys, names of fields and of classes in a row as it is written."""
_LABEL = re.compile(r"""(\w[\w .-]{0,60})['"]?\s?[:=]?\s?['"]?$""")
_BEFORE_VALUES = re.compile(r"\W*")
_BETWEEN_VALUES = re.compile(r"""[\[\](){}\0]|['"]?,\s?""")
_ANYWHERE = frozenset(("true", "false", "none"))
_OPENING = re.compile(
    r"""(?:\b\w{1,80})?[{\[(]\s?(?:['"]?[\w .-]{1,60}['"]?\s?[:=]\s?)?['"]?\\?$"""
)
_CLOSING = re.compile(r"""['"]?,?\s?[}\])]""")
"""Brackets around a row, with the key, quote and escape between them and its values."""


Phrase: TypeAlias = tuple[str, ...]
"""Words of one value."""


class RowValues(NamedTuple):
    """A row as it is written.

    Attributes:
        words: Of all values, in order.
        phrases: Of each value.
        pairs: Of brackets around it.
        names: Of its values.
    """

    words: Sequence[str]
    phrases: Collection[Phrase]
    pairs: int
    names: Collection[str]

    @property
    def is_distinctive(self) -> bool:
        """True if its values in order stand in no other text by chance."""
        has_number = any(map(str.isdigit, self.words))
        return len(self.words) > (1 if has_number else 2) and len(" ".join(self.words)) >= _LEAST

    def is_shown_by(self, phrases: Collection[Phrase], own: Collection[Phrase]) -> bool:
        """Return whether some of its values are enough in any order.

        Args:
            phrases: That stand near one another.
            own: Those that no other row has.
        """
        are_several = 2 * len(phrases) >= len(self.phrases) or len(phrases) >= _SEVERAL
        are_long = _length(phrases) >= _LEAST and _length(own) >= _LEAST_OWN
        return len(phrases) > 1 and are_several and are_long


def row_values(text: str) -> RowValues | None:
    """Return the values of a row as it is written; None for other texts, and for long rows."""
    values = _NAMES.sub("\0", text) if _ROW.fullmatch(text) else ""
    listed = list(map(value_word, words(values)))
    if not 0 < len(listed) <= _MOST:
        return None
    parts = _BETWEEN_VALUES.split(values)
    phrases = {tuple(map(value_word, words(part))) for part in parts}
    head = _BEFORE_VALUES.match(values)
    names = {match[0].strip("'\":=( ").lower() for match in _NAMES.finditer(text)}
    pairs = sum(map(head[0].count, "([{")) if head else 0
    known = {phrase for phrase in phrases if phrase and _ANYWHERE.isdisjoint(phrase)}
    return RowValues(listed, known, max(1, pairs), names)


class Occurrence(NamedTuple):
    """A value of a row in a prompt, from its first word to the one behind it."""

    start: int
    end: int
    phrase: Phrase


def value_word(word: str) -> str:
    """Return a word as values are compared: JSON's name of nothing is Python's."""
    return "none" if word == "null" else word


def near_one_another(found: Sequence[Occurrence]) -> Iterator[list[Occurrence]]:
    """Yield values that stand near one another, by their runs."""
    run: list[Occurrence] = []
    end = 0
    for one in found:
        if run and one.start - end > NEAR:
            yield run
            run = []
        run.append(one)
        end = max(end, one.end)
    if run:
        yield run


def shortest(run: Sequence[Occurrence]) -> tuple[Occurrence, Occurrence]:
    """Return the ends of the shortest stretch with every value of a run."""
    wanted = len({one.phrase for one in run})
    held: Counter[Phrase] = Counter()
    best, left = (run[0], run[-1]), 0
    for one in run:
        held[one.phrase] += 1
        while held[run[left].phrase] > 1:
            held[run[left].phrase] -= 1
            left += 1
        if len(held) == wanted and one.end - run[left].start < best[1].end - best[0].start:
            best = run[left], one
    return best


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
    start -= _label_before(text[max(0, start - _FAR) : start], text[start:end], row.names)
    quote = text[end : end + 1]
    is_open = quote in ("'", '"') and text[start:end].count(quote) % 2 == 1
    return start, end + is_open


def _label_before(before: str, span: str, names: Collection[str]) -> int:
    """Return the length of a name at the end of a text, unless brackets enclose the span."""
    label = None if _is_enclosed(span) else _LABEL.search(before)
    if label is None:
        return 0
    known = (name for name in names if label[1].lower().endswith(name))
    name = max(known, key=len, default="")
    is_word = not label[1][: len(label[1]) - len(name)][-1:].isalnum()
    return len(label[0]) - len(label[1]) + len(name) if name and is_word else 0


def _is_enclosed(span: str) -> bool:
    depths = accumulate((sign in "([{") - (sign in ")]}") for sign in span)
    return next((n for n, depth in enumerate(depths) if depth <= 0), 0) == len(span) - 1


def _length(phrases: Collection[Phrase]) -> int:
    return len(" ".join(word for phrase in phrases for word in phrase))


def _count(text: str, signs: str) -> int:
    return sum(map(text.count, signs))
