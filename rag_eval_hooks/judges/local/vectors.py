"""Cosines of claims and sentences, if there is an embedder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import mul

from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.local.units import Passage

__all__ = ["NO_VECTORS", "Vectors"]


class Vectors:
    """Normalised vectors by text; a text without one has no cosine."""

    def __init__(self, by_text: Mapping[str, Sequence[float]]) -> None:
        self._by_text = by_text

    @classmethod
    async def of(cls, embedder: Embedder, texts: Iterable[str]) -> Vectors:
        """Return the vectors of the distinct texts, from one call.

        Raises:
            JudgeError: The embedder failed.
        """
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return NO_VECTORS
        vectors = await embedder.embed(distinct)
        return cls(dict(zip(distinct, map(_normalised, vectors), strict=True)))

    def best(self, text: str, passage: Passage) -> float | None:
        """Return the greatest cosine of the text and a sentence of the passage, in [-1, 1]."""
        vector = self._by_text.get(text)
        if vector is None:
            return None
        others = (self._by_text.get(unit.text) for unit in passage.units)
        return max((sum(map(mul, vector, other)) for other in others if other), default=None)


def _normalised(vector: Sequence[float]) -> Sequence[float]:
    length = math.sqrt(sum(map(mul, vector, vector)))
    return [value / length for value in vector] if length else vector


NO_VECTORS = Vectors({})
