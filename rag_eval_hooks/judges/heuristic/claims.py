"""Claims by sentence and clause splitting."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_eval_hooks.text.folding import content_tokens, distinct
from rag_eval_hooks.text.sentences import is_question, sentences, strip_marker

__all__ = ["claims"]

# Bounded, so that no pattern takes time by the square of a run.
_S, _SS = r"\s{0,3}", r"\s{1,3}"
_SOURCE = r"(?:passage|document|context|text|source|excerpt|article|information|search result)"
_NUMBER = "[0-9]{1,4}"
_AND = rf"(?:,?{_S}(?:and|&|to)|{_S}[,–-]){_S}(?:{_SOURCE}s?{_S})?"
_CITED = rf"{_SOURCE}s?{_S}\#?{_NUMBER}(?:{_AND}{_NUMBER}){{0,20}}"
_SOURCES = (
    rf"(?:(?:the|this|these|your|both){_SS})?(?:(?:given|provided){_SS})?(?:{_CITED}|{_SOURCE}s?)"
)
_CITATION = re.compile(
    rf"{_S}[(\[](?:[a-z :]{{0,20}}\s)?{_CITED}{_S}[)\]]"
    rf"|{_S}\[{_NUMBER}(?:{_S}[,-]{_S}{_NUMBER}){{0,20}}\]"
    rf"|,?{_SS}(?:according to|as (?:\w{{1,20}}\s)?in|(?:\w{{1,20}}ed\s)?in|from){_SS}"
    rf"(?=passage|excerpt){_CITED}",
    re.IGNORECASE,
)
_OPENINGS = (
    rf"(?:yes|sure|certainly|of course|absolutely|well)\b[,!.:]?{_S}",
    r"(?:based (?:up)?on|according to|from|in|per"
    r"|as (?:stated|mentioned|described|per)(?: in| by)?)"
    rf"{_SS}{_SOURCES}(?:{_SS}(?:provided|given|above|you provided))?{_S},{_S}",
    rf"{_SOURCES}{_SS}(?:also{_SS})?(?:states?|says?|mentions?|suggests?|notes?|explains?"
    r"|recommends?|describes?|indicates?|provides?|discuss(?:es)?|clarif(?:y|ies))"
    rf"(?:{_SS}that)?{_SS}",
    r"it(?:'s|’s| is) (?:also )?(?:important|worth|essential|mentioned|stated|noted)"
    rf"(?: (?:to note|to remember|to mention|noting|mentioning))? that{_SS}",
)
_OPENING = re.compile(f"^(?:{'|'.join(_OPENINGS)})", re.IGNORECASE)
_TALK = re.compile(
    r"^(?:(?:i'?m )?(?:sorry|sure|certainly|of course|absolutely|great question)\b[^.]{0,60}"
    r"|i (?:hope|can help|would be happy|am happy|apologi[sz]e|do not know|don't know)\b.*"
    r"|let me know .*|(?:hope )?this helps.*)$",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    rf"\b(?:unable to answer|cannot (?:be )?answer|can't answer)\b"
    rf"|\b{_SOURCE}s?\b.{{0,40}}\b(?:do|does|did)"
    r"(?: not|n't) (?:\w+ )?(?:contain|mention|provide|specify|state|include|say|give|offer)\b",
    re.IGNORECASE,
)
_CITING = re.compile(r"[\[(]|passage|excerpt", re.IGNORECASE)
_JOINTS = frozenset(";；,")
_HEADING = re.compile(r"^(?:#{1,6}\s.*|[*_]{2}[^*_]+[*_]{2}:?|.*[:：][*_\s]*)$")
_CLAUSE = re.compile(
    rf"[;；,](?:(?<!,){_S}|(?<=,){_SS}(?:(?:but|while|whereas|although|though){_SS}"
    rf"|and{_SS}(?=(?:he|she|it|they|this|these|the|there)\s)))",
    re.IGNORECASE,
)
_MIN_CLAUSE = 3  # content words; a shorter clause does not stand for itself


def claims(text: str) -> tuple[str, ...]:
    """Return distinct statements of a text, one per sentence or clause, in order.

    Questions, headings, lead-ins ("Here are the steps:"), courtesies and sentences on what the
    passages fail to say are no claims. List markers, citations ("[2]", "(Passage 1)") and
    openings such as "Based on the passages," are cut off. If the heading rule alone would
    leave nothing of a text, the text is kept whole: "Cornish heath" is one claim.
    """
    found = distinct(_claims(text, headings=False)) or distinct(_claims(text, headings=True))
    return tuple(found)


def _claims(text: str, *, headings: bool) -> Iterator[str]:
    for sentence in sentences(text):
        if is_question(sentence) or (_HEADING.match(sentence) and not headings):
            continue
        body = _bare(sentence)
        if not headings and _HEADING.match(body):
            continue
        if _TALK.match(body) or (_denies(body.lower()) and _NO_ANSWER.search(body)):
            continue
        yield from _clauses(body)


def _denies(lower: str) -> bool:
    return "not" in lower or "n't" in lower or "unable" in lower


def _bare(sentence: str) -> str:
    """Return the sentence without markers, citations and openings."""
    body = strip_marker(sentence)
    if _CITING.search(body):
        body = _CITATION.sub("", body)
    while (shorter := _OPENING.sub("", body, count=1)) != body and shorter.strip(" .!"):
        body = shorter
    return body.strip()


def _clauses(sentence: str) -> list[str]:
    """Return the clauses; a very short clause stays with its predecessor."""
    if _JOINTS.isdisjoint(sentence):
        return [sentence.strip()]
    cuts = [0, *(cut for match in _CLAUSE.finditer(sentence) for cut in match.span())]
    clauses: list[tuple[int, int, int]] = []  # start, end, content words
    for start, end in zip(cuts[::2], [*cuts[1::2], len(sentence)], strict=True):
        size = len(content_tokens(sentence[start:end]))
        if clauses and min(size, clauses[-1][2]) < _MIN_CLAUSE:
            start, size = clauses[-1][0], clauses.pop()[2] + size
        clauses.append((start, end, size))
    return [sentence[start:end].strip() for start, end, _ in clauses]
