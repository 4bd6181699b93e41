"""Aligns a claim with a sentence that contains the words of the claim in the same order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from rag_eval_hooks.judges.heuristic.chunks import (
    BREAKS,
    DENIAL,
    LEXICONS,
    VALUE,
    Item,
    Lexicon,
    Sentence,
    is_small,
)
from rag_eval_hooks.text.folding import is_content
from rag_eval_hooks.text.measures import Measure, agree

_LONGEST: Final = 160  # maximum number of items of a sentence; longer texts are not sentences
_MOVED: Final = 3  # a long claim may have one moved word per this many words
_FEW: Final = 2  # maximum number of exchanged words
_LIGHT: Final = frozenset(("was", "were", "had", "did", "will", "would", "who", "during"))
_Items: TypeAlias = Sequence[Item]
_Path: TypeAlias = Sequence[int]


class Alignment(NamedTuple):
    others: Sequence[tuple[Measure, Measure]]
    denied: bool


def align(claim: Sentence, sentence: Sentence, code: str) -> Alignment | None:
    claimed, stated = claim.items(code), sentence.items(code)
    if max(len(claimed), len(stated)) > _LONGEST:
        return None
    said = _needed(claimed, stated, code)
    path = _path(*_tokens(said, stated))
    if not (
        path
        and _same_prepositions(claimed, stated, dict(zip(said, path, strict=True)))
        and _is_close(stated, path, len(said) if code else 0)
        and not _is_limited(stated, path, LEXICONS[code])
    ):
        return None
    others = [
        (one, two)
        for one, two in zip(said, (stated[at] for at in path), strict=True)
        if isinstance(one, Measure) and isinstance(two, Measure) and not agree(one, two)
    ]
    clause = _clause(stated, path, BREAKS)
    denied = (DENIAL in claimed) != any(item == DENIAL for _, item in clause)
    # A negation between the matched words may negate other words, as in "bread that is not sliced
    # keeps".
    strict = all(
        at in path or item in BREAKS or is_small(item)
        for at, item in clause
        if path[0] - 1 <= at <= path[-1]
    )
    return None if denied and not strict else Alignment(others, denied)


def anchors(claim: Sentence, code: str) -> frozenset[str]:
    needed = _needed(claim.items(code), (), code)
    return frozenset(VALUE if isinstance(item, Measure) else item for item in needed)


def resembles(claim: Sentence, sentence: Sentence, code: str) -> bool:
    """Return whether `sentence` contains all numbers and names of `claim`, and most words."""
    words, claimed, stated = LEXICONS[code], claim.items(code), sentence.items(code)
    if not code or max(len(claimed), len(stated)) > 2 * _LONGEST:
        return False
    said = _needed(claimed, stated, code)
    wanted, held = _tokens(said, stated)
    firm = claim.named | ((words.limiting | words.conditions) - _LIGHT)
    lacking = [at for at, token in enumerate(wanted) if token not in held]
    match = SequenceMatcher(None, wanted, held, autojunk=False)
    if (
        any(said[at] in firm for at in lacking)
        or any(token[0] == "#" for token in wanted)
        or any(item in words.conditions and item not in said for item in stated)
        or claimed.count(DENIAL) != stated.count(DENIAL)
        or (len(lacking) <= _FEW and _exchanges(match, stated))
    ):
        return False
    placed = {one.a + at for one in match.get_matching_blocks() for at in range(one.size)}
    moved = [said[at] for at, token in enumerate(wanted) if at not in placed and token in held]
    if not lacking and 0 < len(moved) <= _FEW:
        return False  # One or two words may have swapped roles.
    return len(moved) <= len(wanted) // _MOVED and not any(
        isinstance(item, Measure) or item in claim.named for item in moved
    )


def _exchanges(match: SequenceMatcher[str], stated: _Items) -> bool:
    for kind, start, end, first, last in match.get_opcodes():
        words = [item for item in stated[first:last] if item not in BREAKS and not is_small(item)]
        if kind == "replace" and end - start <= _FEW and 0 < len(words) <= _FEW:
            return True
    return False


def _needed(claimed: _Items, stated: _Items, code: str) -> _Items:
    words = LEXICONS[code]
    firm = words.limiting | words.conditions | words.weak
    return [
        item
        for item in claimed
        if isinstance(item, Measure)
        or (
            item not in (*BREAKS, DENIAL)
            and (item not in words.weak or item in stated)
            and (not code or is_content(item) or item in firm)
        )
    ]


def _tokens(said: _Items, stated: _Items) -> tuple[Sequence[str], Sequence[str]]:
    held, wanted = [*map(_kind, stated)], [*map(_kind, said)]
    for place, item in enumerate(said):
        if isinstance(item, Measure):
            for at, other in enumerate(stated):
                if isinstance(other, Measure) and held[at][0] == "#" and agree(item, other):
                    held[at] = wanted[place] = f"={at}"
                    break
    return wanted, held


def _kind(item: Item) -> str:
    if not isinstance(item, Measure):
        return item
    if item.unit or math.isnan(item.value):
        return f"#{item.unit}"
    return "#year" if is_year(item) else "#count"


def is_year(measure: Measure) -> bool:
    return not measure.unit and 1500 <= measure.value <= 2100 and measure.value % 1 == 0


def _path(wanted: Sequence[str], held: Sequence[str]) -> _Path:
    best: _Path = ()
    for start in (at for at, word in enumerate(held) if word in wanted[:1]):
        path = [start]
        for word in wanted[1:]:
            if word not in held[path[-1] + 1 :]:
                return best
            path.append(held.index(word, path[-1] + 1))
        if not best or path[-1] - path[0] < best[-1] - best[0]:
            best = path
    return best


def _same_prepositions(claimed: _Items, stated: _Items, places: dict[Item, int]) -> bool:
    # "by 20 %" differs from "to 20 %".
    beside = [
        (before, stated[place - 1])
        for before, item in pairwise(claimed)
        if (place := places.get(item))
    ]
    return all(one == two for one, two in beside if is_small(one) and is_small(two))


def _is_close(stated: _Items, path: _Path, most: int) -> bool:
    skipped = 0
    for before, at in pairwise(path):
        gap = stated[before + 1 : at]
        light = [item for item in gap if item in BREAKS or item == DENIAL]
        skipped += len(gap) - len(light)
        if len(light) < len(gap) and (";" in light or "&" in light or light.count(",") == 1):
            return False
    return skipped <= most


def _is_limited(stated: _Items, path: _Path, words: Lexicon) -> bool:
    limiting, behind = words.limiting | words.weak, words.behind | words.weak
    clauses = _clause(stated, path, BREAKS), _clause(stated, path, (";",))
    inner, outer = ([(at, item) for at, item in one if at not in path] for one in clauses)
    return any(item in (limiting if at < path[-1] else behind) for at, item in inner) or any(
        item in words.conditions for _, item in outer
    )


def _clause(stated: _Items, path: _Path, stops: Sequence[str]) -> Sequence[tuple[int, Item]]:
    places = [at for at, item in enumerate(stated) if item in stops]
    first = max((at for at in places if at < path[0]), default=-1)
    last = min((at for at in places if at > path[-1]), default=len(stated))
    return [(at, stated[at]) for at in range(first + 1, last)]
