"""Short references that an answer gives in another form: dates in part, names by initials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rag_eval_hooks.text.folding import contains, fold, is_content, tokens
from rag_eval_hooks.text.measures import agree, measures

__all__ = ["aliases", "given_otherwise", "without_marks"]

_MARK: Final = re.compile(r"(?<=[a-z]{4})\d{1,2}(?=[\s.,;:)]|$)|[\u00b9\u00b2\u00b3\u2070-\u2079]+")
_ASIDE: Final = re.compile(r"\s*\([^()]*\)\s*")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_LONGEST: Final = 6  # words of a reference that is an answer in itself
_ALIAS: Final = re.compile(r"\s*[/|]\s*")
_NAMED: Final = 3  # words between a family name and its first initial


def aliases(reference: str) -> Sequence[str]:
    """Return the short answers that a reference lists, "USA / United States", or it alone."""
    parts = [part for part in _ALIAS.split(reference) if part]
    short = all(len(part.split()) <= _LONGEST and part[-1] not in ".!?" for part in parts)
    return parts if short and all(len(part) > 1 for part in parts) else [reference]


def without_marks(answer: str) -> str:
    """Return an answer without the digits of footnotes that stick to its words."""
    return _MARK.sub("", answer)


def given_otherwise(reference: str, answer: str) -> str | None:
    """Return as a reason in which other form an answer gives a short reference, or None."""
    reference = _ASIDE.sub("", reference).strip(" .") or reference
    if len(reference.split()) > _LONGEST:
        return None
    if _stands_alone(reference, answer):
        return f"it says {reference!r}"
    return _same_quantity(reference, answer) or _same_person(reference, answer)


def _stands_alone(reference: str, answer: str) -> bool:
    """Return whether an answer has the reference word for word; one without content at its end."""
    words = tokens(reference)
    if any(map(is_content, words)):
        return contains(tokens(answer), words)
    return tokens(answer)[-len(words) :] == words


def _same_quantity(reference: str, answer: str) -> str | None:
    """Find a quantity that the reference is: equal, or a date in part."""
    wanted = measures(reference)
    if len(wanted) != 1 or _WORD.search(reference.replace(wanted[0].text, "")):
        return None
    for said in measures(answer):
        if agree(wanted[0], said) or (wanted[0].unit == "date" and agree(said, wanted[0])):
            return f"{said.text!r} agrees with {wanted[0].text!r}"
    return None


def _same_person(reference: str, answer: str) -> str | None:
    """Find a family name behind the initial, or a short form, of the given name."""
    words = _WORD.findall(reference)
    if not 1 < len(words) <= _LONGEST or not all(word[0].isupper() for word in words):
        return None
    first, last = fold(words[0]), fold(words[-1])
    for before in _before(answer, last):
        if any(word[0].isupper() and fold(word)[0] == first[0] for word in before):
            return f"the name {reference!r} stands there in another form"
    return None


def _before(answer: str, last: str) -> Iterator[Sequence[str]]:
    words = _WORD.findall(answer)
    for at, word in enumerate(words):
        if fold(word) == last and len(last) > 1:
            yield words[max(0, at - _NAMED) : at]
