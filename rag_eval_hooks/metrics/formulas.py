"""Arithmetic of all suites. Pure; None means that there is no value."""

from __future__ import annotations

import math
from collections.abc import Sequence


def share(flags: Sequence[bool]) -> float | None:
    """Return the share of true flags in [0, 1], or None for no flags."""
    return sum(flags) / len(flags) if flags else None


def mean(values: Sequence[float]) -> float | None:
    """Return the arithmetic mean, or None for no values."""
    return math.fsum(values) / len(values) if values else None


def average_precision(relevant: Sequence[bool]) -> float | None:
    """Return the mean of precision@k over the ranks k of relevant items, best rank first.

    1.0 if all relevant items come first, 1/3 if the only relevant item of three is last, 0 if no
    item is relevant, and None for no items.
    """
    if not relevant:
        return None
    ranks = [rank for rank, flag in enumerate(relevant, start=1) if flag]
    return mean([hits / rank for hits, rank in enumerate(ranks, start=1)]) or 0.0


def cosine(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return the cosine of two vectors of equal length, in [-1, 1].

    None if a vector is empty, all zeros, or not finite.
    """
    pairs = list(zip(left, right, strict=True))
    norms = math.hypot(*left) * math.hypot(*right)
    # Comparisons with NaN are False, so clamping would return 1.
    if norms == 0 or not math.isfinite(norms):
        return None
    dot = math.fsum(a * b for a, b in pairs)
    return max(-1.0, min(1.0, dot / norms))
