"""Splits a text into claims, at sentences and clauses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rag_eval_hooks.text.folding import compiled, content_tokens, distinct, toml_of
from rag_eval_hooks.text.sentences import is_question, sentences, strip_marker

PATTERNS: Final = compiled(toml_of("claims.toml", __package__))
_HEADING, _OPENING, _CITATION = map(PATTERNS.__getitem__, ("heading", "opening", "citation"))
_JOINTS = frozenset(";；,")  # noqa: RUF001 - the second is Chinese
_MIN_CLAUSE = 3  # content words; a shorter clause is not a claim


def claims(text: str) -> tuple[str, ...]:
    """Return the distinct claims of a text, one per sentence or clause, in order.

    Questions, headings, lead-ins ("Here are the steps:"), courtesies and sentences about missing
    information are not claims. List markers, citations and openings such as "Based on the
    passages," are removed. A text that looks like a heading alone, such as "Cornish heath", is one
    claim.
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
        if PATTERNS["talk"].match(body) or PATTERNS["no_answer"].search(body):
            continue
        yield from _clauses(body)


def _bare(sentence: str) -> str:
    body = strip_marker(sentence)
    if PATTERNS["citing"].search(body):
        body = _CITATION.sub("", body)
    while (shorter := _OPENING.sub("", body, count=1)) != body and shorter.strip(" .!"):
        body = shorter
    return body.strip()


def _clauses(sentence: str) -> list[str]:
    """Split a sentence into clauses. Join a very short clause to the previous clause."""
    if _JOINTS.isdisjoint(sentence):
        return [sentence.strip()]
    cuts = [0, *(cut for match in PATTERNS["clause"].finditer(sentence) for cut in match.span())]
    clauses: list[tuple[int, int, int]] = []  # start, end, content words
    for start, end in zip(cuts[::2], [*cuts[1::2], len(sentence)], strict=True):
        size = len(content_tokens(sentence[start:end]))
        if clauses and min(size, clauses[-1][2]) < _MIN_CLAUSE:
            start, size = clauses[-1][0], clauses.pop()[2] + size
        clauses.append((start, end, size))
    return [sentence[start:end].strip() for start, end, _ in clauses]
