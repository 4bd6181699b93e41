"""Names, dates, places and numbers of a text."""

from __future__ import annotations

import re

from rag_eval_hooks.text.folding import distinct, tokens
from rag_eval_hooks.text.keywords import phrases
from rag_eval_hooks.text.numbers import numbers
from rag_eval_hooks.text.sentences import sentences, strip_marker

__all__ = ["entities"]

_MONTH = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember"
)
_DATE = re.compile(
    rf"(?:[0-9]{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s)?(?:{_MONTH})(?:,?\s[0-9]{{3,4}})?"
    rf"|(?:{_MONTH})\s[0-9]{{1,2}}(?:st|nd|rd|th)?(?:,?\s[0-9]{{3,4}})?"
    rf"|(?:{_MONTH}),?\s[0-9]{{4}}"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4}"
    r"|[0-9]{2,4}年(?:[0-9]{1,2}月)?(?:[0-9]{1,2}日)?)(?![0-9])"
)


_ONLY_MONTH = re.compile(_MONTH)


def entities(text: str) -> list[str]:
    """Return distinct names, dates, places and numbers of a text as written, in order of kind.

    By capital letters, so a name is found only in scripts that have them; a capitalised word
    that opens a sentence counts when the text does not also write it small. A text without any
    that is no longer than three words is an entity itself.
    """
    dates = [match[0] for match in _DATE.finditer(text)]
    rest = _DATE.sub(" ; ", text)
    names = [name for name in _names(rest) if not _ONLY_MONTH.fullmatch(name)]
    bare = numbers(_without(rest, names))
    found = [*names, *dates, *(str(number) for number in bare)]
    if not found and 0 < len(tokens(text)) <= 3:
        found = [strip_marker(text).strip(" .")]
    return distinct(found)


def _names(text: str) -> list[str]:
    small = {word for word in text.split() if word[0].islower()}
    found = []
    for sentence in sentences(text):
        body = strip_marker(sentence)
        for phrase in phrases(body):
            opens = body.startswith(phrase) and " " not in phrase and " " in body
            if not (opens and phrase.lower() in small):
                found.append(phrase)
    return found


def _without(text: str, names: list[str]) -> str:
    for name in dict.fromkeys(names):
        text = text.replace(name, " ; ")
    return text
