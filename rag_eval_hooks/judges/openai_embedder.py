"""Embeddings from any OpenAI-compatible endpoint, cached by text."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.client_options import ClientOptions
from rag_eval_hooks.judges.openai_client import Endpoint

__all__ = ["OpenAIEmbedder"]

_BATCH = 128
"""Texts in one request: within every known endpoint's limits for texts of a sample's size."""


class OpenAIEmbedder:
    """Vectors from `/embeddings`.

    Args:
        model: The endpoint's name for the model.
        base_url: The endpoint; OpenAI's own by default.
        api_key: Its key.
        headers: Extra headers for a gateway.
        query: Extra query parameters, such as `api-version`.
        timeout: Seconds for one call.
        retries: Further tries after a 429, a 5xx or a time-out.
        concurrency: Calls in flight at once.
        cache_size: Vectors kept, the least recently used leave first.

    Raises:
        ConfigError: A value cannot be used.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        concurrency: int = 16,
        cache_size: int = 1024,
    ) -> None:
        options = ClientOptions(
            base_url=base_url,
            api_key=api_key,
            headers=dict(headers or {}),
            query=dict(query or {}),
            timeout=timeout,
            retries=retries,
            concurrency=concurrency,
        )
        self._model = model
        self._endpoint = Endpoint(f"openai:{model}", options)
        self._cache_size = cache_size
        self._cache: OrderedDict[bytes, array[float]] = OrderedDict()

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._endpoint!r})"

    @property
    def name(self) -> str:
        """`openai:` and the model."""
        return self._endpoint.name

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order, all of one length.

        Raises:
            JudgeTimeout: The endpoint did not reply in time, retries included.
            JudgeError: It cannot be reached, refused, or its reply has not one finite vector per
                text.
        """
        found = {text: vector for text in texts if (vector := self._cached(text)) is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            found |= zip(batch, await self._request(batch), strict=True)
        if len({len(vector) for vector in found.values()}) > 1:
            raise self._invalid("vectors of different lengths")
        for text in missing:
            self._keep(text, found[text])
        return [found[text].tolist() for text in texts]

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._endpoint.aclose()

    async def _request(self, texts: Sequence[str]) -> list[array[float]]:
        # Endpoints refuse empty texts, and no request can carry lone surrogates.
        sent = [text.encode("utf-8", "replace").decode("utf-8") or " " for text in texts]
        reply = await self._endpoint.call(
            lambda client: client.embeddings.create(
                model=self._model, input=sent, encoding_format="float"
            )
        )
        return self._vectors(reply, len(texts))

    def _vectors(self, reply: Any, count: int) -> list[array[float]]:
        try:
            rows = {row.index: array("d", row.embedding) for row in reply.data}
        except (AttributeError, TypeError):
            raise self._invalid("no vectors of numbers") from None
        if len(reply.data) != count or set(rows) != set(range(count)):
            raise self._invalid("not one vector per text")
        vectors = [rows[index] for index in range(count)]
        if not all(vector and all(map(math.isfinite, vector)) for vector in vectors):
            raise self._invalid("an empty or infinite vector")
        return vectors

    def _invalid(self, what: str) -> JudgeError:
        return JudgeError(f"{self.name}: the embedding reply has {what}")

    def _cached(self, text: str) -> array[float] | None:
        key = _hash(text)
        if key in self._cache:
            self._cache.move_to_end(key)
        return self._cache.get(key)

    def _keep(self, text: str, vector: array[float]) -> None:
        self._cache[_hash(text)] = vector
        while len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
