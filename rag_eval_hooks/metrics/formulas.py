"""The arithmetic of all suites. Pure; every function says when there is no value."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["average_precision", "cosine", "mean", "share"]


def share(flags: Sequence[bool]) -> float | None:
    """Share of true flags.

    Args:
        flags: One verdict per item, any order, any length.

    Returns:
        A value in [0, 1], or None for no items: 0/0 is not a bad score, it is no score.
    """
    return sum(flags) / len(flags) if flags else None


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean, or None for no values."""
    return math.fsum(values) / len(values) if values else None


def average_precision(relevant: Sequence[bool]) -> float | None:
    """Rank-aware precision: mean of precision@k over the ranks k of relevant items.

    Args:
        relevant: One verdict per retrieved item, best rank first.

    Returns:
        A value in [0, 1]: 1.0 when all relevant items stand before all others, 1/3 when the
        only relevant one of three is last, 0 when none is relevant; None for no items.
    """
    if not relevant:
        return None
    hits = 0
    precisions = []
    for rank, flag in enumerate(relevant, start=1):
        if flag:
            hits += 1
            precisions.append(hits / rank)
    return mean(precisions) or 0.0


def cosine(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Cosine of the angle between two vectors.

    Returns:
        A value in [-1, 1], or None when a vector has no direction (all zeros, or empty).

    Raises:
        ValueError: The vectors differ in length.
    """
    dot = math.fsum(a * b for a, b in zip(left, right, strict=True))
    norms = math.hypot(*left) * math.hypot(*right)
    return max(-1.0, min(1.0, dot / norms)) if norms else None
