"""Agreement of answer and reference, and which words one of two sentences denies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from rag_eval_hooks.findings import Verdict
from rag_eval_hooks.judges.heuristic.passages import (
    NO_VECTORS,
    Passage,
    Vectors,
    Window,
    best_window,
)
from rag_eval_hooks.judges.heuristic.sentence import BREAK, Claim, Sentence, term_of
from rag_eval_hooks.text.folding import fold, folded_tokens, has_cjk, word_set
from rag_eval_hooks.text.languages import FUNCTION_WORDS

__all__ = ["agrees", "denies"]

_AGREED: Final = 0.55  # of a claim's terms: least part that answer and reference share
_SAME: Final = 0.8  # least cosine of texts that say the same
_SHORT: Final = 6  # terms; a text of no more is an answer in itself, not a description
_SCOPE: Final = 2  # content words that a negation reaches
_BEFORE: Final = word_set(
    "no not never cannot avoid avoids avoiding neither nor none nothing nobody nowhere unable lack "
    "lacks without nicht nichts kein keine keinen keinem keiner keines nie niemals niemand weder "
    "ohne لا لم لن ليس ليست بدون غير ne pas jamais aucun aucune rien sans nunca jamas ningun "
    "ninguna ninguno tampoco nadie sin нет не ни без"
)
_BEFORE_CJK: Final = frozenset("不没沒未無无")
_AFTER: Final = frozenset(("ない", "せん", "なか", "않다", "않는", "없다", "없는", "아니"))
_NOT_MEANT: Final = word_set(
    "only just merely nur solo solamente seulement less doubt matter mention longer yet mehr plus"
)
_LIGHT: Final = frozenset[str]().union(*FUNCTION_WORDS.values())


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
        said, other = negated(one.text), negated(two.text)
        affirmed = Counter(two.chain) - Counter(term for scope in other for term in scope)
        for scope in said:
            near = (one.terms - scope) & two.terms or has_cjk(one.text)
            near = near or one.terms <= scope or two.terms <= scope
            if scope <= affirmed.keys() and near:
                return ", ".join(sorted(scope))
    return None


@lru_cache(maxsize=512)
def negated(text: str) -> Sequence[frozenset[str]]:
    """Return for each negation of a sentence the terms that it reaches within its clause."""
    found = []
    for part in BREAK.split(text):
        words = folded_tokens(fold(part))
        found += [scope for at in range(len(words)) if (scope := _scope(words, at))]
    return found


def _scope(words: Sequence[str], at: int) -> frozenset[str]:
    word, following = words[at], words[at + 1 : at + 8]
    if word in _AFTER:
        return _reached(words[max(0, at - 4) : at][::-1])
    if not (word in _BEFORE or word.endswith("n't") or word[0] in _BEFORE_CJK):
        return frozenset()
    is_label = word == "no" and following[:1] and following[0].isdigit()
    is_open = words[at - 1 : at] == ["or"]  # "may or may not"
    meant = not is_label and not is_open and not (following[:1] and following[0] in _NOT_MEANT)
    return _reached(following) if meant else frozenset()


def _reached(words: Sequence[str]) -> frozenset[str]:
    found = [term for word in words if word not in _LIGHT and (term := term_of(word))]
    return frozenset(found[:_SCOPE])


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
