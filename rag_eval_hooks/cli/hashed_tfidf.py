"""Vectors of texts without a model: hashed words, weighted by how rare they are."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Final

from rag_eval_hooks.cli.quoting import words

__all__ = ["HashedTfidf"]

DIMENSIONS: Final = 1024


class HashedTfidf:
    """Bag of words, hashed to 1024 signed buckets, weighted by inverse document frequency.

    Args:
        texts: The texts that the frequencies are counted in.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = len(texts)
        self._frequency = Counter(word for text in texts for word in set(words(text)))

    def vector(self, text: str) -> list[float]:
        """The text's direction, of length 1; a fixed one for a text without content words."""
        buckets = [0.0] * DIMENSIONS
        for word, count in Counter(words(text)).items():
            code = zlib.crc32(word.encode())
            sign = 1.0 if code & 1 else -1.0
            buckets[(code >> 1) % DIMENSIONS] += sign * self._weight(word, count)
        length = math.sqrt(sum(value * value for value in buckets))
        # A zero vector has no cosine with anything, and vector stores refuse it.
        return [value / length for value in buckets] if length else [1.0, *buckets[1:]]

    def _weight(self, word: str, count: int) -> float:
        rarity = math.log(1 + self._texts / (1 + self._frequency[word]))
        return (1 + math.log(count)) * rarity
