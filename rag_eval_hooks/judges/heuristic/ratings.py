"""Ratings by rules: correct or not, direct or not, indistinct or not. None by a rubric."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from rag_eval_hooks.findings import Verdict
from rag_eval_hooks.judges.heuristic.agreement import agrees, denies
from rag_eval_hooks.judges.heuristic.claims import claims
from rag_eval_hooks.judges.heuristic.passages import Passage, Vectors
from rag_eval_hooks.judges.heuristic.sentence import Claim, terms
from rag_eval_hooks.text.folding import contains, fold, is_content, tokens
from rag_eval_hooks.text.measures import Measure, agree, measures
from rag_eval_hooks.text.refusals import refusal

__all__ = ["aliases", "classification", "direct_relevance", "indistinct"]

_STEPS: Final = 4  # of direct relevance above 0
_SHORT: Final = 6  # content words; an answer of no more need not repeat the question
_LONGEST: Final = 6  # words of a reference that is an answer in itself
_MOST_ALIASES: Final = 200
_NAMED: Final = 3  # words between a family name and its first initial
_MARK: Final = re.compile(r"(?<=[a-z]{4})\d{1,2}(?=[\s.,;:)]|$)")
_SUPERSCRIPT: Final = re.compile(r"[\u00b9\u00b2\u00b3\u2070-\u2079]")
_ASIDE: Final = re.compile(r"\([^()]*\)")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_HEDGE: Final = re.compile(
    r"\b(?:maybe|perhaps|possibly|might|could|may|(?:it|that|this) (?:all )?depends|hard to say"
    r"|not (?:quite |entirely |really )?sure|i (?:think|guess|suppose)|some(?:thing|how|times)"
    r"|vielleicht|möglicherweise|vermutlich|kommt darauf an|ربما)\b"
    r"|也许|或许|可能|かもしれ|たぶん|おそらく",
    re.IGNORECASE,
)


def classification(question: str, answer: str, reference: str, vectors: Vectors) -> Verdict:
    """Return whether the answer states all that the reference does and denies none of it.

    Of a reference that lists aliases, "USA / United States", one is enough.
    """
    asked = frozenset(terms(question))
    marked = _Answer(answer)
    bare = _Answer(_MARK.sub("", answer))  # without footnotes; but "Python3" is no word with one
    found = [
        _states(asked, marked if _MARK.search(alias) else bare, alias, vectors)
        for alias in aliases(reference)
    ]
    return next((verdict for verdict in found if verdict.holds), found[-1])


def reference_claims(reference: str) -> Sequence[str]:
    """Return the claims of a reference; without one, the reference."""
    return claims(reference) or (reference,)


class _Answer:
    """An answer that is compared with each alias, taken apart once."""

    def __init__(self, text: str) -> None:
        self.text = _SUPERSCRIPT.sub("", text)

    @cached_property
    def passage(self) -> Passage:
        return Passage(self.text)

    @cached_property
    def claims(self) -> Sequence[Claim]:
        return [Claim.of(text) for text in claims(self.text)]

    @cached_property
    def tokens(self) -> Sequence[str]:
        return tokens(self.text)

    @cached_property
    def words(self) -> Sequence[str]:
        return _WORD.findall(self.text)

    @cached_property
    def measures(self) -> Sequence[Measure]:
        return measures(self.text)


def _states(asked: frozenset[str], answer: _Answer, reference: str, vectors: Vectors) -> Verdict:
    said = answer.passage
    stated = Verdict(False, "the reference is empty")
    for text in reference_claims(reference):
        claim = Claim.of(text)
        stated = agrees(claim, said, asked, vectors)
        if not stated.holds and not denies(claim, said, asked):
            form = _given_otherwise(reference, answer)
            stated = Verdict(True, form) if form else stated
        if not stated.holds:
            return stated
    other = Passage(reference)
    for claim in answer.claims:
        if denied := denies(claim, other, asked):
            return Verdict(False, f"the negation differs at {denied}")
    return stated


def direct_relevance(question: str, answer: str, vectors: Vectors) -> float:
    """Return the degree to which an answer addresses the question: 0, 0.25, 0.5, 0.75 or 1.

    The share of the question's content words that the answer holds, with vectors its mean with
    the cosine, to the nearest step. An answer that states nothing is at 0; a short one, which
    need not repeat the question, at 0.5 or above.
    """
    if indistinct(answer):
        return 0.0
    asked, said = frozenset(terms(question)), Passage(answer)
    share = len(asked & said.index.keys()) / len(asked) if asked else 1.0
    cosine = vectors.best(question, said)
    if cosine is not None:
        share = (share + max(cosine, 0.0)) / 2
    if len(said.index) <= _SHORT:
        share = max(share, 0.5)
    return round(_STEPS * share) / _STEPS


def indistinct(text: str) -> bool:
    """Return whether a text states nothing: it is blank, asks, refuses, or only hedges.

    A hedged sentence counts as stating something when it names a name or a number.
    """
    found = claims(text)
    return not found or refusal(text) is not None or all(map(_states_nothing, found))


def _states_nothing(claim: str) -> bool:
    if refusal(claim) is not None:
        return True
    if not _HEDGE.search(claim):
        return False
    parts = Claim.of(claim)
    return not (parts.names or parts.sentence.numbers)


def aliases(reference: str) -> Sequence[str]:
    """Return the short answers that a reference lists, "USA / United States", or it alone."""
    parts = [part.strip() for part in reference.replace("|", "/").split("/") if part.strip()]
    short = all(len(part.split()) <= _LONGEST and part[-1] not in ".!?" for part in parts)
    lists = short and 0 < len(parts) <= _MOST_ALIASES and all(len(part) > 1 for part in parts)
    return parts if lists else [reference]


def _given_otherwise(reference: str, answer: _Answer) -> str | None:
    """Return as a reason in which other form an answer gives a short reference, or None."""
    reference = _ASIDE.sub("", reference).strip(" .") or reference
    if len(reference.split()) > _LONGEST:
        return None
    if _stands_alone(reference, answer):
        return f"it says {reference!r}"
    return _same_quantity(reference, answer) or _same_person(reference, answer)


def _stands_alone(reference: str, answer: _Answer) -> bool:
    """Return whether an answer has the reference word for word; one without content at its end."""
    words = tokens(reference)
    if any(map(is_content, words)):
        return contains(answer.tokens, words)
    return bool(words) and answer.tokens[-len(words) :] == words


def _same_quantity(reference: str, answer: _Answer) -> str | None:
    """Find a quantity that the reference is: equal, or a date in part."""
    wanted = measures(reference)
    if len(wanted) != 1 or _WORD.search(reference.replace(wanted[0].text, "")):
        return None
    for said in answer.measures:
        if agree(wanted[0], said) or (wanted[0].unit == "date" and agree(said, wanted[0])):
            return f"{said.text!r} agrees with {wanted[0].text!r}"
    return None


def _same_person(reference: str, answer: _Answer) -> str | None:
    """Find a family name behind the initial, or a short form, of the given name."""
    words = _WORD.findall(reference)
    if not 1 < len(words) <= _LONGEST or not all(word[0].isupper() for word in words):
        return None
    first, last = fold(words[0]), fold(words[-1])
    for before in _before(answer.words, last):
        if any(word[0].isupper() and fold(word)[:1] == first[:1] for word in before):
            return f"the name {reference!r} stands there in another form"
    return None


def _before(words: Sequence[str], last: str) -> Iterator[Sequence[str]]:
    for at, word in enumerate(words):
        if fold(word) == last and len(last) > 1:
            yield words[max(0, at - _NAMED) : at]
