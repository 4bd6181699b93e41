"""Alignment of a claim with a sentence: the same words in the same order, and the same values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias

from rag_eval_hooks.judges.heuristic.sentence import BREAKS, LEXICONS, Item, Lexicon, Sentence
from rag_eval_hooks.text.folding import is_content
from rag_eval_hooks.text.measures import Measure, agree

__all__ = ["Alignment", "align"]

_LONGEST: Final = 160  # items of a sentence; a longer one is no sentence
_PLACES: Final = 8  # of one word in a sentence
_GAP: Final = 3  # words between two neighbors of the claim
_ADDED, _BARE, _MOST = 60.0, 40.0, 150.0
_LONG, _SHORT = 5, 3
_SKIPPED: Final = 3  # items of a claim that a sentence may lack
_TURNS: Final = 3  # commas at which a sentence is turned
_OTHER: Final = 100000  # cost of another value in the place of the claim's


@dataclass(frozen=True, slots=True)
class Alignment:
    """A claim's words in a sentence, in order, with all that limits either in both.

    Attributes:
        others: Values of the claim for which the sentence has others, beside these.
        denied: Whether one of the two denies what the other states.
    """

    others: Sequence[tuple[Measure, Measure]]
    denied: bool


def align(
    claim: Sentence, sentence: Sentence, code: str, names: frozenset[str]
) -> Alignment | None:
    """Return how a sentence has all words of a claim in order, or None.

    A clause that a comma separates may stand before or behind the others.

    Args:
        claim: The claim.
        sentence: The sentence.
        code: The language of both.
        names: Terms of the claim's names, which must all be there.
    """
    words, stated = LEXICONS[code], sentence.items(code)
    if len(stated) > _LONGEST:
        return None
    held = {item for item in stated if isinstance(item, str)}
    said = [
        item
        for item in claim.items(code)
        if item not in BREAKS
        and item not in words.denials
        and not (item in words.weak and item not in held)
    ]
    skips = _skippable(said, names | words.limiting | words.conditions | held, bool(code))
    missing = [item for item in said if isinstance(item, str) and item not in held]
    firm = [item for item, skip in zip(said, skips, strict=True) if skip is None]
    if not said or len(missing) > _SKIPPED or any(item in firm for item in missing):
        return None
    for turned in _turned(stated):
        path = _path(said, skips, _Places(turned, words.denials), _GAP if code else 0)
        if path is not None and not _is_limited(turned, path, words):
            return _alignment(claim.items(code), said, turned, path, words.denials)
    return None


def _alignment(
    claim: Sequence[Item],
    said: Sequence[Item],
    stated: Sequence[Item],
    path: Sequence[int | None],
    denials: frozenset[str],
) -> Alignment | None:
    pairs = ((one, stated[at]) for one, at in zip(said, path, strict=True) if at is not None)
    others = [
        (one, two)
        for one, two in pairs
        if isinstance(one, Measure) and isinstance(two, Measure) and not agree(one, two)
    ]
    clause = _clause(stated, path, BREAKS)
    denied = any(item in denials for item in claim) != any(item in denials for _, item in clause)
    # Only a denial among or right before the words denies them: "bread that is not sliced keeps".
    start = next(at for at in path if at is not None)
    strict = all(
        at in path or item in denials or item in BREAKS
        for at, item in clause
        if start - 1 <= at <= max(filter(None, [*path, 0]))
    )
    return None if denied and not (strict and None not in path) else Alignment(others, denied)


def _turned(stated: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield a sentence as it is, and with what stands before a comma behind the rest."""
    yield stated
    if ";" not in stated:
        for comma in [at for at, item in enumerate(stated) if item == ","][:_TURNS]:
            yield [*stated[comma + 1 :], ",", *stated[:comma]]


def _is_limited(stated: Sequence[Item], path: Sequence[int | None], words: Lexicon) -> bool:
    """Return whether the clauses of a path hold a limiting word that the path lacks."""
    return any(
        at not in path and item in limits
        for stops, limits in (
            ((";",), words.conditions),
            (BREAKS, words.limiting | words.weak),
        )
        for at, item in _clause(stated, path, stops)
    )


def _skippable(said: Sequence[Item], firm: frozenset[str], known: bool) -> Sequence[float | None]:
    """Return what it costs to skip each item of a claim, None where it may not be skipped."""
    content = [at for at, one in enumerate(said) if isinstance(one, Measure) or is_content(one)]
    costs: list[float | None] = []
    for at, item in enumerate(said):
        before_value = at + 1 < len(said) and isinstance(said[at + 1], Measure)
        if not known or isinstance(item, Measure) or item in firm or before_value:
            costs.append(None)
        elif at in content:
            costs.append(_ADDED if len(content) >= _LONG and at != content[0] else None)
        else:
            costs.append(_BARE if len(content) >= _SHORT else None)
    return costs


class _Places:
    """A sentence's items by place, and what stands between two places."""

    def __init__(self, stated: Sequence[Item], denials: frozenset[str]) -> None:
        self._stated = stated
        self._at: dict[Item, list[int]] = {}
        for at, item in enumerate(stated):
            self._at.setdefault("" if isinstance(item, Measure) else item, []).append(at)
        light = (*BREAKS, *denials)
        self._words = list(accumulate((item not in light for item in stated), initial=0))
        self._commas = list(accumulate((item in (",", ";") for item in stated), initial=0))

    def of(self, item: Item) -> Iterator[tuple[int, float]]:
        """Yield the places of an item, and of values in its place, with the cost of each."""
        for at in self._at.get("" if isinstance(item, Measure) else item, ())[:_PLACES]:
            other = self._stated[at]
            if not (isinstance(item, Measure) and isinstance(other, Measure)) or agree(item, other):
                yield at, 0.0
            elif _kind(item) == _kind(other):
                yield at, _OTHER

    def gap(self, before: int, at: int, most: int, *, skipped: bool) -> int | None:
        """Return the number of words between two places; None for too many."""
        if before < 0:
            return 0
        words = self._words[at] - self._words[before + 1]
        broken = skipped or self._commas[at] > self._commas[before + 1]
        return None if words > (0 if broken else most) else words


_Path: TypeAlias = tuple[int | None, ...]


def _path(
    said: Sequence[Item], skips: Sequence[float | None], places: _Places, most: int
) -> _Path | None:
    """Return the place of each item of a claim in a sentence, with the least between them."""
    # By the place of the last item that was found, and whether one was skipped since.
    fields: dict[tuple[int, bool], tuple[float, _Path]] = {(-1, False): (0.0, ())}
    for item, skip in zip(said, skips, strict=True):
        found: dict[tuple[int, bool], tuple[float, _Path]] = {}
        for (before, skipped), (total, path) in fields.items():
            steps = list(_steps(item, skip, places, (before, skipped), most))
            for key, at, cost in steps:
                if total % _OTHER + cost < _MOST or cost >= _OTHER:
                    whole = (total + cost, (*path, at))
                    found[key] = min(found.get(key, whole), whole, key=lambda pair: pair[0])
        if not found:
            return None
        fields = found
    best = min(fields.values(), key=lambda pair: pair[0])[1]
    return best if any(at is not None for at in best) else None


def _steps(
    item: Item, skip: float | None, places: _Places, last: tuple[int, bool], most: int
) -> Iterator[tuple[tuple[int, bool], int | None, float]]:
    before, skipped = last
    if skip is not None:
        yield (before, True), None, skip
    for at, cost in places.of(item):
        gap = places.gap(before, at, most, skipped=skipped) if before < at else None
        if gap is not None:
            yield (at, False), at, cost + gap


def _kind(measure: Measure) -> str:
    if measure.unit or math.isnan(measure.value):
        return measure.unit
    return "year" if 1500 <= measure.value <= 2100 and measure.value % 1 == 0 else "count"


def _clause(
    stated: Sequence[Item], path: Sequence[int | None], stops: Sequence[str]
) -> Sequence[tuple[int, Item]]:
    """Return the items of the clauses in which a path lies."""
    found = [at for at in path if at is not None]
    first, last = found[0], found[-1]
    while first > 0 and stated[first - 1] not in stops:
        first -= 1
    while last + 1 < len(stated) and stated[last + 1] not in stops:
        last += 1
    return [(at, stated[at]) for at in range(first, last + 1)]
