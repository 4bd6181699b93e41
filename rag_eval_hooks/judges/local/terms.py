"""Terms: stems of content words, numbers as they are."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rag_eval_hooks.text.folding import fold, folded_tokens, is_content, stem

__all__ = ["term_of", "terms", "terms_of"]

_COUNT_WORDS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "twenty": "20", "thirty": "30",
    "forty": "40", "fifty": "50", "hundred": "100",
}  # fmt: skip


def terms(text: str) -> list[str]:
    """Return stems of the content words of a text, in order."""
    return terms_of(folded_tokens(fold(text)))


def terms_of(words: Iterable[str]) -> list[str]:
    """Return the terms of folded words, in order."""
    return [term for word in words if (term := term_of(word))]


@lru_cache(maxsize=16_384)
def term_of(word: str) -> str:
    """Return the term of a word, empty for a word without content."""
    if not is_content(word):
        return ""
    if word[0].isdigit():
        return word.replace(",", "")
    return _COUNT_WORDS.get(word) or stem(word)
