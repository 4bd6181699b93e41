"""`SentenceEmbedder`: embeddings from a local sentence-transformers model."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Final

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.encodable import encodable
from rag_eval_hooks.errors import missing_extra
from rag_eval_hooks.judges.embeddings import Vector, VectorCache
from rag_eval_hooks.judges.local_model import InProcess, LocalModel, short_name

_FORWARD: Final = 32  # texts per forward pass
_BATCH: Final = 512  # texts per call: the library sorts them by length, so that little is padding


class SentenceEmbedder(LocalModel[str, Vector]):
    """Embeds texts with a sentence-transformers model, in a child process or on a thread.

    The model loads once, on first use. If loading fails, every later call fails immediately. Texts
    of concurrent callers share a batch.

    Args:
        model: Name on the Hugging Face hub, or path of a folder with a saved model.
        cache_size: Maximum number of cached vectors. The least recently used vector is evicted
            first.
        process: Whether to run the model in a child process. `auto` means wherever a process can
            start.

    Raises:
        ImportError: The extra `embeddings` is not installed.
        ConfigError: `process` is true, but no process can start here.
    """

    def __init__(
        self,
        model: str = "sentence-transformers/all-MiniLM-L6-v2",
        *,
        cache_size: int = 4096,
        process: InProcess = "auto",
    ) -> None:
        if find_spec("sentence_transformers") is None:
            raise missing_extra("SentenceEmbedder", "embeddings")
        caller = Caller(short_name(model), Operation.EMBEDDINGS, local=True)
        super().__init__(model, caller, partial(_load, model), process, size=_BATCH)
        self._cache = VectorCache(model, cache_size)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector of length 1 per text, in order.

        Raises:
            JudgeError: The model cannot be loaded, failed on these texts, or is closed.
        """
        return await self._cache.embed(texts, self.run_all)


def _load(source: str) -> Callable[[Sequence[str]], list[Vector]]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(source)

    def encode(texts: Sequence[str]) -> list[Vector]:
        vectors = model.encode(
            [encodable(text) for text in texts],
            batch_size=_FORWARD,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return [array("f", vector) for vector in vectors.tolist()]

    return encode
