"""Redaction rules, and the union of their matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias, runtime_checkable

__all__ = ["AFTER_ESCAPE", "EAST", "Finder", "Match", "Rule", "merge_matches"]

AFTER_ESCAPE: Final = r"(?<=\\[nrtbf])|(?<=\\u[\da-fA-F]{4})"
"""Position after a JSON escape. The last character of an escape is not part of the next word,
although it is a letter or a digit."""
EAST: Final = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
"""Chinese, Japanese and Korean characters, which have no spaces around numbers or addresses."""


@dataclass(frozen=True, slots=True)
class Match:
    """Part of a text to replace by a placeholder."""

    start: int
    end: int  # index after the last character
    kind: str  # name of the placeholder in letters and underscores, such as `EMAIL`
    value: str = ""  # equal values of a kind share a placeholder; empty: the matched characters


@runtime_checkable
class Rule(Protocol):
    """Finds one kind of value in time linear in the text. Called from several threads."""

    def matches(self, text: str) -> Iterable[Match]:
        """Return all matches, in any order; they may overlap."""
        ...


Finder: TypeAlias = Callable[[str], Iterable[Match]]
"""Finds one kind of value in a text."""


def merge_matches(text: str, by_rule: Sequence[Iterable[Match]]) -> list[Match]:
    """Return non-empty matches in text order, each with a value.

    Overlapping matches become one match over all of them, of the earlier rule's kind.
    """
    ranked = [(match, rank) for rank, matches in enumerate(by_rule) for match in matches]
    ranked.sort(key=lambda each: (each[0].start, each[1]))
    merged: list[tuple[Match, int]] = []
    for match, rank in ranked:
        if merged and match.start < merged[-1][0].end:
            merged[-1] = _union(merged[-1], (match, rank))
        elif match.start < match.end:
            merged.append((match, rank))
    return [replace(m, value=m.value or text[m.start : m.end]) for m, _ in merged]


def _union(first: tuple[Match, int], second: tuple[Match, int]) -> tuple[Match, int]:
    (winner, rank), (other, _) = sorted((first, second), key=lambda each: each[1])
    start, end = min(winner.start, other.start), max(winner.end, other.end)
    if (start, end) == (winner.start, winner.end):
        return winner, rank
    return Match(start, end, winner.kind), rank
