"""Finding entities that stand in a chunk word for word, which nobody needs to be asked about."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_eval_hooks.metrics.text import fold

__all__ = ["stated"]

# Only white space and sentence punctuation end a word here: "36" is not stated by "-36", "36.5"
# or "1,036". Whatever this misses, the judge is asked about.
_BEFORE = r"(?<![^\s(\"'\[])"
_AFTER = r"(?=[.,;:!?)\"'\]]*(?:\s|$))"


def stated(entities: Sequence[str], chunks: Sequence[str]) -> list[bool]:
    """Whether each entity stands in a chunk as whole words, after folding.

    Args:
        entities: Names, dates, places and numbers.
        chunks: Texts to look in.

    Returns:
        One verdict per entity, in order; False only means that it must be looked for further.
    """
    folded = [fold(chunk) for chunk in chunks]
    return [_stands(fold(entity), folded) for entity in entities]


def _stands(entity: str, chunks: Sequence[str]) -> bool:
    if not entity:
        return False
    pattern = re.compile(_BEFORE + re.escape(entity) + _AFTER)
    return any(pattern.search(chunk) for chunk in chunks)
