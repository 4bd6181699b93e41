"""Laws of the cache of vectors that all embedders share."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.embeddings import Vector, VectorCache


class Lengths:
    """Makes vectors of the lengths of texts, and notes the texts of each call."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def __call__(self, texts: Sequence[str]) -> list[Vector]:
        self.made += texts
        return [array("f", [1.0, len(text)]) for text in texts]


@given(st.integers(1, 4), st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), max_size=8))
async def test_cache_gives_each_text_its_vector_and_stays_bounded(
    size: int, calls: list[list[str]]
) -> None:
    cache, make = VectorCache("lengths", size), Lengths()
    for texts in calls:
        before = len(make.made)
        vectors = await cache.embed([text * 2 for text in texts], make)
        assert vectors == [[1.0, 2.0]] * len(texts)
        assert len(cache) <= size
        new = make.made[before:]
        assert len(new) == len(set(new))


async def test_cache_refuses_vectors_of_different_lengths() -> None:
    async def make(texts: Sequence[str]) -> list[Vector]:
        return [array("f", [1.0] * len(text)) for text in texts]

    cache = VectorCache("odd", 2)
    with pytest.raises(JudgeError, match="different lengths"):
        await cache.embed(["a", "bb"], make)
    assert len(cache) == 0
