"""Caches validated vectors in memory."""

from __future__ import annotations

import math
from array import array
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from rag_eval_hooks.calls import Usage
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges import Embedder
from rag_eval_hooks.judges.calls.call_context import Tally, in_call_context

Vector: TypeAlias = "array[float]"
_MOST_VECTORS: Final = 4096  # vectors; the cache evicts the least recently used vector first


class VectorCache:
    # Two threads may use the cache at once. Each step is atomic, so a race only repeats a request.
    # A forked child could inherit a locked lock, so the cache has no lock.

    def __init__(self, name: str, size: int = _MOST_VECTORS) -> None:
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
        coded = {text: text.encode("utf-8", "surrogatepass") for text in texts}
        keys = {text: blake2b(code, digest_size=16).digest() for text, code in coded.items()}
        recalled = {text: self._vectors.pop(key, None) for text, key in keys.items()}
        missing = [text for text, vector in recalled.items() if vector is None]
        found = {text: vector for text, vector in recalled.items() if vector is not None}
        self._vectors.update((keys[text], vector) for text, vector in found.items())
        if missing:
            found |= zip(missing, await make(missing), strict=True)
        if len(set(map(len, found.values()))) > 1:
            raise JudgeError(f"{self._name}: the embedder returned vectors of different lengths")
        for text in missing:
            self._vectors[keys[text]] = found[text]
            if len(self._vectors) > self._size:
                self._vectors.popitem(last=False)
        return [found[text].tolist() for text in texts]


def is_finite(vector: Sequence[float]) -> bool:
    return len(vector) > 0 and all(map(math.isfinite, vector))


async def embedded(embedder: Embedder, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
    """Return one valid vector per text, and the usage that the embedder reports."""
    with in_call_context(tally=(tally := Tally())):
        vectors = await embedder.embed(texts)
    if len(vectors) != len(texts) or len(set(map(len, vectors))) > 1:
        raise JudgeError(f"{embedder.name} returned {len(vectors)} vectors for {len(texts)} texts")
    if not all(map(is_finite, vectors)):
        raise JudgeError(f"{embedder.name} returned a vector with NaN or infinity")
    return vectors, tally.usage
