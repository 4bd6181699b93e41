"""Search for entities that stand in a chunk word for word, so that no judge is asked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_eval_hooks.text.folding import fold

__all__ = ["stated"]

# Only white space and sentence punctuation end a word here: "36" is not stated by "-36", "36.5"
# or "1,036". The judge is asked about everything that this misses.
_BEFORE = re.compile(r"(?<![^\s(\"'\[])")
_AFTER = re.compile(r"[.,;:!?)\"'\]]*(?:\s|$)")


def stated(entities: Sequence[str], chunks: Sequence[str]) -> list[bool]:
    """Tell for each entity if it stands in a chunk as whole words, after folding.

    Args:
        entities: Names, dates, places and numbers.
        chunks: Texts to look in.

    Returns:
        One verdict per entity, in order; False only means that it must be looked for further.
    """
    folded = [fold(chunk) for chunk in chunks]
    return [_stands(fold(entity), folded) for entity in entities]


def _stands(entity: str, chunks: Sequence[str]) -> bool:
    return bool(entity) and any(_stands_in(entity, chunk) for chunk in chunks)


def _stands_in(entity: str, chunk: str) -> bool:
    start = chunk.find(entity)
    while start >= 0:
        if _BEFORE.match(chunk, start) and _AFTER.match(chunk, start + len(entity)):
            return True
        start = chunk.find(entity, start + 1)
    return False
