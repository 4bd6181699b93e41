"""Embeddings from any OpenAI-compatible endpoint, cached by text."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any, Unpack

from rag_eval_hooks.calls import Call, Caller, Operation
from rag_eval_hooks.encodable import encodable
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.base import AsksBudget
from rag_eval_hooks.judges.calls.requests import Meter, Requests, token_count
from rag_eval_hooks.judges.embeddings import Vector, VectorCache
from rag_eval_hooks.judges.endpoint import ClientOptions, Endpoint, EndpointKeywords
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.usage import Usage

__all__ = ["OpenAIEmbedder"]

_BATCH = 128
"""Texts in one request: within every known endpoint's limits for texts of a sample's size."""


class OpenAIEmbedder(AsksBudget):
    """Vectors from `/embeddings`.

    Args:
        model: The endpoint's name for the model.
        cache_size: Vectors kept, the least recently used leave first.
        prices: Puts costs on the usage.
        **options: Fields of `ClientOptions`, such as `base_url`, `api_key` and `timeout`.

    Raises:
        ConfigError: A value cannot be used.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        cache_size: int = 1024,
        prices: Prices | None = None,
        **options: Unpack[EndpointKeywords],
    ) -> None:
        client = ClientOptions.taken_from({**options})
        self._model = model
        self._name = f"openai:{model}"
        self._endpoint = Endpoint(client)
        caller = Caller(self._name, Operation.EMBEDDINGS, provider="openai")
        self._requests = Requests(caller, client)
        self._retries = client.retries
        self._prices = prices or Prices()
        self._cache = VectorCache(self._name, cache_size)

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._name!r}, {self._endpoint!r})"

    @property
    def name(self) -> str:
        """`openai:` and the model."""
        return self._name

    @property
    def host(self) -> str:
        """Host and port of the endpoint."""
        return self._endpoint.host

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order, all of one length.

        Raises:
            JudgeTimeout: The endpoint did not reply in time, retries included.
            JudgeError: It cannot be reached, refused, or its reply has not one finite vector per
                text.
        """
        return (await self.embed_metered(texts))[0]

    async def embed_metered(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        """Return the vectors, and the usage of the texts that were not cached.

        Raises:
            JudgeError: As by `embed`.
        """
        spent: list[float] = []

        async def make(missing: Sequence[str]) -> Sequence[Vector]:
            vectors: list[Vector] = []
            for start in range(0, len(missing), _BATCH):
                vectors += await self._asked(missing[start : start + _BATCH], spent)
            return vectors

        vectors = await self._cache.embed(texts, make)
        used = Usage(input_tokens=sum(spent))
        return vectors, self._prices.priced(used, self.name) if spent else used

    async def aclose(self) -> None:
        """Close the connections."""
        self._cache.clear()
        await self._endpoint.aclose()

    async def _asked(self, texts: Sequence[str], spent: list[float]) -> list[Vector]:
        """Return the vectors of one request, sent again while the reply is malformed."""
        # Endpoints refuse empty texts, and no request can carry lone surrogates.
        sent = [encodable(text) or " " for text in texts]
        for tries_left in range(self._retries, -1, -1):
            reply = await self._reply(sent)
            spent.append(_tokens(reply))
            try:
                return self._vectors(reply, len(sent))
            except JudgeError:
                if not tries_left:
                    raise
        raise AssertionError("there is one try at least")

    async def _reply(self, texts: Sequence[str]) -> Any:
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        self._endpoint.open()
        meter = Meter(texts, embedding=True)

        async def request(call: Call) -> Any:
            reply = await self._endpoint.post("/embeddings", body, meter)
            call.input_tokens = _tokens(reply)
            model = reply.get("model") if isinstance(reply, dict) else None
            call.response_model = model if isinstance(model, str) else None
            return reply

        with meter.charging():
            reply = await self._requests.send(request, meter, counts_tries=True)
            meter.replied(round(_tokens(reply)), 0)
        return reply

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
        if len(set(map(len, vectors))) > 1:
            raise self._invalid("vectors of different lengths")
        return vectors

    def _invalid(self, what: str) -> JudgeError:
        return JudgeError(f"{self.name}: the embedding reply has {what}")


def _tokens(reply: Any) -> float:
    """Return the tokens that the endpoint reports for one request, 0 for none."""
    used = reply.get("usage") if isinstance(reply, dict) else None
    return token_count(used.get("prompt_tokens")) if isinstance(used, dict) else 0.0
