"""Finds key terms of a text: keywords, phrases, and entities such as names and dates."""

# ruff: noqa: RUF001 - this module handles such characters

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from rag_eval_hooks.text.folding import CJK_PATTERNS, STOP_WORDS, distinct, fold, has_cjk, tokens
from rag_eval_hooks.text.measures import MONTHS, Number, measures, numbers
from rag_eval_hooks.text.sentences import sentences, strip_marker

Keyword: TypeAlias = str | Number  # a normalized word or phrase, or a number

_WORD = re.compile(r"[^\W_]+(?:['’&/-][^\W_]+)*(?:['’](?=\s))?")
_GOES_ON = re.compile(r"%|[.,][0-9]")  # continues a number, such as ".5%" in "118.5%"
_MIN_LETTERS = 4


def phrases(text: str) -> list[str]:
    """Return capitalized phrases, such as "Rule 7"."""
    text, end = CJK_PATTERNS["any"].sub(",", text), 0
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
    kept = [at for at, word in enumerate(run) if fold(word) not in STOP_WORDS]
    return run[kept[0] : kept[-1] + 1] if kept else []


def keywords(text: str) -> list[Keyword]:
    every = tokens(text)
    # A phrase that splits a token, for example at a stray combining mark, can never match.
    written = Searched(every)
    folded = (fold(phrase) for phrase in phrases(text) if written.holds_words(tokens(phrase)))
    words = (
        token
        for token in every
        if token not in STOP_WORDS
        and (has_cjk(token) or sum(map(str.isalpha, token)) >= _MIN_LETTERS)
    )
    return list(dict.fromkeys([*folded, *numbers(text), *words]))


class Searched:
    def __init__(self, words: Sequence[str], values: Sequence[Number] = ()) -> None:
        self._text = f" {' '.join(words)} "
        self._numbers = frozenset(values)

    @classmethod
    def of(cls, text: str) -> Searched:
        return cls(tokens(text), numbers(text))

    def holds(self, keyword: Keyword) -> bool:
        if isinstance(keyword, Number):
            return keyword in self._numbers
        return self.holds_words(tokens(keyword))

    def holds_words(self, words: Sequence[str]) -> bool:
        return bool(words) and f" {' '.join(words)} " in self._text

    def holds_entity(self, entity: str) -> bool:
        values = numbers(entity)
        if len(values) == 1 and not any(c.isalpha() for c in entity):
            return values[0] in self._numbers
        return self.holds(entity)


def entities(text: str) -> list[str]:
    dates = [measure.text for measure in measures(text) if measure.unit == "date"]
    names = [name for name in _names(_without(text, dates)) if name.lower() not in MONTHS]
    bare = numbers(_without(text, [*dates, *names]))
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
