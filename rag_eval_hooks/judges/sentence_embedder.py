"""Sentence embeddings by a local sentence-transformers model."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.encodable import encodable
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.calls.context import observed_call
from rag_eval_hooks.judges.embeddings import Embeddings, Vector
from rag_eval_hooks.judges.local_model import InProcess, LocalModel

__all__ = ["SentenceEmbedder"]

_FORWARD = 32  # texts per forward pass
_BATCH = 512  # texts per call: the library sorts them by length, so that little is padding
_WINDOW = 0.003  # seconds


class SentenceEmbedder:
    """Embeds with a sentence-transformers model, in a child process or a thread of its own.

    The model is loaded on first use, once. A failure to load is remembered: each later call
    fails at once. Texts of concurrent callers go through the model together.

    Args:
        model: A name on the model hub, or the path of a folder with a saved model.
        cache_size: Number of vectors kept; the least recently used leave first.
        process: Whether the model runs in a child process; `auto`: wherever one can be started.

    Raises:
        ImportError: The extra `embeddings` is not installed.
        ConfigError: A process is asked for and cannot be started here.
    """

    def __init__(
        self,
        model: str = "sentence-transformers/all-MiniLM-L6-v2",
        *,
        cache_size: int = 4096,
        process: InProcess = "auto",
    ) -> None:
        if find_spec("sentence_transformers") is None:
            raise ImportError('embeddings need: pip install "rag-eval-hooks[embeddings]"')
        self._source = model
        self._model: LocalModel[str, Vector] = LocalModel(
            model, "rag-eval-hooks-embedder", partial(_load, model), process
        )
        self._embeddings = Embeddings(
            model,
            self._make,
            cache_size=cache_size,
            size=_BATCH,
            window=_WINDOW,
        )

    @property
    def name(self) -> str:
        """The last two parts of the model's name or path."""
        return "/".join(self._source.rstrip("/\\").replace("\\", "/").split("/")[-2:])

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector of length 1 per text, in order.

        Raises:
            JudgeError: The model cannot be loaded, failed on these texts, or is closed.
        """
        return await self._embeddings.embed(texts)

    async def warm_up(self) -> None:
        """Load the model.

        Raises:
            JudgeError: It cannot be loaded.
        """
        await self._model.warm_up()

    async def aclose(self) -> None:
        """Release the model, and end its process or thread."""
        await self._embeddings.aclose()
        await self._model.aclose()

    async def _make(self, texts: Sequence[str]) -> Sequence[Vector | JudgeError]:
        with observed_call(Caller(self.name, Operation.EMBEDDINGS, local=True)):
            return await self._model.run(texts)


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
        return [Vector(array("f", vector)) for vector in vectors.tolist()]

    return encode
