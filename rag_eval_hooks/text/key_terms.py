"""Key terms of a text: keywords, phrases, and entities such as names, dates and numbers."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from rag_eval_hooks.text.folding import (
    STOP_WORDS,
    distinct,
    fold,
    has_cjk,
    tokens,
    without_cjk,
)
from rag_eval_hooks.text.measures import MONTHS, measures
from rag_eval_hooks.text.numbers import Number, numbers
from rag_eval_hooks.text.sentences import sentences, strip_marker

Keyword: TypeAlias = str | Number
"""A folded word or phrase, or a value."""

_WORD = re.compile(r"[^\W_]+(?:['’&/-][^\W_]+)*(?:['’](?=\s))?")
_GOES_ON = re.compile(r"%|[.,][0-9]")
"""Behind digits that are only the start of a number: "118" of "118.5%"."""
_MIN_LETTERS = 4


def phrases(text: str) -> list[str]:
    """Return capitalised phrases as written, with the number that follows them, in order.

    "Territory 118", "Rule C-1", "Taylor Momsen". Leading and trailing stop words, such as a
    sentence-initial "The", are left out. A phrase does not reach over punctuation.
    """
    text, end = without_cjk(text), 0
    runs: list[list[str]] = [[]]
    for match in _WORD.finditer(text):
        word, gap = match[0], text[end : match.start()]
        end = match.end()
        if runs[-1] and gap != " " and (len(runs[-1][-1]) > 1 or gap != ". "):
            runs.append([])
        if word[0].isupper():
            runs[-1].append(word)
        elif runs[-1]:
            if word.isdecimal() and not _GOES_ON.match(text, end):
                runs[-1].append(word)
            runs.append([])
    return [" ".join(words) for run in runs if (words := _trimmed(run))]


def _trimmed(run: list[str]) -> list[str]:
    first, last = 0, len(run)
    while first < last and fold(run[first]) in STOP_WORDS:
        first += 1
    while last > first and fold(run[last - 1]) in STOP_WORDS:
        last -= 1
    return run[first:last]


def keywords(text: str) -> list[Keyword]:
    """Return distinct keywords of a text, in order of kind: phrases, numbers, words.

    Capitalised phrases, numbers and percentages as values, and words of four or more letters
    that are no stop words. A number within a phrase counts as a number too, a word within a
    phrase as a word. Chinese, Japanese and Korean give character bigrams for words.
    """
    every = tokens(text)
    # A phrase that splits a token, as beside a stray combining mark, could never be found.
    written = Searched(every, frozenset())
    folded = (fold(phrase) for phrase in phrases(text) if written.holds_words(tokens(phrase)))
    words = (token for token in every if _is_keyword(token))
    return list(dict.fromkeys([*folded, *numbers(text), *words]))


def _is_keyword(token: str) -> bool:
    if token in STOP_WORDS:
        return False
    return has_cjk(token) or sum(c.isalpha() for c in token) >= _MIN_LETTERS


class Searched:
    """A text in which keywords and entities are looked up, as whole words and as values."""

    def __init__(self, words: Sequence[str], values: frozenset[Number]) -> None:
        self._tokens = words
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for at, word in enumerate(words):
            self._places[word].append(at)
        self._numbers = values

    @classmethod
    def of(cls, text: str) -> Searched:
        """Return the text, ready to be searched."""
        return cls(tokens(text), frozenset(numbers(text)))

    def holds(self, keyword: Keyword) -> bool:
        """Return whether the text holds a keyword; "604" is not in "1604"."""
        if isinstance(keyword, Number):
            return keyword in self._numbers
        return self.holds_words(tokens(keyword))

    def holds_words(self, words: Sequence[str]) -> bool:
        """Return whether the text holds words side by side and in order."""
        if not words or not all(word in self._places for word in words):
            return False
        offset, rarest = min(enumerate(words), key=lambda one: len(self._places[one[1]]))
        starts = (at - offset for at in self._places[rarest])
        return any(
            start >= 0 and list(self._tokens[start : start + len(words)]) == words
            for start in starts
        )

    def holds_entity(self, entity: str) -> bool:
        """Return whether the text holds an entity; a bare number is compared as a value."""
        values = numbers(entity)
        if len(values) == 1 and not any(c.isalpha() for c in entity):
            return values[0] in self._numbers
        return self.holds(entity)


def entities(text: str) -> list[str]:
    """Return distinct names, dates, places and numbers of a text as written, in order of kind.

    By capital letters, so a name is found only in scripts that have them; a capitalised word
    that opens a sentence counts when the text does not also write it small. A text without any
    that is no longer than three words is an entity itself.
    """
    dates = [measure.text for measure in measures(text) if measure.unit == "date"]
    rest = _without(text, dates)
    names = [name for name in _names(rest) if name.lower() not in MONTHS]
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
