"""Probability of support from features, by boosted trees whose weights the package brings."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

from rag_eval_hooks.judges.local.features import NAMES

__all__ = ["SupportModel", "support_model"]

_FILE: Final = "support.json"


@dataclass(frozen=True, slots=True)
class SupportModel:
    """Boosted trees.

    Attributes:
        base: Log odds before the first tree.
        trees: For each tree its nodes: (feature, threshold, left, right), values up to the
            threshold going left; a leaf is (-1, value, 0, 0).
        unsure: Probabilities between which the judge cannot tell.
    """

    base: float
    trees: tuple[tuple[tuple[int, float, int, int], ...], ...]
    unsure: tuple[float, float]

    def log_odds(self, values: Sequence[float]) -> float:
        """Return the log odds of support."""
        total = self.base
        for tree in self.trees:
            feature, value, left, right = tree[0]
            while feature >= 0:
                feature, value, left, right = tree[left if values[feature] <= value else right]
            total += value
        return total

    def probability(self, values: Sequence[float]) -> float:
        """Return the probability of support, in [0, 1]."""
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, self.log_odds(values)))))


@lru_cache(maxsize=1)
def support_model() -> SupportModel:
    """Return the model of the package.

    Raises:
        ValueError: The weights belong to other features.
    """
    text = files("rag_eval_hooks.judges.local").joinpath("weights", _FILE).read_text("utf-8")
    data = json.loads(text)
    if tuple(data["features"]) != NAMES:
        raise ValueError(f"{_FILE} belongs to other features: {data['features']}")
    trees = tuple(tuple((int(f), v, int(a), int(b)) for f, v, a, b in t) for t in data["trees"])
    low, high = data["unsure"]
    return SupportModel(data["base"], trees, (low, high))


# At import: the evaluator's event loop waits for no file.
support_model()
