"""Splits texts into claims, compares answer and reference, and rates the answer's relevance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rag_eval_hooks.findings import Verdict
from rag_eval_hooks.judges.heuristic.chunks import (
    BREAK,
    LEXICONS,
    Sentence,
    SplitText,
    closest,
    terms,
)
from rag_eval_hooks.text.folding import (
    compiled,
    content_tokens,
    distinct,
    fold,
    folded_tokens,
    is_content,
    tokens,
    toml_of,
    word_set,
)
from rag_eval_hooks.text.key_terms import Searched
from rag_eval_hooks.text.measures import agree
from rag_eval_hooks.text.refusals import refusal
from rag_eval_hooks.text.sentences import is_question, sentences, strip_marker

_AGREED: Final = 0.55  # minimum fraction of a claim's terms that answer and reference share
_BARE: Final = 6  # maximum number of terms of a short answer
_STEPS: Final = 4  # number of direct-relevance ratings above 0
_LONGEST: Final = 6  # maximum number of words of a short reference
_MOST_ALIASES: Final = 200
_NAMED: Final = 3  # number of words before a family name that may contain the first name
_DENIALS: Final = frozenset[str]().union(*(lexicon.denials for lexicon in LEXICONS.values()))
_CJK_DENIALS: Final = word_set("不 没 沒 未 無 无 없 ない せん なか 않다 않는")
_ASIDE: Final = re.compile(r"\([^()]*\)")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
PATTERNS: Final = compiled(toml_of("claims.toml", __package__))
_HEADING, _OPENING, _CITATION = map(PATTERNS.__getitem__, ("heading", "opening", "citation"))
_JOINTS = frozenset(";；,")  # noqa: RUF001 - the second semicolon is Chinese
_MIN_CLAUSE = 3  # content words; a shorter clause is not a claim


def claims(text: str) -> tuple[str, ...]:
    # A text of headings alone, such as "**Cornish heath**", has claims.
    found = distinct(_claims(text, headings=False)) or distinct(_claims(text, headings=True))
    return tuple(found)


def _claims(text: str, *, headings: bool) -> Iterator[str]:
    for sentence in sentences(text):
        body = _bare(sentence)
        heads = not headings and (_HEADING.match(sentence) or _HEADING.match(body))
        talks = PATTERNS["talk"].match(body) or PATTERNS["no_answer"].search(body)
        if not (is_question(sentence) or heads or talks):
            yield from _clauses(body)


def _bare(sentence: str) -> str:
    body = strip_marker(sentence)
    if PATTERNS["citing"].search(body):
        body = _CITATION.sub("", body)
    while (shorter := _OPENING.sub("", body, count=1)) != body and shorter.strip(" .!"):
        body = shorter
    return body.strip()


def _clauses(sentence: str) -> list[str]:
    if _JOINTS.isdisjoint(sentence):
        return [sentence.strip()]
    cuts = [0, *(cut for match in PATTERNS["clause"].finditer(sentence) for cut in match.span())]
    clauses: list[tuple[int, int, int]] = []  # start, end, number of content words
    for start, end in zip(cuts[::2], [*cuts[1::2], len(sentence)], strict=True):
        size = len(content_tokens(sentence[start:end]))
        if clauses and min(size, clauses[-1][2]) < _MIN_CLAUSE:
            start, size = clauses[-1][0], clauses.pop()[2] + size
        clauses.append((start, end, size))
    return [sentence[start:end].strip() for start, end, _ in clauses]


def agrees(claim: Sentence, text: SplitText, question: frozenset[str]) -> Verdict:
    if not text.sentences:
        return Verdict(False, "the judge compares the claim with an empty text")
    novel = claim.terms - question or claim.terms
    if not novel:
        return Verdict(False, "the claim contains no content word")
    if denied := _denied(claim, text, question):
        return Verdict(False, f"either the claim or the text negates {denied}, but not both")
    stated = text.sentences[0].terms
    is_bare = len(text.sentences) == 1 and 0 < len(stated) <= _BARE
    if is_bare and (stated - question or stated) <= claim.terms:
        return Verdict(True, "the text is short, and its key words are in the claim")
    if differing := _differs(claim, text, question):
        return Verdict(False, differing)
    near = closest(novel, text)
    if near.score >= _AGREED:
        return Verdict(True, f"the text states the claim: {near.text}")
    lacking = sorted(novel - text.index.keys()) or sorted(novel)
    return Verdict(False, f"the text does not state: {', '.join(lacking)}")


def _denied(claim: Sentence, text: SplitText, question: frozenset[str]) -> str:
    other = closest(claim.terms - question or claim.terms, text).sentence
    for one, two in ((claim, other), (other, claim)) if other else ():
        there = frozenset[str]().union(*_negated(two.text))
        for denied in _negated(one.text):
            if (shared := denied & two.terms) and not shared & there:
                return ", ".join(sorted(shared))
    return ""


def _negated(text: str) -> Sequence[frozenset[str]]:
    return [
        frozenset(terms(clause))
        for clause in map(fold, BREAK.split(text))
        if not _DENIALS.isdisjoint(folded_tokens(clause))
        or "n't" in clause
        or any(mark in clause for mark in _CJK_DENIALS)
    ]


def _differs(claim: Sentence, text: SplitText, question: frozenset[str]) -> str:
    for said in claim.measures:
        if f"{said.number:g}" not in question and not any(agree(said, x) for x in text.measures):
            return f"the number {said.text} is in the claim but not in the text"
    for phrase, parts in claim.names.items():
        if parts and not any(part in question or text.has_form(part) for part in parts):
            return f"the name {phrase!r} is in the claim but not in the text"
    return ""


class _Answer:
    def __init__(self, text: str) -> None:
        self.passage = SplitText(text)
        self.claims = [Sentence(claim) for claim in claims(text)]
        self.tokens = tokens(text)
        self.searched = Searched(self.tokens)
        self.words = _WORD.findall(text)


def classification(question: str, answer: str, reference: str) -> Verdict:
    asked, listed = frozenset(terms(question)), aliases(reference)
    said = _Answer(answer)
    found = [_states(asked, said, alias) for alias in listed]
    return next((verdict for verdict in found if verdict.holds), found[-1])


def aliases(reference: str) -> Sequence[str]:
    parts = [part.strip() for part in reference.replace("|", "/").split("/") if part.strip()]
    short = all(len(part.split()) <= _LONGEST and part[-1] not in ".!?" for part in parts)
    lists = short and 0 < len(parts) <= _MOST_ALIASES and all(len(part) > 1 for part in parts)
    return parts if lists else [reference]


def _states(asked: frozenset[str], answer: _Answer, reference: str) -> Verdict:
    stated = Verdict(False, "the reference is empty")
    for claim in map(Sentence, claims(reference) or (reference,)):
        stated = agrees(claim, answer.passage, asked)
        if not stated.holds and not _denied(claim, answer.passage, asked):
            stated = _given_otherwise(reference, answer) or stated
        if not stated.holds:
            return stated
    other = SplitText(reference)
    for claim in answer.claims:
        if denied := _denied(claim, other, asked):
            return Verdict(False, f"exactly one of the answer and the reference negates {denied}")
    return stated


def _given_otherwise(reference: str, answer: _Answer) -> Verdict | None:
    reference = _ASIDE.sub("", reference).strip(" .") or reference
    if len(reference.split()) > _LONGEST:
        return None
    words = tokens(reference)
    if any(map(is_content, words)):
        is_said = answer.searched.holds_words(words)
    else:  # The answer must end with a name such as "The Who".
        is_said = bool(words) and answer.tokens[-len(words) :] == words
    if is_said:
        return Verdict(True, f"the answer says {reference!r}")
    if _names_person(_WORD.findall(reference), answer.words):
        return Verdict(True, f"the name {reference!r} appears in another form")
    return None


def _names_person(name: Sequence[str], words: Sequence[str]) -> bool:
    if not 1 < len(name) <= _LONGEST or not all(part[0].isupper() for part in name):
        return False
    first, last = fold(name[0]), fold(name[-1])
    return any(
        word[0].isupper() and fold(word)[:1] == first[:1]
        for at, family in enumerate(words)
        if fold(family) == last and len(last) > 1
        for word in words[max(0, at - _NAMED) : at]
    )


def direct_relevance(question: str, answer: str) -> float:
    if indistinct(answer):
        return 0.0
    asked, said = frozenset(terms(question)), SplitText(answer)
    share = len(asked & said.index.keys()) / len(asked) if asked else 1.0
    if len(said.index) <= _BARE:
        share = max(share, 0.5)
    return round(_STEPS * share) / _STEPS


def indistinct(text: str) -> bool:
    found = [Sentence(claim) for claim in claims(text)]
    return refusal(text) is not None or all(
        refusal(one.text) is not None
        or (PATTERNS["hedge"].search(one.text) and not (one.names or one.measures))
        for one in found
    )
