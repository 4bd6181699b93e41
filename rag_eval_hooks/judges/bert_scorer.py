"""BERTScore by the bert-score package."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.encodable import encodable
from rag_eval_hooks.errors import ConfigError, JudgeError
from rag_eval_hooks.findings import TokenScore
from rag_eval_hooks.judges.local_model import InProcess, LocalModel, short_name

__all__ = ["BertScorer"]

_LONGEST = 512  # tokens, where the tokenizer states no limit

_TextPair = tuple[str, str]


class BertScorer:
    """Precision, recall and F1 of tokens matched by their contextual embeddings.

    The numbers are those of `bert_score.score` without idf weights. The model is loaded on first
    use, once, in a child process or a thread of its own; pairs of concurrent callers go through it
    together.
    Source: Zhang et al., BERTScore, ICLR 2020.

    Args:
        model: A name on the model hub, or the path of a folder with a saved model.
        layer: The layer whose embeddings are compared, 0 being the model's input; by default the
            one that bert-score has found best. Needed for a model that it does not know.
        rescale_with_baseline: Whether scores are stretched so that unrelated texts are near 0
            rather than near the baseline; they can then be negative.
        baseline_path: A baseline file of your own: CSV with the columns LAYER, P, R, F.
        language: Which of bert-score's baselines, such as `en` or `de`.
        batch_size: Pairs in a batch, and texts in a forward pass.
        process: Whether the model runs in a child process; `auto`: wherever one can be started.

    Raises:
        ImportError: The extra `bertscore` is not installed.
        ConfigError: A value cannot be used, there is no baseline for the model, or a process is
            asked for and cannot be started here.
    """

    def __init__(
        self,
        model: str = "microsoft/deberta-xlarge-mnli",
        *,
        layer: int | None = None,
        rescale_with_baseline: bool = False,
        baseline_path: str | Path | None = None,
        language: str = "en",
        batch_size: int = 64,
        process: InProcess = "auto",
    ) -> None:
        if find_spec("bert_score") is None:
            raise ImportError('BERTScore needs: pip install "rag-eval-hooks[bertscore]"')
        if layer is not None and layer < 0:
            raise ConfigError("layer", layer, "a layer's number, or None")
        if batch_size < 1:
            raise ConfigError("batch_size", batch_size, "a whole number, 1 or more")
        self._source = model
        baseline = _baseline_file(model, language, baseline_path) if rescale_with_baseline else None
        self.name = f"bert-score:{short_name(model)}"
        self.name += "" if layer is None else f"_L{layer}"
        if baseline is not None:
            self.name += "-rescaled" if baseline_path is None else "-custom-rescaled"
        self._model: LocalModel[_TextPair, TokenScore] = LocalModel(
            model,
            Caller(self.name, Operation.TOKEN_SCORE, local=True),
            partial(_load, model, layer, baseline, batch_size),
            process,
            size=batch_size,
        )

    async def score(self, candidate: str, reference: str) -> TokenScore:
        """Return precision, recall and F1 of a candidate against a reference, each at most 1.

        A text without a token, such as a blank one, has nothing in common with any other: 0.

        Raises:
            JudgeError: The model cannot be loaded, failed on this pair, or is closed.
        """
        if not (candidate.strip() and reference.strip()):
            return TokenScore(0.0, 0.0, 0.0)
        (found,) = await self._model.run_all([(candidate, reference)])
        if not all(map(math.isfinite, (found.precision, found.recall, found.f1))):
            raise JudgeError(f"{self._source}: the model gave a number that is not finite")
        return found

    async def warm_up(self) -> None:
        """Load the model.

        Raises:
            JudgeError: It cannot be loaded.
        """
        await self._model.warm_up()

    async def aclose(self) -> None:
        """Release the model, and end its process or thread."""
        await self._model.aclose()


@dataclass(frozen=True, slots=True)
class _Model:
    """Loaded model of bert-score, without the layers above the compared one."""

    network: Any
    tokenizer: Any
    baseline: tuple[float, ...] | None
    batch_size: int

    def __call__(self, pairs: Sequence[_TextPair]) -> list[TokenScore]:
        from bert_score.utils import bert_cos_score_idf

        weights: defaultdict[int, float] = defaultdict(lambda: 1.0)
        weights[self.tokenizer.sep_token_id] = 0.0
        weights[self.tokenizer.cls_token_id] = 0.0
        rows = bert_cos_score_idf(
            self.network,
            [encodable(reference) for _, reference in pairs],
            [encodable(candidate) for candidate, _ in pairs],
            self.tokenizer,
            weights,
            batch_size=self.batch_size,
            device=self.network.device,
        )
        return [TokenScore(*self._rescaled(row)) for row in rows.tolist()]

    def _rescaled(self, row: Sequence[float]) -> tuple[float, ...]:
        baseline = self.baseline or (0.0,) * len(row)
        return tuple(
            min((value - low) / (1 - low), 1.0) for value, low in zip(row, baseline, strict=True)
        )


def _load(source: str, layer: int | None, baseline: Path | None, batch_size: int) -> _Model:
    import torch
    from bert_score.utils import get_model, get_tokenizer, model2layers

    if layer is None:
        layer = model2layers.get(source)
    if layer is None:
        raise JudgeError(f"{source}: bert-score knows no best layer for this model; set the layer")
    rescaling = None if baseline is None else _baseline(baseline, layer)
    tokenizer = get_tokenizer(source)
    network = get_model(source, layer).to("cuda" if torch.cuda.is_available() else "cpu")
    # Many tokenizers, DeBERTa's among them, state a limit of 1e30 tokens, which transformers 5
    # does not take (https://github.com/Tiiiger/bert_score/issues/205).
    if tokenizer.model_max_length > 10**6:
        positions = getattr(network.config, "max_position_embeddings", _LONGEST)
        tokenizer.model_max_length = min(_LONGEST, positions)
    return _Model(network, tokenizer, rescaling, batch_size)


def _baseline_file(model: str, language: str, given: str | Path | None) -> Path:
    if given is not None:
        if not Path(given).is_file():
            raise ConfigError("baseline_path", str(given), "a file that exists")
        return Path(given)
    package = find_spec("bert_score")
    folders = package.submodule_search_locations if package else None
    for folder in folders or ():
        file = Path(folder, "rescale_baseline", language, f"{model}.tsv")
        if file.is_file():
            return file
    wants = f"False, or baseline_path: bert-score has no baseline for {model} in {language!r}"
    raise ConfigError("rescale_with_baseline", True, wants)


def _baseline(file: Path, layer: int) -> tuple[float, ...]:
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if row["LAYER"] == str(layer):
                return tuple(float(row[column]) for column in ("P", "R", "F"))
    raise JudgeError(f"{file.name}: the baseline has no layer {layer}")
