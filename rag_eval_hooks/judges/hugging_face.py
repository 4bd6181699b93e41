"""Runs embedding models and BERTScore locally, with models from the Hugging Face hub."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.errors import ConfigError, JudgeError, missing_extra
from rag_eval_hooks.explanation import encodable
from rag_eval_hooks.findings import TokenScore
from rag_eval_hooks.judges.local_model import LocalModel, short_name

_FORWARD: Final = 32  # texts per forward pass of an embedder
_TEXTS: Final = 512  # texts per call; the library sorts by length to save padding
_PAIRS: Final = 64  # BERTScore pairs per batch, and texts per forward pass
_LONGEST: Final = 512  # tokens; used if the tokenizer states no limit
_TextPair = tuple[str, str]


class SentenceEmbedder(LocalModel[str, list[float]]):
    """Embeds texts with a sentence-transformers model on this machine.

    The model loads once, on first use, in a child process or on a thread. Texts of concurrent
    callers share a batch.

    Args:
        model: Name on the Hugging Face hub, or path of a folder with a saved model.

    Raises:
        ImportError: The extra `embeddings` is not installed.
    """

    def __init__(self, model: str = "sentence-transformers/all-MiniLM-L6-v2") -> None:
        if find_spec("sentence_transformers") is None:
            raise missing_extra("SentenceEmbedder", "embeddings")
        caller = Caller(short_name(model), Operation.EMBEDDINGS, local=True)
        super().__init__(model, caller, partial(_load_embedder, model), size=_TEXTS)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order. Each vector has the Euclidean norm 1."""
        return await self.run_all(texts)


def _load_embedder(source: str) -> Callable[[Sequence[str]], list[list[float]]]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(source)

    def encode(texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = model.encode(
            [encodable(text) for text in texts],
            batch_size=_FORWARD,
            normalize_embeddings=True,
            show_progress_bar=False,
        ).tolist()
        return vectors

    return encode


class BertScorer(LocalModel[_TextPair, TokenScore]):
    """Computes BERTScore (Zhang et al., ICLR 2020) on this machine, without idf weights.

    The model loads once, on first use, in a child process or on a thread. Pairs of concurrent
    callers share a batch.

    Args:
        model: Name on the Hugging Face hub, or path of a folder with a saved model.
        layer: Number of the layer whose embeddings BERTScore compares. Layer 0 is the input. If the
            package bert-score does not know the model, you must set `layer`.
        rescale_with_baseline: Whether to rescale the scores by bert-score's baseline for the model.
            Rescaled scores of unrelated texts are about 0, and some are negative.

    Raises:
        ImportError: The extra `bertscore` is not installed.
        ConfigError: `layer` is invalid, or bert-score has no baseline for the model.
    """

    def __init__(
        self,
        model: str = "microsoft/deberta-xlarge-mnli",
        *,
        layer: int | None = None,
        rescale_with_baseline: bool = False,
    ) -> None:
        if (package := find_spec("bert_score")) is None:
            raise missing_extra("BertScorer", "bertscore")
        if layer is not None and layer < 0:
            raise ConfigError("layer", layer, "the number of a layer, 0 or more, or None")
        baseline = Path(package.origin or "").parent / f"rescale_baseline/en/{model}.tsv"
        if rescale_with_baseline and not baseline.is_file():
            wants = f"False, because bert-score has no baseline for the model {model}"
            raise ConfigError("rescale_with_baseline", True, wants)
        name = f"bert-score:{short_name(model)}" + ("" if layer is None else f"_L{layer}")
        name += "-rescaled" if rescale_with_baseline else ""
        load = partial(_load_scorer, model, layer, rescale_with_baseline)
        caller = Caller(name, Operation.TOKEN_SCORE, local=True)
        super().__init__(model, caller, load, size=_PAIRS)

    async def score(self, candidate: str, reference: str) -> TokenScore:
        """Return precision, recall and F1, each at most 1."""
        (found,) = await self.run_all([(candidate, reference)])
        if not all(map(math.isfinite, (found.precision, found.recall, found.f1))):
            raise JudgeError(f"{self.name}: the model returned NaN or infinity")
        return found


def _load_scorer(
    source: str, layer: int | None, rescale: bool
) -> Callable[[Sequence[_TextPair]], list[TokenScore]]:
    from bert_score import BERTScorer
    from bert_score.utils import model2layers

    if layer is None and source not in model2layers:
        raise JudgeError(f"{source}: bert-score knows no best layer for this model; set `layer`")
    scorer = BERTScorer(source, layer, lang="en", rescale_with_baseline=rescale)
    # Many tokenizers, such as DeBERTa's, state a limit of 1e30 tokens. transformers 5 rejects
    # this limit (https://github.com/Tiiiger/bert_score/issues/205).
    tokenizer, network = scorer._tokenizer, scorer._model
    if tokenizer.model_max_length > 10**6:
        positions = getattr(network.config, "max_position_embeddings", _LONGEST)
        tokenizer.model_max_length = min(_LONGEST, positions)

    def score(pairs: Sequence[_TextPair]) -> list[TokenScore]:
        columns = scorer.score(
            *([encodable(text) for text in texts] for texts in zip(*pairs, strict=True)),
            batch_size=_PAIRS,
        )
        rows = zip(*(column.clamp(max=1.0).tolist() for column in columns), strict=True)
        return [TokenScore(*row) for row in rows]

    return score
