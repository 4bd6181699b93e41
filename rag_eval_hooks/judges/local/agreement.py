"""Agreement of answer and reference."""

from __future__ import annotations

from rag_eval_hooks.findings import Verdict
from rag_eval_hooks.judges.local.contradictions import negation_differs
from rag_eval_hooks.judges.local.units import Claim, Passage, as_written, has_form
from rag_eval_hooks.judges.local.windows import (
    NO_VECTORS,
    RULES,
    Rules,
    Vectors,
    Window,
    best_window,
    weights,
)

__all__ = ["agrees", "denies"]

_SHORT = 6  # terms; a text of no more is an answer in itself, not a description


def agrees(
    claim: Claim,
    text: Passage,
    question: frozenset[str],
    vectors: Vectors = NO_VECTORS,
    rules: Rules = RULES,
) -> Verdict:
    """Return whether a text that answers the same question states a claim.

    Terms that the question holds are neutral. A text that is just the bare answer ("Cornish
    heath") states every claim that contains it.
    """
    if not text.units:
        return Verdict(False, "the other text is empty")
    weight = _novel(weights(claim, rules=rules), question)
    if not weight:
        return Verdict(False, "the claim holds no content word")
    window = best_window(weight, text, rules)
    if where := _denied(claim, window, text):
        return Verdict(False, f"the negation differs at {where}")
    bare = _bare_answer(text, question)
    if bare and bare <= claim.unit.terms:
        return Verdict(True, "the claim contains the bare answer")
    if differing := _differs(claim, text, question):
        return Verdict(False, differing)
    if window.score >= rules.agreed:
        return Verdict(True, f"stated: {window.closest().text}")
    cosine = vectors.best(claim.unit.text, text)
    if cosine is not None and cosine >= rules.same:
        return Verdict(True, f"said in other words, cosine {cosine:.2f}")
    return Verdict(False, f"not stated: {as_written(weight.keys() - window.held, claim.unit)}")


def denies(
    claim: Claim, text: Passage, question: frozenset[str], rules: Rules = RULES
) -> str | None:
    """Return the words by which a claim denies what the text states, or the reverse, or None."""
    weight = _novel(weights(claim, rules=rules), question)
    return _denied(claim, best_window(weight, text, rules), text) if weight else None


def _denied(claim: Claim, window: Window, text: Passage) -> str | None:
    if not window.units:
        return None
    closest = window.closest()
    found = negation_differs(claim.unit, closest, text)
    return as_written(found, claim.unit, closest) if found else None


def _novel(weight: dict[str, float], question: frozenset[str]) -> dict[str, float]:
    """Return the terms that the question lacks; all of them if it lacks none."""
    return {term: w for term, w in weight.items() if term not in question} or weight


def _bare_answer(text: Passage, question: frozenset[str]) -> frozenset[str]:
    """Return the terms of a text of one short sentence, without those of the question."""
    if len(text.units) > 1:
        return frozenset()
    found = text.units[0].terms
    return (found - question or found) if len(found) <= _SHORT else frozenset()


def _differs(claim: Claim, text: Passage, question: frozenset[str]) -> str | None:
    for number in sorted(claim.unit.numbers):
        if not text.has_number(number) and str(number) not in question:
            return f"the number {number} is not in the other text"
    for phrase, parts in claim.names.items():
        if parts and not any(part in question or has_form(text, part) for part in parts):
            return f"the name {phrase!r} is not in the other text"
    return None
