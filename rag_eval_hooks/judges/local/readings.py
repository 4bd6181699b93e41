"""One claim read against one chunk: window, equivalents, contradiction and probability."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from math import fsum
from typing import Final

from rag_eval_hooks.judges.local.contradictions import (
    Clash,
    clash,
    is_minimal,
    reversed_words,
)
from rag_eval_hooks.judges.local.features import NAMES, Asked, features
from rag_eval_hooks.judges.local.negations import DENYING
from rag_eval_hooks.judges.local.opposites import QUALIFIED, SYNONYMS
from rag_eval_hooks.judges.local.support_model import support_model
from rag_eval_hooks.judges.local.terms import term_of, terms
from rag_eval_hooks.judges.local.units import Chunks, Claim, Passage, Unit
from rag_eval_hooks.judges.local.windows import RULES, Rules, Window, best_window, weights
from rag_eval_hooks.text.folding import word_set
from rag_eval_hooks.text.languages import FUNCTION_WORDS, language
from rag_eval_hooks.text.measures import agree, is_total
from rag_eval_hooks.text.sentences import is_question

__all__ = ["Reading", "is_known", "read"]

_READ: Final = 0.55  # least score of a chunk that may support the claim beside the best one
_LIGHT: Final = frozenset[str]().union(*FUNCTION_WORDS.values())
_BY: Final = word_set("by von vom durch par por")  # the passive turns the order round
_PAIRS: Final = NAMES.index("bigrams")
_STATED: Final = 0.5  # of a claim: least part that stands there where the rest is an addition
_TAIL: Final = re.compile(
    r"(?:,|\s)\s*(?:and|und|et|y|as well as|sowie|ainsi que|because|weil|parce que|porque)\s",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Verdict of one chunk on one claim.

    Attributes:
        window: The sentences that cover the claim best.
        probability: Probability that they support it.
        clash: Why they do not, or None.
        features: Features behind the probability; empty where none were computed.
        doubt: Why words in common do not mean support here, or None.
        firm: Whether a rule raised the doubt, which no model lifts.
        entailed: Whether an entailment model says that the window states the claim.
    """

    window: Window
    probability: float
    clash: Clash | None
    features: tuple[float, ...] = ()
    doubt: str | None = None
    firm: bool = False
    entailed: bool = False


def read(
    claim: Claim,
    chunks: Chunks,
    question: frozenset[str],
    rules: Rules = RULES,
) -> list[Reading]:
    """Return a reading of each chunk; those far from the claim are not looked at closely."""
    weight = weights(claim, question, rules)
    windows = [
        _with_equals(claim, best_window(weight, passage, rules, claim.unit), weight)
        for passage in chunks
    ]
    scores = sorted(window.score for window in windows)
    least = min(_READ, scores[-1])
    second = scores[-2] if len(scores) > 1 else 0.0
    asked = Asked.of(claim, chunks, question)
    return [
        _reading(asked, window, second, passage, question)
        if window.score >= least
        else Reading(window, 0.0, None)
        for window, passage in zip(windows, chunks, strict=True)
    ]


def _reading(
    asked: Asked, window: Window, second: float, passage: Passage, question: frozenset[str]
) -> Reading:
    claim, chunks = asked.claim, asked.chunks
    found = features(asked, window, second, passage)
    minimal = is_minimal(claim, window)
    against = clash(claim, window, passage, minimal=minimal)
    if against is None and minimal and window.score >= _STATED:
        against = _added(claim, window, chunks, question)
    probability = support_model().probability(found)
    doubt = None
    firm = against is not None and not against.by_value and not minimal
    if against is not None and firm:
        doubt, against = against.reason, None
    elif against is None and probability >= support_model().unsure[1]:
        doubt = _doubt(claim, window, found, chunks, question)
    return Reading(window, probability, against, tuple(found), doubt, firm)


def _with_equals(claim: Claim, window: Window, weight: dict[str, float]) -> Window:
    """Return the window with the terms that it states in other words."""
    missing = weight.keys() - window.held
    if not missing or not window.units:
        return window
    both = zip(claim.unit.words, claim.unit.stems, strict=True)
    words = [word for word, term in both if term in missing]
    equal = missing & {
        *_equal_values(claim, window, missing),
        *_equal_words(words, claim.unit, window),
    }
    if not equal:
        return window
    gained = fsum(weight[term] for term in equal) / sum(weight.values())
    return replace(window, score=min(1.0, window.score + gained), held=window.held | equal)


def _equal_values(claim: Claim, window: Window, missing: Set[str]) -> Iterator[str]:
    lacking = [pair for pair in claim.unit.measured if not missing.isdisjoint(pair[1])]
    stated = [m for unit in window.units for m in unit.measures] if lacking else []
    for said, wanted in lacking:
        if any(agree(said, other) for other in stated) or is_total(said, stated):
            yield from wanted


def _equal_words(words: Sequence[str], claim: Unit, window: Window) -> Iterator[str]:
    turned = reversed_words(claim, window)
    for word in words:
        same = SYNONYMS.get(word)
        if word in turned or (same and any(not same.isdisjoint(u.words) for u in window.units)):
            yield term_of(word)


def _added(claim: Claim, window: Window, chunks: Chunks, question: frozenset[str]) -> Clash | None:
    """Find what a claim adds behind "and" or "because" and no chunk states any word of."""
    for match in _TAIL.finditer(claim.unit.text):
        tail = claim.unit.text[match.end() :]
        every = [term for term in terms(tail) if term in claim.unit.terms]
        added = [term for term in every if term not in question]
        known = [any(is_known(term, passage) for passage in chunks) for term in added[:4]]
        whole = len(added) > 1 and len(added) == len(every) and not any(known)
        if whole or (
            added[:1] == every[:1] and known[:1] == [False] and _ends(claim, match, window)
        ):
            return Clash(f"no chunk says {tail.strip(' .')!r}", contrary=False)
    return None


def _ends(claim: Claim, joint: re.Match[str], window: Window) -> bool:
    """Return whether the window has all that stands before a joint, and joins nothing to it."""
    before = [t for t in terms(claim.unit.text[: joint.start()]) if t in claim.unit.terms]
    text = " ".join(unit.text for unit in window.units)
    joined = [terms(text[: other.start()])[-1:] for other in _TAIL.finditer(text)]
    return bool(before) and before[-1:] not in joined and window.held.issuperset(before)


def is_known(term: str, passage: Passage) -> bool:
    """Return whether a passage has a term, or one that begins like it."""
    head = term[: max(4, len(term) - 3)]
    return term in passage.index or (len(term) > 3 and f" {head}" in passage.joined)


def _doubt(
    claim: Claim,
    window: Window,
    found: Sequence[float],
    chunks: Chunks,
    question: frozenset[str],
) -> str | None:
    """Return why words in common do not mean support here, or None."""
    whole = window.held.issuperset(claim.unit.terms)
    if (
        whole
        and language(claim.unit.words) is not None
        and found[_PAIRS] <= 0.2
        and _in_order(claim.unit.chain, window) < 0.7
        and not _BY & {*claim.unit.words, *window.closest().words}
    ):
        return "the chunk has its words in quite another order"
    if window.score >= _STATED and _denies_alone(claim, window):
        return "it denies something, and the chunk denies nothing"
    if is_minimal(claim, window):
        limited = _qualified(claim.unit, window.closest())
        return limited or _lacking(claim.unit, window, chunks, question)
    return _replaced(claim, window, chunks)


def _qualified(claim: Unit, sentence: Unit) -> str | None:
    """Return as a reason what limits the sentence and not the claim, or the reverse."""
    if is_question(sentence.text):
        return "the chunk only asks"
    limits = QUALIFIED[language([*claim.words, *sentence.words])]
    said = set(limits.findall(" ".join(claim.words)))
    stated = set(limits.findall(" ".join(sentence.words)))
    return f"one of the two says {min(said ^ stated)!r}" if said != stated else None


def _lacking(claim: Unit, window: Window, chunks: Chunks, question: frozenset[str]) -> str | None:
    """Return as a reason what a short claim says and no chunk does; a stated value carries it."""
    for word, term in () if claim.measures else zip(claim.words, claim.stems, strict=True):
        if not term or word in _LIGHT or term in window.held | question:
            continue
        if not any(is_known(term, passage) for passage in chunks):
            return f"no chunk says {word!r}"
    return None


def _in_order(terms_: Sequence[str], window: Window) -> float:
    """Return the share of neighbouring held terms that the window has in the same order."""
    stated = [term for unit in window.units for term in unit.chain]
    order = [stated.index(term) for term in terms_ if term in stated]
    pairs = list(pairwise(order))
    return sum(a <= b for a, b in pairs) / len(pairs) if pairs else 1.0


def _denies_alone(claim: Claim, window: Window) -> bool:
    return bool(claim.unit.negated) and not any(
        unit.negated or not DENYING.isdisjoint(unit.words) or reversed_words(claim.unit, window)
        for unit in window.units
    )


def _replaced(claim: Claim, window: Window, chunks: Chunks) -> str | None:
    """Return a reason if the claim has an unknown word just where the chunk has another one."""
    said = claim.unit.words
    held = window.held
    for at, (word, stem) in enumerate(zip(said, claim.unit.stems, strict=True)):
        if not stem or stem in held or word in _LIGHT:
            continue
        if any(is_known(stem, passage) for passage in chunks):
            continue
        before, after = said[at - 1 : at], said[at + 1 : at + 2]
        for unit in window.units:
            if not {*before, *after} <= unit.known:
                continue
            for there, other in enumerate(unit.words):
                around = unit.words[there - 1 : there], unit.words[there + 1 : there + 2]
                if around == (before, after) and other not in said and unit.stems[there]:
                    return f"it says {word!r} where the chunk says {other!r}"
    return None
