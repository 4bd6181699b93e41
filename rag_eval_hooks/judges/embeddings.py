"""Vectors by text: made in batches, kept in memory, checked where they come in."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.batching import Batcher
from rag_eval_hooks.usage import Usage

__all__ = ["Embeddings", "Vector", "embedded"]


@dataclass(slots=True, eq=False)
class Vector:
    """The vector of one text.

    Attributes:
        values: The vector.
        tokens: Tokens that it took and that are not yet charged to anyone.
    """

    values: array[float]
    tokens: float = 0.0

    def charge(self) -> float:
        """Return the tokens on the first call, then 0."""
        tokens, self.tokens = self.tokens, 0.0
        return tokens


class Embeddings:
    """Cache and batches of an embedder: equal texts once, callers together.

    Args:
        name: What errors call the embedder.
        make: Gives one vector per text, in order, or the error that this text alone causes.
        cache_size: Vectors kept, by a hash of their text; the least recently used leave first.
        size: Texts in a batch, more only when one caller has more.
        window: Seconds to wait for the texts of further callers.
        concurrency: Batches that run at once.
        divisible: Whether an error may be the fault of a single text.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[Sequence[str]], Coroutine[Any, Any, Sequence[Vector | JudgeError]]],
        *,
        cache_size: int,
        size: int,
        window: float,
        concurrency: int = 1,
        divisible: Callable[[BaseException], bool] = lambda _: False,
    ) -> None:
        self._name = name
        self._make = make
        self._cache_size = cache_size
        self._cache: OrderedDict[bytes, Vector] = OrderedDict()
        self._batcher = Batcher(
            name,
            self._make_and_keep,
            size=size,
            window=window,
            concurrency=concurrency,
            divisible=divisible,
        )

    def __len__(self) -> int:
        """Return the number of cached vectors."""
        return len(self._cache)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order, all of one length.

        Raises:
            JudgeError: A vector could not be made, or their lengths differ.
        """
        vectors, _tokens = await self.embed_metered(texts)
        return vectors

    async def embed_metered(self, texts: Sequence[str]) -> tuple[list[list[float]], float]:
        """Return vectors as `embed` does, and the tokens of texts that were not cached.

        Raises:
            JudgeError: As by `embed`.
        """
        distinct = list(dict.fromkeys(texts))
        found = {text: vector for text in distinct if (vector := self._recall(text)) is not None}
        missing = [text for text in distinct if text not in found]
        found |= zip(missing, await self._batcher.submit(missing), strict=True)
        if len({len(vector.values) for vector in found.values()}) > 1:
            raise JudgeError(f"{self._name}: the vectors have different lengths")
        tokens = sum(vector.charge() for vector in found.values())
        return [found[text].values.tolist() for text in texts], tokens

    async def aclose(self) -> None:
        """Cancel what is running and drop all vectors."""
        await self._batcher.aclose()
        self._cache.clear()

    async def _make_and_keep(self, texts: Sequence[str]) -> Sequence[Vector | JudgeError]:
        results = await self._make(texts)
        made = {
            text: result
            for text, result in zip(texts, results, strict=False)
            if isinstance(result, Vector)
        }
        if len({len(vector.values) for vector in made.values()}) == 1:
            for text, vector in made.items():
                self._keep(text, vector)
        return results

    # Two threads may use the cache at once. Each step is atomic, and a vector that is missed
    # for a moment is only made again, so there is no lock that a fork could leave locked.
    def _recall(self, text: str) -> Vector | None:
        key = _hash(text)
        vector = self._cache.pop(key, None)
        if vector is not None:
            self._cache[key] = vector
        return vector

    def _keep(self, text: str, vector: Vector) -> None:
        self._cache[_hash(text)] = vector
        if len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)


async def embedded(embedder: Embedder, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
    """Return one usable vector per text from any embedder, and the tokens that it reports.

    Raises:
        JudgeError: The embedder failed, or gave too few vectors, vectors of several lengths, or
            numbers that are not finite: their cosine would be no likeness.
    """
    # A runtime check of the protocol would take longer than the rest of the call.
    embed_metered = getattr(embedder, "embed_metered", None)
    vectors: list[list[float]]
    if embed_metered is None:
        vectors, used = await embedder.embed(texts), Usage()
    else:
        vectors, used = await embed_metered(texts)
    if len(vectors) != len(texts) or len(set(map(len, vectors))) > 1:
        raise JudgeError(f"{embedder.name} gave {len(vectors)} vectors for {len(texts)} texts")
    if not all(map(math.isfinite, chain.from_iterable(vectors))):
        raise JudgeError(f"{embedder.name} gave a vector with a number that is not finite")
    return vectors, used


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
