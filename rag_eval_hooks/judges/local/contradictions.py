"""Contradictions between a claim and the sentences that are closest to it, by rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rag_eval_hooks.judges.local.opposites import KINDS, OPPOSITES, STRONGER
from rag_eval_hooks.judges.local.overstatements import of_another_cause, possible_only
from rag_eval_hooks.judges.local.roles import BREAK, exchanged
from rag_eval_hooks.judges.local.terms import terms
from rag_eval_hooks.judges.local.units import Claim, Passage, Unit, as_written
from rag_eval_hooks.judges.local.windows import Window
from rag_eval_hooks.text.folding import has_cjk, word_set
from rag_eval_hooks.text.measures import Measure, agree, is_total

__all__ = ["Clash", "clash", "is_minimal", "negation_differs", "reversed_words"]

_NEAR: Final = 0.34  # of a claim's weight: least share of a window that speaks of the same thing
_SUMS: Final = word_set(
    "total together altogether sum combined overall all insgesamt zusammen gesamt summe somme "
    "ensemble juntos suma conjunto lived aged age later after lasted lebte alter duro vivio vecut"
)
_FEW: Final = 7  # terms of a claim that may count things without names
_SHORT: Final = 6  # terms of a claim that a single word decides
_LITTLE: Final = 8  # terms of a sentence that says no more than such a claim
_OF_ANY: Final = 4  # first rules, which tell something of claims of any length
_ROW: Final = 14  # words; shorter sentences may be rows of a table or list


@dataclass(frozen=True, slots=True)
class Clash:
    """A reason why a window does not support a claim.

    Attributes:
        reason: In words.
        contrary: Whether the window states the contrary; else it does not state the claim.
        by_value: Whether quantities differ, not words.
        quote: The sentence that decides it.
    """

    reason: str
    contrary: bool = True
    quote: str = ""
    by_value: bool = False


def clash(claim: Claim, window: Window, passage: Passage, *, minimal: bool) -> Clash | None:
    """Return the first contradiction of a claim and the window that covers it best, or None.

    Args:
        claim: The claim.
        window: The window.
        passage: Where it stands.
        minimal: Whether a single word decides, by `is_minimal`.
    """
    if not window.units or window.score < _NEAR:
        return None
    for rule in _RULES if minimal else _RULES[:_OF_ANY]:
        found = rule(claim, window, passage)
        if found is not None:
            return found
    return None


def is_minimal(claim: Claim, window: Window) -> bool:
    """Return whether a single word decides: both are short, or equal but for function words."""
    if not window.units:
        return False
    said, stated = claim.unit.chain, window.closest().chain
    return said == stated or (len(said) <= _SHORT and len(stated) <= _LITTLE)


def _of_another_value(claim: Claim, window: Window, passage: Passage) -> Clash | None:
    """Find a quantity for which the window has another one."""
    stated = [m for unit in window.units for m in unit.measures] if claim.unit.measures else ()
    for said in claim.unit.measures:
        if any(agree(said, other) for other in stated):
            continue
        if _is_sum(said, claim.unit, window, stated):
            continue
        others = [m for m in stated if _kind(m) == _kind(said) and not _is_said(m, claim)]
        same = [m for m in stated if m.value == said.value and m.unit and said.unit]
        if instead := next(iter(others + same), None):
            found = _instead(said.text, instead.text, _holder(window, instead.text))
            return replace(found, by_value=True)
    return None


def _is_sum(said: Measure, claim: Unit, window: Window, stated: Sequence[Measure]) -> bool:
    """Return whether a quantity adds up stated ones: by its words, or all of one thing."""
    if not _SUMS.isdisjoint(claim.words):
        return is_total(said, stated)
    counted = terms(claim.text[said.end :])[:1]
    alike = [
        measure
        for unit in window.units
        for measure in unit.measures
        if counted and counted[0] in terms(unit.text[measure.end :])[:3]
    ]
    return len(alike) > 1 and is_total(said, alike)


def _is_said(stated: Measure, claim: Claim) -> bool:
    return any(agree(said, stated) for said in claim.unit.measures)


def _kind(measure: Measure) -> str:
    if measure.unit or measure.value != measure.value:
        return measure.unit
    return "year" if 1500 <= measure.value <= 2100 and measure.value % 1 == 0 else "count"


def _instead(said: str, stated: str, quote: str, *, contrary: bool = True) -> Clash:
    return Clash(f"it says {said!r} where the chunk says {stated!r}", contrary, quote)


def _holder(window: Window, text: str) -> str:
    return next((unit.text for unit in window.units if text in unit.text), window.closest().text)


def reversed_words(claim: Unit, window: Window) -> frozenset[str]:
    """Return the claim's words whose opposite the window has where one of the two is negated."""
    said = claim.known & OPPOSITES.keys()
    if not said or bool(claim.negated) == bool((closest := window.closest()).negated):
        return frozenset()
    against = frozenset(closest.words).difference(claim.words)
    return frozenset(word for word in said.difference(closest.words) if OPPOSITES[word] & against)


def _opposed(claim: Claim, window: Window, passage: Passage) -> Clash | None:
    """Find a word for which the window has its opposite, or another value of its kind."""
    closest, said = window.closest(), claim.unit.known
    decisive = [word for word in claim.unit.words if word in OPPOSITES or word in KINDS]
    if not decisive or bool(claim.unit.negated) != bool(closest.negated):
        return None  # two reversals cancel out
    stated, near = closest.known, frozenset().union(*(unit.known for unit in window.units))
    for word in decisive:
        if word in near:
            continue
        against = OPPOSITES.get(word, frozenset()) & stated - said
        kind = KINDS.get(word)
        if kind and not any(KINDS.get(w) == kind for w in near):
            family = kind[0]
            against |= {w for w in stated - said if w in KINDS and KINDS[w][0] == family}
        if against:
            return _instead(word, min(against), closest.text)
    return None


def _overstated(claim: Claim, window: Window, passage: Passage) -> Clash | None:
    """Find a word that says more than the window does: all for some, proven for may."""
    closest = window.closest()
    said, stated = frozenset(claim.unit.words), frozenset(closest.words)
    for word in claim.unit.words:
        weak = STRONGER.get(word)
        if weak is None or any(w in stated for w, weaker in STRONGER.items() if weaker == weak):
            continue
        if weaker_words := {w for w in weak & stated - said if _is_about(claim, w, closest)}:
            return _instead(word, min(weaker_words), closest.text, contrary=False)
    return None


def _more_than_stated(claim: Claim, window: Window, passage: Passage) -> Clash | None:
    closest = window.closest()
    if hedge := possible_only(claim.unit, closest):
        return Clash(f"the chunk says so with {hedge!r}", contrary=False, quote=closest.text)
    if (unit := of_another_cause(claim.unit, window.units)) is not None:
        return Clash("the chunk names another cause", contrary=False, quote=unit.text)
    return None


def _is_about(claim: Claim, weak: str, sentence: Unit) -> bool:
    """Return whether what a weak word stands before is what the claim speaks of."""
    at = list(sentence.words).index(weak)
    return not claim.unit.terms.isdisjoint(sentence.stems[at + 1 : at + 4])


def _of_another_item(claim: Claim, window: Window, passage: Passage) -> Clash | None:
    """Find a value that the window gives to another item of the same list, row or sentence."""
    facts = _facts(claim.unit)
    if not facts:
        return None
    named = frozenset[str]().union(*claim.names.values())
    rows = [
        unit
        for unit in passage.units
        if len(unit.words) <= _ROW and (unit in window.units or unit.terms & named)
    ]
    for units in [rows, *([unit] for unit in window.units if unit not in rows)]:
        whole = [_Part(unit.terms, _facts(unit)) for unit in units]
        if not _may_be_elsewhere(facts, [fact for part in whole for fact in part.facts]):
            continue
        found = _elsewhere(claim, facts, window, whole) if len(units) > 1 else None
        parts = [part for unit in units for part in _parts(unit)]
        if found := found or _elsewhere(claim, facts, window, parts):
            return found
    return None


def _may_be_elsewhere(facts: Sequence[_Fact], stated: Sequence[_Fact]) -> bool:
    """Return whether a value of the claim is stated, and another one of its kind."""
    same = {fact.kind for fact in facts if any(_same(fact, other) for other in stated)}
    return any(
        other.kind in same and not any(_same(other, fact) for fact in facts) for other in stated
    )


def _elsewhere(
    claim: Claim, facts: Sequence[_Fact], window: Window, parts: Sequence[_Part]
) -> Clash | None:
    for said in facts:
        if said.kind == "count" and len(claim.unit.chain) > _FEW:
            continue
        own = set(terms(said.text))
        shared = [_overlap(claim, part, own) for part in parts]
        holding = [i for i, part in enumerate(parts) if any(_same(said, f) for f in part.facts)]
        rivals = [
            (shared[i], i, fact)
            for i, part in enumerate(parts)
            for fact in part.facts
            if fact.kind == said.kind and not any(_same(fact, other) for other in facts)
        ]
        if not holding or not rivals:
            continue
        at = max(holding, key=lambda i: shared[i])
        most, rival, fact = max(rivals, key=lambda triple: triple[0])
        if most > shared[at] and rival != at and parts[at].terms - claim.unit.terms - own:
            reason = f"{said.text!r} belongs to another item; here the chunk says {fact.text!r}"
            return Clash(reason, quote=_holder(window, fact.text))
    return None


@dataclass(frozen=True, slots=True)
class _Fact:
    kind: str
    value: Measure | tuple[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class _Part:
    terms: frozenset[str]
    facts: Sequence[_Fact]


def _same(one: _Fact, two: _Fact) -> bool:
    if isinstance(one.value, Measure) and isinstance(two.value, Measure):
        return agree(one.value, two.value)
    return one.value == two.value


def _facts(unit: Unit) -> list[_Fact]:
    """Return the values that a sentence states."""
    found = [_Fact(_kind(m), m, m.text) for m in unit.measures]
    return found + [_Fact(KINDS[w][0], KINDS[w], w) for w in unit.words if w in KINDS]


def _parts(unit: Unit) -> Iterator[_Part]:
    start = 0
    for end in [*(m.start() for m in BREAK.finditer(unit.text)), len(unit.text)]:
        part = Unit(unit.text[start:end])
        facts = [_Fact(_kind(m), m, m.text) for m in unit.measures if start <= m.start < end]
        facts += [_Fact(KINDS[w][0], KINDS[w], w) for w in part.words if w in KINDS]
        yield _Part(part.terms, facts)
        start = end


def _overlap(claim: Claim, part: _Part, own: set[str]) -> float:
    special = frozenset[str]().union(*claim.names.values())
    shared = (claim.unit.terms - own) & part.terms
    return sum(1.5 if term in special else 1.0 for term in shared)


def _exchanged(claim: Claim, window: Window, passage: Passage) -> Clash | None:
    for unit in window.units:
        if reason := exchanged(claim, unit):
            return Clash(reason, quote=unit.text)
    return None


def _denied(claim: Claim, window: Window, passage: Passage) -> Clash | None:
    closest = window.closest()
    found = negation_differs(claim.unit, closest, passage)
    if not found or reversed_words(claim.unit, window):
        return None
    return Clash(
        f"the negation differs at {as_written(found, claim.unit, closest)}", quote=closest.text
    )


def negation_differs(claim: Unit, sentence: Unit, passage: Passage) -> frozenset[str]:
    """Return the terms that one of the two negates and the other states; empty for no conflict.

    Args:
        claim: The claim.
        sentence: The sentence that is closest to it.
        passage: Where the sentence stands: what the claim denies and the passage denies
            elsewhere is no conflict.
    """
    for scope in claim.negated:
        # One stated word is enough where the sentence denies nothing at all.
        stated = scope if sentence.negated else scope & sentence.affirmed
        if stated and stated <= sentence.affirmed and not scope & passage.denied:
            near = has_cjk(claim.text) or _same_subject(claim, sentence, scope)
            return scope if near else frozenset()
    for scope in sentence.negated:
        if scope <= claim.affirmed - claim.denied - sentence.affirmed:
            return scope if _same_subject(claim, sentence, scope) else frozenset()
    return frozenset()


def _same_subject(claim: Unit, sentence: Unit, scope: frozenset[str]) -> bool:
    """Return whether the sentence holds at least half of the claim's terms, or of the others."""
    rest = claim.terms - scope
    held = len(rest & sentence.terms)
    return 2 * held >= len(rest) or 2 * (held + len(scope & claim.terms)) >= len(claim.terms)


_RULES: Final[Sequence[Callable[[Claim, Window, Passage], Clash | None]]] = (
    _denied,
    _of_another_value,
    _opposed,
    _of_another_item,
    _exchanged,
    _overstated,
    _more_than_stated,
)
