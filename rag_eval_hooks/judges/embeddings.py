"""An in-memory cache of validated vectors."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from itertools import chain
from typing import Any, TypeAlias

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.calls.call_context import Tally, in_call_context
from rag_eval_hooks.usage import Usage

Vector: TypeAlias = "array[float]"


class VectorCache:
    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    async def embed(
        self,
        texts: Sequence[str],
        make: Callable[[Sequence[str]], Coroutine[Any, Any, Sequence[Vector]]],
    ) -> list[list[float]]:
        distinct = list(dict.fromkeys(texts))
        found = {text: vector for text in distinct if (vector := self._recall(text)) is not None}
        if missing := [text for text in distinct if text not in found]:
            found |= zip(missing, await make(missing), strict=True)
        if len(set(map(len, found.values()))) > 1:
            raise JudgeError(f"{self._name}: the vectors have different lengths")
        for text in missing:
            self._keep(text, found[text])
        return [found[text].tolist() for text in texts]

    def clear(self) -> None:
        self._vectors.clear()

    # Two threads may use the cache at once. Each step is atomic, and a missed vector is made again.
    # So there is no lock that a fork could leave locked.
    def _recall(self, text: str) -> Vector | None:
        key = _hash(text)
        vector = self._vectors.pop(key, None)
        if vector is not None:
            self._vectors[key] = vector
        return vector

    def _keep(self, text: str, vector: Vector) -> None:
        self._vectors[_hash(text)] = vector
        if len(self._vectors) > self._size:
            self._vectors.popitem(last=False)


async def embedded(embedder: Embedder, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
    """Return one valid vector per text, and the usage that the embedder reports."""
    with in_call_context(tally=(tally := Tally())):
        vectors = await embedder.embed(texts)
    if len(vectors) != len(texts) or len(set(map(len, vectors))) > 1:
        raise JudgeError(f"{embedder.name} returned {len(vectors)} vectors for {len(texts)} texts")
    if not all(map(math.isfinite, chain.from_iterable(vectors))):
        raise JudgeError(f"{embedder.name} returned a vector with a number that is not finite")
    return vectors, tally.usage


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
