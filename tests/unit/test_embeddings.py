"""Laws of the cache of vectors that all embedders share."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence

import pytest

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.embeddings import Embeddings, Vector


class Lengths:
    """Makes vectors of the lengths of texts, and notes the texts of each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    async def __call__(self, texts: Sequence[str]) -> list[Vector | JudgeError]:
        self.calls.append(list(texts))
        return [
            JudgeError("bad text") if text == "bad" else Vector(array("f", [1.0, len(text)]))
            for text in texts
        ]


def embeddings(make: Lengths, *, cache_size: int = 100) -> Embeddings:
    return Embeddings("lengths", make, cache_size=cache_size, size=100, window=0.02)


async def test_the_cache_is_bounded() -> None:
    """No more vectors are kept than asked for, and evicted texts are embedded again."""
    make = Lengths()
    bounded = embeddings(make, cache_size=2)
    texts = ["a", "bb", "ccc"]
    first = await bounded.embed(texts)
    assert len(bounded) == 2
    assert await bounded.embed(texts) == first
    assert make.calls == [texts, ["a"]]


async def test_each_distinct_text_is_embedded_once() -> None:
    """Callers at once share a call, and each distinct text is in it once."""
    make = Lengths()
    shared = embeddings(make)
    await asyncio.gather(*(shared.embed(["same", "x" * n]) for n in range(1, 21)))
    (call,) = make.calls
    assert len(call) == len(set(call)) == len(shared)


async def test_a_bad_text_fails_its_caller_alone() -> None:
    """An error that one text causes reaches who asked for it; others get their vectors."""
    make = Lengths()
    shared = embeddings(make)
    good, bad = await asyncio.gather(
        shared.embed(["good"]), shared.embed(["bad", "x"]), return_exceptions=True
    )
    assert good == [[1.0, 4.0]]
    assert isinstance(bad, JudgeError)
    with pytest.raises(JudgeError, match="bad text"):
        await shared.embed(["bad"])
    assert len(shared) == 2
