"""Language of a sentence by its function words, for the languages that have word lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rag_eval_hooks.text.folding import word_set

__all__ = ["FUNCTION_WORDS", "function_word_counts", "function_words", "language"]

FUNCTION_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "en": word_set(
        "the of and is are was were to it that with for on by at be has have not an from"
    ),
    "de": word_set(
        "der das ein eine einen einem einer und ist sind wurde wurden hat haben nicht von vom mit "
        "im auf fur den dem bei nach zu zum zur als auch aus uber sich wird werden die"
    ),
    "fr": word_set(
        "le la les l d de un une des du et est sont etait a au aux dans en sur pour par que qui il "
        "elle ce cette avec ne pas plus se son sa ses fut ete ont sous ils elles leur aussi"
    ),
    "es": word_set(
        "el la los las un una de del y es son era fue al en por para que con no se su sus lo ha "
        "han como mas desde fueron sido estan esta este tambien hasta le les"
    ),
}
"""Folded function words."""

_ANY: Final = frozenset[str]().union(*FUNCTION_WORDS.values())


def language(words: Sequence[str]) -> str | None:
    """Return the code of the language with the most function words.

    None where two languages have as many, or none has two.
    """
    best = _best(words)
    return best[0] if len(best) == 1 else None


def function_word_counts(words: Sequence[str]) -> Mapping[str, int]:
    """Return for each language how many of its function words are among some words."""
    found = _ANY.intersection(words)
    return {code: len(found & known) for code, known in FUNCTION_WORDS.items()}


def function_words(words: Sequence[str]) -> frozenset[str]:
    """Return the function words of the languages that the words may be in; none if unknown."""
    best = _best(words)
    if len(best) == 1:
        return FUNCTION_WORDS[best[0]]
    return frozenset[str]().union(*(FUNCTION_WORDS[code] for code in best))


def _best(words: Sequence[str]) -> list[str]:
    found = _ANY.intersection(words)
    if len(found) < 2:
        return []
    counts = [len(found & known) for known in FUNCTION_WORDS.values()]
    most = max(counts)
    both = zip(FUNCTION_WORDS, counts, strict=True)
    return [code for code, count in both if count == most] if most > 1 else []
