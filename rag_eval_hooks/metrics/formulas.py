"""The arithmetic of all suites. Pure; None stands for no value."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

_GRADES = ((80.0, "A"), (60.0, "B"), (40.0, "C"), (20.0, "D"))


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


def weighted_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    """Return the weighted mean of named values; weights of absent values go to the others.

    A name without a weight weighs 0. The mean is None when no part has any weight.
    """
    weighed = {name: value for name, value in values.items() if weights.get(name, 0.0) > 0}
    if not weighed:
        return None
    total = math.fsum(weights[name] for name in weighed)
    value = math.fsum(value * (weights[name] / total) for name, value in weighed.items())
    # Rounding must not lead out of the parts' range.
    return min(max(weighed.values()), max(min(weighed.values()), value))


def grade(percent: float) -> str:
    """Return the letter of a percentage: A from 80, B from 60, C from 40, D from 20, else E."""
    return next((letter for least, letter in _GRADES if percent >= least), "E")


def one_to_five(share: float) -> float:
    """Return a share in [0, 1] on the scale from 1 to 5."""
    return 1.0 + 4.0 * share


def mean_rating(ratings: Sequence[int | None], steps: Collection[int]) -> float | None:
    """Return the mean of valid ratings, each divided by the highest step; None if none is valid.

    A rating that is not one of the steps is invalid, and is not rounded to one.
    """
    top = max(steps)
    return mean([rating / top for rating in ratings if rating is not None and rating in steps])
