"""What a rule finds in a text, and how what several rules find becomes one list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

__all__ = ["ESCAPED", "Match", "Rule", "merged"]


ESCAPED: Final = r"(?<=\\[nrtbf])|(?<=\\u[\da-fA-F]{4})"
"""What stands before a place in JSON that counts as white space: there the letter or digit of an
escape is no part of what follows it."""


@dataclass(frozen=True, slots=True)
class Match:
    """A place in a text that must not leave.

    Attributes:
        start: Index of its first character.
        end: Index behind its last one.
        kind: What it is, in a word of letters and underscores, such as `EMAIL`.
        value: What it says, however it is written; equal values of a kind get one placeholder.
            The characters themselves where it is empty.
    """

    start: int
    end: int
    kind: str
    value: str = ""


@runtime_checkable
class Rule(Protocol):
    """Finds one kind of thing. Takes time linear in the text, and is called by several threads."""

    def matches(self, text: str) -> Iterable[Match]:
        """What is found, in any order; matches may overlap."""
        ...


def merged(text: str, found: Sequence[Iterable[Match]]) -> list[Match]:
    """The matches in order of place, none overlapping another.

    Of matches that overlap one is made, so that nothing of any stands out. Its kind is that of
    the rule that comes first.

    Args:
        text: What was searched.
        found: The matches of each rule, the most telling rule first.
    """
    ranked = [(match, rank) for rank, matches in enumerate(found) for match in matches]
    ranked.sort(key=lambda each: (each[0].start, each[1]))
    kept: list[tuple[Match, int]] = []
    for match, rank in ranked:
        if kept and match.start < kept[-1][0].end:
            kept[-1] = _joined(kept[-1], (match, rank))
        elif match.start < match.end:
            kept.append((match, rank))
    return [replace(m, value=m.value or text[m.start : m.end]) for m, _ in kept]


def _joined(first: tuple[Match, int], second: tuple[Match, int]) -> tuple[Match, int]:
    (telling, rank), (other, _) = sorted((first, second), key=lambda each: each[1])
    start, end = min(telling.start, other.start), max(telling.end, other.end)
    if (start, end) == (telling.start, telling.end):
        return telling, rank
    return Match(start, end, telling.kind), rank
