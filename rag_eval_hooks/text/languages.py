"""Language of a sentence by its function words, for the languages that have word lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rag_eval_hooks.text.folding import WORDS

FUNCTION_WORDS: Final = WORDS["function"]
"""Folded function words by code of the language."""
_ANY: Final = frozenset[str]().union(*FUNCTION_WORDS.values())


def language(words: Sequence[str]) -> str | None:
    """Return the code of the language with the most function words.

    None where two languages have as many, or none has two.
    """
    found = _ANY.intersection(words)
    counts = {code: len(found & known) for code, known in FUNCTION_WORDS.items()}
    most = max(counts.values())
    best = [code for code, count in counts.items() if count == most]
    return best[0] if most > 1 and len(best) == 1 else None
