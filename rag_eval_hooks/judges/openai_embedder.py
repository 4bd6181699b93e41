"""`OpenAIEmbedder`: embeddings from any OpenAI-compatible endpoint."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any, Unpack

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.encodable import encodable
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.calls.call_context import Meter, ModelCalls
from rag_eval_hooks.judges.embeddings import Vector, VectorCache
from rag_eval_hooks.judges.endpoint import ClientOptions, Endpoint, EndpointKeywords
from rag_eval_hooks.judges.prices import Prices

_BATCH = 128
"""Maximum number of texts per request. Every known endpoint accepts this number."""


class OpenAIEmbedder:
    """Embeds texts through `/embeddings` and caches the vectors.

    Args:
        model: The endpoint's name for the model.
        cache_size: Maximum number of cached vectors. The least recently used vector is evicted
            first.
        prices: Adds costs to the usage, or None.
        **options: Fields of `ClientOptions`, such as `base_url`, `api_key` and `timeout`.

    Raises:
        ConfigError: A value is invalid.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        cache_size: int = 1024,
        prices: Prices | None = None,
        **options: Unpack[EndpointKeywords],
    ) -> None:
        client = ClientOptions.of(options)
        self.name = f"openai:{model}"
        self._model = model
        self._endpoint = Endpoint(client)
        self.host = self._endpoint.host
        self._calls = ModelCalls(Caller(self.name, Operation.EMBEDDINGS, provider="openai"), client)
        self._prices = prices or Prices()
        self._cache = VectorCache(self.name, cache_size)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order. All vectors have the same length.

        Raises:
            JudgeError: The request timed out, or the reply lacks a finite vector for a text.
        """
        return await self._cache.embed(texts, self._made)

    async def aclose(self) -> None:
        self._cache.clear()
        await self._endpoint.aclose()

    async def _made(self, texts: Sequence[str]) -> list[Vector]:
        vectors: list[Vector] = []
        for start in range(0, len(texts), _BATCH):
            vectors += await self._batch(texts[start : start + _BATCH])
        return vectors

    async def _batch(self, texts: Sequence[str]) -> list[Vector]:
        # Endpoints reject empty texts, and requests cannot contain lone surrogates.
        sent = [encodable(text) or " " for text in texts]
        body = {"model": self._model, "input": sent, "encoding_format": "float"}

        async def request(meter: Meter) -> Any:
            return await self._endpoint.post("/embeddings", body, meter, self._prices)

        return self._vectors(await self._calls.make(request, sent), len(sent))

    def _vectors(self, reply: Any, count: int) -> list[Vector]:
        try:
            data = reply["data"]
            rows = {row["index"]: array("d", row["embedding"]) for row in data}
        except (KeyError, TypeError):
            raise self._invalid("no vectors of numbers") from None
        if len(data) != count or set(rows) != set(range(count)):
            raise self._invalid("not one vector per text")
        vectors = [rows[index] for index in range(count)]
        if not all(vector and all(map(math.isfinite, vector)) for vector in vectors):
            raise self._invalid("an empty or infinite vector")
        return vectors

    def _invalid(self, what: str) -> JudgeError:
        return JudgeError(f"{self.name}: the embedding reply has {what}")
