"""Exchanged roles: who did it to whom, what is compared with what, what came first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rag_eval_hooks.judges.local.opposites import OPPOSITES, SYMMETRIC
from rag_eval_hooks.judges.local.terms import terms
from rag_eval_hooks.judges.local.units import Claim, Unit, as_written
from rag_eval_hooks.text.folding import fold, word_set
from rag_eval_hooks.text.languages import function_words

__all__ = ["BREAK", "exchanged"]

BREAK: Final = re.compile(
    r"[;\n]|,\s|\s(?:and|while|whereas|but|und|während|aber|oder|et|tandis|mais|y|mientras|pero)\s",
    re.IGNORECASE,
)
"""Ends of the parts of a sentence."""
_LONG: Final = 16  # terms; a longer claim is no statement of who did what to whom
_FEW: Final = 7  # terms of a claim that may say who did what to whom without names
_SHORT: Final = 3  # terms of a part from which words are left out
_BY: Final = word_set("by von vom durch par por")
_TO: Final[Mapping[str, frozenset[str]]] = {
    "from": frozenset(("to", "into")), "von": frozenset(("nach", "bis", "auf")),
    "de": frozenset(("a", "vers", "hasta")), "desde": frozenset(("hasta", "a")),
}  # fmt: skip
_THAN: Final = re.compile(
    r"\b(?:than|als|(?<=\bmas )que|(?<=\bmenos )que|que(?= (?:el|la|los|las|le|les|l)\b))\s"
)
_COMPARING: Final = frozenset(("than", "als", "que"))
_MORE: Final = re.compile(
    r"\b(?:more|less|fewer|\w+er|better|worse|mas|menos|plus|moins|mejor|peor|mayor|menor"
    r"|meilleure?s?|pire|mehr|weniger)\b"
)
_LATER: Final = word_set(
    "then afterwards subsequently later danach dann anschliessend spater puis ensuite apres luego "
    "despues entonces"
)
_THEN: Final = re.compile(
    r"(?:\b(?:first|initially|zuerst|zunachst|anfangs|d'abord|primero)\b|^)(?P<one>.+?)"
    rf"\b(?:{'|'.join(sorted(_LATER))})\b(?P<two>.+)"
)


def exchanged(claim: Claim, sentence: Unit) -> str | None:
    """Return as a reason what a claim and a sentence of the same words say the other way round."""
    if len(claim.unit.chain) > _LONG:
        return None
    return next((found for rule in _RULES if (found := rule(claim, sentence))), None)


def _swapped(claim: Claim, sentence: Unit) -> str | None:
    """Find two terms that have changed sides of what stands between them."""
    said = claim.unit
    if _ways(said) & {(b, a) for a, b in _ways(sentence)} - _ways(sentence):
        return "start and end are exchanged"
    held = said.terms & sentence.terms
    short = len(held) == len(said.terms) and len(said.chain) <= _FEW
    if not short and len(claim.names) < 2:
        return None
    mine, theirs = _actors(said, held, claim), _actors(sentence, held, claim)
    for one, middle, two in _triples(mine):
        named = one in claim.names and two in claim.names
        if not (named or short) or _are_joined(said, one, two):
            continue
        passive = _is_passive(said, one, two) != _is_passive(sentence, one, two)
        straight = _holds(theirs, (one, *middle, two))
        turned = _holds(theirs, (two, *middle, one))
        if (turned and not straight and not passive) or (straight and not turned and passive):
            return f"{_word(one, said)} and {_word(two, said)} have changed roles"
    return None


def _word(actor: str, unit: Unit) -> str:
    return as_written([actor], unit)


def _actors(unit: Unit, held: frozenset[str], claim: Claim) -> list[str]:
    """Return the held terms in order, the terms of a name as one."""
    name_of = {term: name for name, parts in claim.names.items() for term in parts}
    chain: list[str] = []
    for term in unit.chain:
        actor = name_of.get(term, term)
        if term in held and chain[-1:] != [actor]:
            chain.append(actor)
    return chain


def _is_passive(unit: Unit, one: str, two: str) -> bool:
    """Return whether a word such as "by" stands right before the later of two actors."""
    if _BY.isdisjoint(unit.words):
        return False
    wanted = {*terms(one), *terms(two)}
    at = [i for i, stem in enumerate(unit.stems) if stem in wanted]
    last = max((i for i in at if i - 1 not in at), default=0)
    by = [i for i in range(max(0, last - 3), last) if unit.words[i] in _BY]
    return bool(by) and not any(unit.stems[by[-1] + 1 : last])


def _triples(chain: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    for i in range(len(chain)):
        for j in range(i + 2, min(i + 4, len(chain))):
            if chain[i] != chain[j] and not chain[i][0].isdigit() and not chain[j][0].isdigit():
                yield chain[i], tuple(chain[i + 1 : j]), chain[j]


def _holds(chain: Sequence[str], part: tuple[str, ...]) -> bool:
    size = len(part)
    return any(tuple(chain[i : i + size]) == part for i in range(len(chain) - size + 1))


def _are_joined(unit: Unit, one: str, two: str) -> bool:
    """Return whether two actors stand in a list, or beside a word that takes both alike."""
    ends, starts = terms(one), terms(two)
    where = [stem or word for stem, word in zip(unit.stems, unit.words, strict=True)]
    first, last = (ends or [one])[-1], (starts or [two])[0]
    if first not in where or last not in where:
        return True
    start, end = where.index(first), len(where) - 1 - where[::-1].index(last)
    between = {*where[start + 1 : end], *unit.words[start + 1 : end]}
    return start > end or bool(between & SYMMETRIC)


def _ways(unit: Unit) -> set[tuple[str, str]]:
    """Return each start and end that the unit names: from A to B."""
    found: set[tuple[str, str]] = set()
    words = unit.words
    if _TO.keys().isdisjoint(words):
        return found
    for at, word in enumerate(words):
        for to in range(at + 2, min(at + 5, len(words) - 1)):
            if words[to] in _TO.get(word, ()):
                found.add((words[to - 1], words[to + 1]))
    return found


def _by_another(claim: Claim, sentence: Unit) -> str | None:
    """Find a doer behind "by" to whom it is done in the sentence, and the reverse."""
    said, stated = _doer(claim.unit), _doer(sentence)
    if not said or not stated or said & stated:
        return None
    if said <= sentence.terms and stated <= claim.unit.terms:
        return f"by {as_written(said, claim.unit)} where the chunk has it the other way round"
    return None


def _doer(unit: Unit) -> frozenset[str]:
    at = next((i for i, word in enumerate(unit.words) if word in _BY), None)
    return frozenset([stem for stem in unit.stems[at + 1 : at + 4] if stem][:1] if at else ())


def _compared(claim: Claim, sentence: Unit) -> str | None:
    """Find two things that a comparison has the other way round."""
    said, stated = _sides(claim.unit), _sides(sentence)
    if said is None or stated is None or _is_opposite(claim.unit, sentence):
        return None
    (head, tail), (their_head, their_tail) = said, stated
    head, their_head = head - tail, their_head - their_tail
    if tail and their_tail and tail <= their_head and their_tail & head and not tail & their_tail:
        return "what is compared with what is exchanged"
    return None


def _sides(unit: Unit) -> tuple[frozenset[str], frozenset[str]] | None:
    if _COMPARING.isdisjoint(unit.words):
        return None
    text = fold(unit.text)
    than = next((m for m in _THAN.finditer(text) if _MORE.search(text, 0, m.start())), None)
    if than is None:
        return None
    tail = BREAK.split(text[than.end() :])[0]
    return frozenset(terms(text[: than.start()])), frozenset(terms(tail))


def _is_opposite(claim: Unit, sentence: Unit) -> bool:
    stated = frozenset(sentence.words)
    return any(OPPOSITES.get(word, frozenset()) & stated for word in claim.words)


def _reordered(claim: Claim, sentence: Unit) -> str | None:
    """Find two steps, first and then, that have changed places."""
    if _LATER.isdisjoint(claim.unit.words) or _LATER.isdisjoint(sentence.words):
        return None
    mine, theirs = (_THEN.search(fold(unit.text)) for unit in (claim.unit, sentence))
    if mine is None or theirs is None:
        return None
    one, two = (frozenset(terms(mine[part])) for part in ("one", "two"))
    first, then = (frozenset(terms(theirs[part])) for part in ("one", "two"))
    straight, turned = len(one & first) + len(two & then), len(one & then) + len(two & first)
    return "what came first and what then are exchanged" if turned > straight else None


def _crossed(claim: Claim, sentence: Unit) -> str | None:
    """Find a claim that takes its beginning and its end from two items of a list.

    "Anna leads sales, Boris accounting and Clara technology" does not say that Boris leads
    technology: the item of Boris ends in another word, and that of technology begins with one.
    """
    mine = [term for term in claim.unit.chain if term in sentence.terms]
    if not 1 < len(mine) <= _FEW or mine[0] == mine[-1]:
        return None
    if claim.unit.terms - sentence.terms - function_words(sentence.words):
        return None
    if BREAK.search(sentence.text) is None:
        return None
    parts = [
        [term for term in terms(part) if term in sentence.terms]
        for part in BREAK.split(sentence.text)
    ]
    first, last = mine[0], mine[-1]
    at = [i for i, part in enumerate(parts) if first in part]
    to = [i for i, part in enumerate(parts) if last in part]
    if len(at) != 1 or len(to) != 1 or at == to:
        return None
    one, two = parts[at[0]], parts[to[0]]
    short = parts[max(at[0], to[0])]
    if len(short) > _SHORT or one[-1] in claim.unit.terms or two[0] in claim.unit.terms:
        return None
    # A verb that the items share stands in the first; else both may be what it speaks of.
    verb = any(term in parts[0] for term in mine[1:-1]) or at > to
    return f"{_word(first, sentence)} and {_word(last, sentence)} are of two items" * verb or None


_RULES: Final[Sequence[Callable[[Claim, Unit], str | None]]] = (
    _swapped,
    _by_another,
    _compared,
    _reordered,
    _crossed,
)
