"""The arithmetic of all suites. Pure; None stands for no value."""

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

    It is 1.0 when all relevant items stand before all others, 1/3 when the only relevant one of
    three is last, 0 when none is relevant, and None for no items.
    """
    if not relevant:
        return None
    ranks = [rank for rank, flag in enumerate(relevant, start=1) if flag]
    return mean([hits / rank for hits, rank in enumerate(ranks, start=1)]) or 0.0


def cosine(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return the cosine of the angle between two vectors of one length, in [-1, 1].

    It is None when a vector has no direction: all zeros, empty, or not all of its numbers finite.
    """
    pairs = list(zip(left, right, strict=True))
    norms = math.hypot(*left) * math.hypot(*right)
    # A comparison with NaN is False: clamped, NaN would be 1.
    if norms == 0 or not math.isfinite(norms):
        return None
    dot = math.fsum(a * b for a, b in pairs)
    return max(-1.0, min(1.0, dot / norms))
