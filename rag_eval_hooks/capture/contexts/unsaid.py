"""Facts of an answer that no document states: they show which texts beside documents it used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final

from rag_eval_hooks.capture.contexts.text_forms import LEAST_SHINGLES, fold, shingles
from rag_eval_hooks.text.folding import content_tokens
from rag_eval_hooks.text.languages import FUNCTION_WORDS
from rag_eval_hooks.text.numbers import Number, numbers

__all__ = ["Unsaid"]

_MARKER: Final = re.compile(r"\[\d+\]")
"""Number of a source."""
_FUNCTION_WORDS: Final = frozenset[str]().union(*FUNCTION_WORDS.values())


class Unsaid:
    """Words, runs of four words and numbers of an answer that no document has.

    Args:
        answer: What the user got.
        question: What the user asked: its numbers are nobody's find, nor need its words be.
        documents: Texts that were retrieved, with those of their metadata.
    """

    def __init__(self, answer: str, question: str, documents: Iterable[str]) -> None:
        self.answer = answer
        self._answer = fold(_MARKER.sub(" ", answer))
        self._question = fold(question)
        self._documents = list(documents)

    def is_in(self, texts: Iterable[str]) -> bool:
        """Return whether texts have some runs, half of the words, or half of the numbers."""
        folded = list(map(fold, texts))
        return self._has_runs(folded) or self._has_words(folded) or self._has_numbers(folded)

    def _has_runs(self, texts: Iterable[str]) -> bool:
        own = _in_all(texts, shingles)
        runs = own & self._said_runs
        return bool(runs) and len(runs - self._known_runs) >= min(LEAST_SHINGLES, len(own))

    def _has_words(self, texts: Iterable[str]) -> bool:
        own = _in_all(texts, _words)
        if self._said_words.isdisjoint(own):
            return False
        left = self._said_words - self._known_words
        # A short answer may be a word of the question, a long one repeats it.
        return any(_is_most(one & own, one) for one in (left, left - _words(self._question)))

    def _has_numbers(self, texts: Iterable[str]) -> bool:
        own = _in_all(texts, _numbers) if self._said_numbers else set()
        if self._said_numbers.isdisjoint(own):
            return False
        left = self._said_numbers - self._known_numbers
        return bool(left) and 2 * len(left & own) >= len(left)

    @cached_property
    def _said_runs(self) -> set[str]:
        return shingles(self._answer)

    @cached_property
    def _said_words(self) -> set[str]:
        return _words(self._answer)

    @cached_property
    def _said_numbers(self) -> set[Number]:
        return _numbers(self._answer) - _numbers(self._question)

    @cached_property
    def _known_runs(self) -> set[str]:
        return _in_all(map(fold, self._documents), shingles)

    @cached_property
    def _known_words(self) -> set[str]:
        return _in_all(self._documents, _words)

    @cached_property
    def _known_numbers(self) -> set[Number]:
        return _in_all(self._documents, _numbers)


def _is_most(found: set[str], words: set[str]) -> bool:
    """Return whether half of the words were found: one alone may be a turn of phrase."""
    return bool(found) and 2 * len(found) >= len(words) and (len(found) > 1 or found == words)


def _words(text: str) -> set[str]:
    return set(content_tokens(text)) - _FUNCTION_WORDS


def _numbers(text: str) -> set[Number]:
    """Return numbers of two characters or more: small ones stand everywhere."""
    return {number for number in numbers(text) if len(str(number)) > 1}


def _in_all(texts: Iterable[str], parts_of: Callable[[str], set[Any]]) -> set[Any]:
    return {part for text in texts for part in parts_of(text)}
