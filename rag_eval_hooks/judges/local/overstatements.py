"""Claims that say more than a sentence: certain for possible, another cause."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rag_eval_hooks.judges.local.opposites import HEDGES
from rag_eval_hooks.judges.local.roles import BREAK
from rag_eval_hooks.judges.local.terms import terms
from rag_eval_hooks.judges.local.units import Unit
from rag_eval_hooks.text.folding import word_set

__all__ = ["of_another_cause", "possible_only"]

_POSSIBLE: Final = HEDGES | word_set(
    "can able allowed permitted possible potential potentially sometimes often usually typically "
    "should option kann konnen darf durfen moglich erlaubt manchmal oft peut peuvent possible "
    "permis autorise parfois souvent puede pueden posible permitido veces suele"
)
_CLAUSE: Final = re.compile(r"[;:,–—]\s")
_ADVISED: Final = word_set("you we one sie man vous on usted se")
_MAY: Final = frozenset(("may",))  # the month
_ALIKE: Final = 0.75  # of a claim's terms
_BECAUSE: Final = re.compile(
    r"\b(?:because(?: of)?|caused by|due to|owing to|wegen|aufgrund|verursacht durch|weil"
    r"|à cause d|en raison d|parce qu|debido a|a causa d|por culpa d|porque)\w*",
    re.IGNORECASE,
)
_FEW: Final = 7  # terms of a claim that names little more than effect and cause


def possible_only(claim: Unit, sentence: Unit) -> str | None:
    """Return the word by which a sentence calls only possible what a claim states, or None."""
    if HEDGES.isdisjoint(sentence.words) or not _POSSIBLE.isdisjoint(claim.words):
        return None
    clauses = (Unit(clause) for clause in _CLAUSE.split(sentence.text))
    return next((hedge for clause in clauses if (hedge := _hedge(claim.terms, clause))), None)


def _hedge(said: frozenset[str], clause: Unit) -> str | None:
    words = clause.words
    if len(said & clause.terms) < _ALIKE * len(said):
        return None
    for at, word in enumerate(words):
        if word not in HEDGES or words[at - 1] in _ADVISED or word in clause.terms & _MAY:
            continue
        if not said.isdisjoint(clause.stems[at + 1 : at + 5]):
            return word
    return None


def of_another_cause(claim: Unit, sentences: Sequence[Unit]) -> Unit | None:
    """Return a sentence that names another cause of the same effect, or None."""
    mine = _causes(claim)
    effect = claim.terms - mine
    if not mine or len(claim.chain) > _FEW:
        return None
    named = [(unit, _causes(unit)) for unit in sentences]
    for unit, theirs in named:
        near = len(effect & (unit.terms - theirs)) >= _ALIKE * len(effect)
        if theirs and near and not any(mine & found for _, found in named):
            return unit
    return None


def _causes(unit: Unit) -> frozenset[str]:
    after = [BREAK.split(part)[0] for part in _BECAUSE.split(unit.text)[1:]]
    return frozenset(terms(" ".join(after))) & unit.terms
