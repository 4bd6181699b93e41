"""Alignment of a claim with a sentence: the same words in the same order, and the same values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final, TypeAlias

from rag_eval_hooks.judges.heuristic.sentence import (
    BREAKS,
    LEXICONS,
    VALUE,
    Item,
    Lexicon,
    Sentence,
)
from rag_eval_hooks.text.folding import is_content
from rag_eval_hooks.text.measures import Measure, agree

__all__ = ["Alignment", "align", "anchors", "resembles"]

_LONGEST: Final = 160  # items of a sentence; a longer one is no sentence
_MOVED: Final = 3  # words of a long claim for each one that may stand elsewhere
_FEW: Final = 2  # words that may stand for others by exchange
_LIGHT: Final = frozenset(("was", "were", "had", "did", "will", "would", "who", "during"))
_LACKING: Final = 5  # words of a claim for each one that the sentence may lack
_Path: TypeAlias = Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Alignment:
    """A claim's words in a sentence, in order, with all that limits either in both."""

    others: Sequence[tuple[Measure, Measure]]
    denied: bool


def align(
    claim: Sentence, sentence: Sentence, code: str, names: frozenset[str]
) -> Alignment | None:
    """Return how a sentence has the words of a claim in order, or None.

    One part of the claim, such as a date that opens it, may stand elsewhere.
    """
    words, items = LEXICONS[code], sentence.items(code)
    if len(items) > _LONGEST or len(claim.items(code)) > 2 * _LONGEST:
        return None
    limits = words.limiting | words.conditions | words.weak
    said = [item for item in claim.items(code) if _counts(item, code, words, items)]
    wanted, held = _tokens(said, items)
    known = frozenset(held)
    lacking = [at for at, token in enumerate(wanted) if token not in known]
    if len(lacking) > (len(said) // _LACKING if code else 0):
        return None
    if any(_is_firm(said, at, names | limits) for at in lacking):
        return None
    denies = any(item in words.denials for item in claim.items(code))
    match = SequenceMatcher(None, wanted, held, autojunk=False)
    exchanged = bool(lacking) and _exchanges(match, items)
    path = () if exchanged else _path(match, wanted, held, movable=bool(code) and not denies)
    places = dict(zip(said, path, strict=False))
    if not path or not _same_prepositions(claim.items(code), items, places):
        return None
    items, path = _without_conjuncts(items, path)
    close = _is_close(items, path, words, len(said) if code else 0)
    if not close or _is_limited(items, path, words):
        return None
    return _alignment(claim.items(code), said, items, path, words.denials)


def anchors(claim: Sentence, code: str, names: frozenset[str]) -> Sequence[frozenset[str]]:
    """Return sets of words: `align` finds a claim only in sentences that hold one of each set."""
    words = LEXICONS[code]
    firm = names | words.limiting | words.conditions
    opening: set[str] = set()
    found: list[frozenset[str]] = []
    for item in claim.items(code):
        word = VALUE if isinstance(item, Measure) else item
        is_weak = word in words.weak
        if not is_weak and not _counts(item, code, words, ()):
            continue
        if not found:
            opening.add(word)
        if not is_weak and (not found or word == VALUE or word in firm):
            found.append(frozenset([word]))
    return [frozenset(opening), *found[1:]]


def resembles(
    claim: Sentence, window: Sequence[Sentence], code: str, names: frozenset[str]
) -> bool:
    """Return whether a few sentences have most of a long claim, and all that could refute it.

    Its values, names and limiting words must be there, as many denials, and nearly all words that
    both have in the same order.
    """
    words = LEXICONS[code]
    items = [item for one in window for item in one.items(code)]
    if max(len(items), len(claim.items(code))) > 2 * _LONGEST:
        return False
    said = [item for item in claim.items(code) if _counts(item, code, words, items)]
    wanted, held = _tokens(said, items)
    firm = names | ((words.limiting | words.conditions) - _LIGHT)
    lacking = [at for at, token in enumerate(wanted) if token not in held]
    if not code or any(isinstance(said[at], Measure) or said[at] in firm for at in lacking):
        return False
    if any(token[0] == "#" for token in wanted):
        return False
    limited = any(item in words.conditions and item not in said for item in items)
    if limited or _denials(claim.items(code), words) != _denials(items, words):
        return False
    match = SequenceMatcher(None, wanted, held, autojunk=False)
    if len(lacking) <= _FEW and _exchanges(match, items):
        return False
    placed = {one.a + at for one in match.get_matching_blocks() for at in range(one.size)}
    moved = [at for at, token in enumerate(wanted) if at not in placed and token in held]
    if not lacking and 0 < len(moved) <= _FEW:
        return False  # the same words, and one or two elsewhere: they may be exchanged
    return len(moved) <= len(wanted) // _MOVED and not any(
        isinstance(said[at], Measure) or said[at] in names for at in moved
    )


def _exchanges(match: SequenceMatcher[str], stated: Sequence[Item]) -> bool:
    """Return whether one or two words stand in the place of one or two others.

    Sentences that differ in this way only, "approved" for "rejected", mostly differ in meaning.
    """
    for kind, start, end, first, last in match.get_opcodes():
        words = [item for item in stated[first:last] if item not in BREAKS and not _is_small(item)]
        if kind == "replace" and end - start <= _FEW and 0 < len(words) <= _FEW:
            return True
    return False


def _denials(items: Sequence[Item], words: Lexicon) -> int:
    return sum(item in words.denials for item in items)


def _counts(item: Item, code: str, words: Lexicon, stated: Sequence[Item]) -> bool:
    """Return whether the sentence has to have an item of the claim."""
    if isinstance(item, Measure):
        return True
    if item in BREAKS or item in words.denials or (item in words.weak and item not in stated):
        return False
    return not code or is_content(item) or item in words.limiting | words.conditions | words.weak


def _is_firm(said: Sequence[Item], at: int, firm: frozenset[str]) -> bool:
    item, following = said[at], said[at + 1 : at + 2]
    return (
        not at
        or isinstance(item, Measure)
        or item in firm
        or any(isinstance(one, Measure) for one in following)
    )


def _tokens(said: Sequence[Item], stated: Sequence[Item]) -> tuple[Sequence[str], Sequence[str]]:
    """Return both as words, where values that agree are one word, and others their kind."""
    held = [_kind(item) if isinstance(item, Measure) else item for item in stated]
    wanted = []
    for item in said:
        if not isinstance(item, Measure):
            wanted.append(item)
            continue
        equal = (
            at
            for at, other in enumerate(stated)
            if isinstance(other, Measure) and held[at][0] == "#" and agree(item, other)
        )
        at = next(equal, None)
        if at is not None:
            held[at] = f"={at}{_kind(item)}"
        wanted.append(_kind(item) if at is None else held[at])
    return wanted, held


def _kind(measure: Measure) -> str:
    if measure.unit or math.isnan(measure.value):
        return f"#{measure.unit}"
    return "#year" if 1500 <= measure.value <= 2100 and measure.value % 1 == 0 else "#count"


def _path(
    match: SequenceMatcher[str], wanted: Sequence[str], held: Sequence[str], *, movable: bool
) -> _Path:
    """Return the place of each word, None for one that is not there; nothing if out of order."""
    path: list[int | None] = [None] * len(wanted)
    for block in match.get_matching_blocks():
        path[block.a : block.a + block.size] = range(block.b, block.b + block.size)
    if moved := [at for at, place in enumerate(path) if place is None and wanted[at] in held]:
        found = _found_elsewhere(wanted, held, path, moved) if movable else ()
        if not found:
            return ()
        for one, place in zip(moved, found, strict=True):
            path[one] = place
    values: dict[str, int] = {}  # of one kind, in the order of the claim
    for word, at in zip(wanted, path, strict=True):
        if at is not None and word[0] in "#=":
            kind = word[word.index("#") :]
            if at < values.get(kind, -1):
                return ()
            values[kind] = at
    return path if any(place is not None for place in path) else ()


def _found_elsewhere(
    wanted: Sequence[str], held: Sequence[str], path: _Path, moved: Sequence[int]
) -> Sequence[int]:
    """Return the places of words that open or end a claim and stand at the sentence's other end.

    Words with a value, "in 1967", may stand anywhere.
    """
    free = [(at, word) for at, word in enumerate(held) if at not in path]
    found = [next((at for at, word in free if word == wanted[one]), -1) for one in moved]
    kept = [place for place in path if place is not None]
    dated = any(wanted[at][0] in "#=" for at in moved)
    opens = moved == list(range(len(moved))) and (dated or min(found) > max(kept))
    ends = moved == list(range(len(path) - len(moved), len(path))) and max(found) < min(kept)
    return found if (opens or ends) and found == sorted({*found} - {-1}) else ()


def _same_prepositions(
    claim: Sequence[Item], stated: Sequence[Item], places: Mapping[Item, int | None]
) -> bool:
    """Return whether the same small words stand before the others: "by 20 %" is not "to 20 %"."""
    beside = [
        (before, stated[place - 1])
        for before, item in pairwise(claim)
        if (place := places.get(item))
    ]
    return all(one == two for one, two in beside if _is_small(one) and _is_small(two))


def _is_small(item: Item) -> bool:
    return isinstance(item, str) and item not in BREAKS and not is_content(item)


def _without_conjuncts(stated: Sequence[Item], path: _Path) -> tuple[Sequence[Item], _Path]:
    """Return a sentence without what it joins to the path's words: "was built and [it] opened"."""
    found = sorted(at for at in path if at is not None)
    drop = {
        at
        for before, after in pairwise(found)
        if stated[after - 1] == "&" and not {",", ";"} & set(stated[before + 1 : after])
        for at in range(before + 1, after)
    }
    kept = {at: new for new, at in enumerate(at for at in range(len(stated)) if at not in drop)}
    return [stated[at] for at in kept], [None if at is None else kept[at] for at in path]


def _is_close(stated: Sequence[Item], path: _Path, words: Lexicon, most: int) -> bool:
    """Return whether few words stand among those of a path, and no other statement does."""
    found = sorted(at for at in path if at is not None)
    skipped = 0
    for before, at in pairwise(found):
        gap = stated[before + 1 : at]
        light = [item for item in gap if item in BREAKS or item in words.denials]
        skipped += len(gap) - len(light)
        if len(light) < len(gap) and (";" in light or "&" in light or light.count(",") == 1):
            return False
    return skipped <= most


def _is_limited(stated: Sequence[Item], path: _Path, words: Lexicon) -> bool:
    """Return whether a word limits the clauses of a path that the path lacks."""
    last = max(at for at in path if at is not None)
    limiting = words.limiting | words.weak
    return any(
        at not in path and item in (limiting if at < last else words.behind | words.weak)
        for at, item in _clause(stated, path, BREAKS)
    ) or any(
        at not in path and item in words.conditions for at, item in _clause(stated, path, (";",))
    )


def _clause(
    stated: Sequence[Item], path: _Path, stops: Sequence[str]
) -> Sequence[tuple[int, Item]]:
    """Return the items of the clauses in which a path lies."""
    found = [at for at in path if at is not None]
    first, last = min(found), max(found)
    while first > 0 and stated[first - 1] not in stops:
        first -= 1
    while last + 1 < len(stated) and stated[last + 1] not in stops:
        last += 1
    return [(at, stated[at]) for at in range(first, last + 1)]


def _alignment(
    claim: Sequence[Item],
    said: Sequence[Item],
    stated: Sequence[Item],
    path: _Path,
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
    found = [at for at in path if at is not None]
    strict = len(found) == len(path) and all(
        at in path or item in denials or item in BREAKS or _is_small(item)
        for at, item in clause
        if min(found) - 1 <= at <= max(found)
    )
    return None if denied and not strict else Alignment(others, denied)
