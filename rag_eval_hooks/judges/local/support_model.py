"""Probability of support from features, by boosted trees whose weights the package brings."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final, TypeAlias

from rag_eval_hooks.judges.local.features import NAMES

__all__ = ["SupportModel", "support_model"]

_FILE: Final = "support.json"
_Node: TypeAlias = "float | tuple[int, float, _Node, _Node]"


@dataclass(frozen=True, slots=True)
class SupportModel:
    """Boosted trees.

    Attributes:
        base: Log odds before the first tree.
        trees: The roots. A node is (feature, threshold, left, right), values up to the threshold
            going left; a leaf is its value.
        unsure: Probabilities between which the judge cannot tell.
    """

    base: float
    trees: tuple[_Node, ...]
    unsure: tuple[float, float]

    def log_odds(self, values: Sequence[float]) -> float:
        """Return the log odds of support."""
        total = self.base
        for node in self.trees:
            while isinstance(node, tuple):
                feature, threshold, left, right = node
                node = left if values[feature] <= threshold else right
            total += node
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
    low, high = data["unsure"]
    trees = tuple(_node(nodes, 0) for nodes in data["trees"])
    return SupportModel(data["base"], trees, (low, high))


def _node(nodes: Sequence[tuple[int, float, int, int]], at: int) -> _Node:
    """Return a node of a tree whose nodes name each other by number, a leaf by feature -1."""
    feature, value, left, right = nodes[at]
    return value if feature < 0 else (feature, value, _node(nodes, left), _node(nodes, right))


# At import: the evaluator's event loop waits for no file.
support_model()
