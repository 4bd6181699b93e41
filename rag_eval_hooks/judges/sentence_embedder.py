"""Sentence embeddings by a local sentence-transformers model."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.workers import DaemonExecutor

__all__ = ["SentenceEmbedder"]

_BATCH = 32  # texts per forward pass


class SentenceEmbedder:
    """Embeds with a sentence-transformers model, in a worker thread of its own.

    The model is loaded on first use, once. A failure to load is remembered: each later call
    fails at once.

    Args:
        model: A name on the model hub, or the path of a folder with a saved model.
        cache_size: How many vectors are kept, the least recently used leave first.

    Raises:
        ImportError: The extra `embeddings` is not installed.
    """

    def __init__(
        self, model: str = "sentence-transformers/all-MiniLM-L6-v2", *, cache_size: int = 4096
    ) -> None:
        if find_spec("sentence_transformers") is None:
            raise ImportError('embeddings need: pip install "rag-eval-hooks[embeddings]"')
        self._source = model
        self._cache_size = cache_size
        self._cache: OrderedDict[bytes, list[float]] = OrderedDict()
        self._model: Any = None
        self._failure: str | None = None
        self._closed = False
        self._worker = DaemonExecutor("rag-eval-hooks-embedder")

    @property
    def name(self) -> str:
        """The last two parts of the model's name or path."""
        return "/".join(self._source.rstrip("/\\").replace("\\", "/").split("/")[-2:])

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length 1 per text, in order.

        Raises:
            JudgeError: The model cannot be loaded, failed on these texts, or is closed.
        """
        if not texts:
            return []
        if self._closed:
            raise JudgeError(f"{self._source}: the embedder is closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, self._embed, list(texts))

    async def aclose(self) -> None:
        """Ends the worker thread after the work in hand, and lets go of the model."""
        self._closed = True
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._worker, self._forget)
        self._worker.shutdown()

    def _forget(self) -> None:
        self._model = None
        self._cache.clear()

    def _embed(self, texts: list[str]) -> list[list[float]]:
        keys = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        found = {key: vector for key in keys if (vector := self._recall(key)) is not None}
        new = {k: text for k, text in zip(keys, texts, strict=True) if k not in found}
        if new:
            found.update(zip(new, self._encode(list(new.values())), strict=True))
            self._keep({key: found[key] for key in new})
        return [found[key] for key in keys]

    def _recall(self, key: bytes) -> list[float] | None:
        vector = self._cache.get(key)
        if vector is not None:
            self._cache.move_to_end(key)
        return vector

    def _keep(self, vectors: dict[bytes, list[float]]) -> None:
        self._cache.update(vectors)
        while len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)

    def _encode(self, texts: list[str]) -> list[list[float]]:
        model = self._loaded()
        try:
            vectors = model.encode(
                texts, batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False
            )
        except (RuntimeError, ValueError, IndexError) as error:
            raise JudgeError(f"{self._source}: {type(error).__name__} while embedding") from error
        return [[float(value) for value in vector] for vector in vectors.tolist()]

    def _loaded(self) -> Any:
        if self._failure is not None:
            raise JudgeError(self._failure)
        if self._model is None:
            self._model = self._load()
        return self._model

    def _load(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer

            return SentenceTransformer(self._source)
        except (ImportError, OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
            self._failure = f"{self._source}: cannot load the model ({type(error).__name__})"
            raise JudgeError(self._failure) from error
