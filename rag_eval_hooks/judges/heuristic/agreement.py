"""Agreement of answer and reference, and which words one of two sentences denies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from rag_eval_hooks.findings import Verdict
from rag_eval_hooks.judges.heuristic.passages import (
    NO_VECTORS,
    Passage,
    Vectors,
    Window,
    best_window,
)
from rag_eval_hooks.judges.heuristic.sentence import BREAK, LEXICONS, Claim, Sentence, terms
from rag_eval_hooks.text.folding import fold, folded_tokens, has_cjk, word_set
from rag_eval_hooks.text.short_cache import cache_short

__all__ = ["agrees", "denies"]

_AGREED: Final = 0.55  # of a claim's terms: least part that answer and reference share
_SAME: Final = 0.8  # least cosine of texts that say the same
_SHORT: Final = 6  # terms; a text of no more is an answer in itself, not a description
_DENIALS: Final = frozenset[str]().union(
    word_set(
        "without unable lack lacks avoid none nobody nothing nowhere nichts ohne sans sin rien без"
    ),
    *(lexicon.denials for lexicon in LEXICONS.values()),
)
_CJK_DENIALS: Final = (
    "不",
    "没",
    "沒",
    "未",
    "無",
    "无",
    "ない",
    "せん",
    "なか",
    "않다",
    "않는",
    "없",
)
_HARMLESS: Final = re.compile(
    r"\b(?:not (?:only|just|merely)|no (?:less|doubt|longer than|\d)|nicht nur|no solo)\b"
)


def agrees(
    claim: Claim, text: Passage, question: frozenset[str], vectors: Vectors = NO_VECTORS
) -> Verdict:
    """Return whether a text that answers the same question states a claim.

    Terms that the question holds are neutral. A text that is just the bare answer ("Cornish
    heath") states every claim that contains it.
    """
    if not text.sentences:
        return Verdict(False, "the other text is empty")
    weight = _novel(claim, question)
    if not weight:
        return Verdict(False, "the claim holds no content word")
    window = best_window(weight, text)
    if where := _denied(claim.sentence, window):
        return Verdict(False, f"the negation differs at {where}")
    bare = _bare_answer(text, question)
    if bare and bare <= claim.sentence.terms:
        return Verdict(True, "the claim contains the bare answer")
    if differing := _differs(claim, text, question):
        return Verdict(False, differing)
    if window.score >= _AGREED:
        return Verdict(True, f"stated: {window.closest().text}")
    cosine = vectors.best(claim.sentence.text, text)
    if cosine is not None and cosine >= _SAME:
        return Verdict(True, f"said in other words, cosine {cosine:.2f}")
    return Verdict(False, f"not stated: {', '.join(sorted(weight.keys() - window.held))}")


def denies(claim: Claim, text: Passage, question: frozenset[str]) -> str | None:
    """Return the words by which a claim denies what the text states, or the reverse, or None."""
    weight = _novel(claim, question)
    return _denied(claim.sentence, best_window(weight, text)) if weight else None


def _novel(claim: Claim, question: frozenset[str]) -> Mapping[str, float]:
    """Return weights of the terms that the question lacks; of all of them if it lacks none."""
    names = frozenset[str]().union(*claim.names.values())
    weight = {
        term: 1.5 if term in names or term[0].isdigit() else 1.0 for term in claim.sentence.chain
    }
    return {term: w for term, w in weight.items() if term not in question} or weight


def _denied(claim: Sentence, window: Window) -> str | None:
    if not window.sentences:
        return None
    sentence = window.closest()
    for one, two in ((claim, sentence), (sentence, claim)):
        there = frozenset[str]().union(*negated(two.text))
        for terms_ in negated(one.text):
            if (shared := terms_ & two.terms) and not shared & there:
                return ", ".join(sorted(shared))
    return None


@cache_short(512)
def negated(text: str) -> Sequence[frozenset[str]]:
    """Return the terms of each clause of a sentence that denies something."""
    clauses = (_HARMLESS.sub("", fold(part)) for part in BREAK.split(text))
    return [
        frozenset(terms(clause))
        for clause in clauses
        if any(word in _DENIALS or word.endswith("n't") for word in folded_tokens(clause))
        or (has_cjk(clause) and any(mark in clause for mark in _CJK_DENIALS))
    ]


def _bare_answer(text: Passage, question: frozenset[str]) -> frozenset[str]:
    """Return the terms of a text of one short sentence, without those of the question."""
    if len(text.sentences) > 1:
        return frozenset()
    found = text.sentences[0].terms
    return (found - question or found) if len(found) <= _SHORT else frozenset()


def _differs(claim: Claim, text: Passage, question: frozenset[str]) -> str | None:
    for number in sorted(claim.sentence.numbers):
        if not text.has_number(number) and str(number) not in question:
            return f"the number {number} is not in the other text"
    for phrase, parts in claim.names.items():
        if parts and not any(part in question or text.has_form(part) for part in parts):
            return f"the name {phrase!r} is not in the other text"
    return None
