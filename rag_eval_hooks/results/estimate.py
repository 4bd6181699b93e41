"""Means over all traffic from a sample of known inclusion probabilities, with intervals.

A mean of values in [0, 1] is the ratio estimator of Hajek (1971), weighted by the inverse inclusion
probability. Its variance is the linearised one (Sarndal, Swensson and Wretman, Model Assisted
Survey Sampling, 1992, 5.7) with each residual corrected for its leverage. The interval is Wilson's
(1927) for a share of as many observations as have this variance (Korn and Graubard, 1998), so that
it keeps to the scale; with Student's t where the values are no mere yes and no.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Estimate", "mean_of", "predicted_mean", "share_of", "t_quantile"]

_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Mean over all traffic, with its 95 % interval.

    Attributes:
        mean: The estimate.
        low: Lower end of the interval; None for fewer than two values.
        high: Upper end of the interval, likewise.
        n: Values that it rests on.
        effective_n: Values of equal weight that would tell as much (Kish): at most `n`.
        raw: Mean of the values without weights.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    effective_n: float
    raw: float

    def scaled(self, slope: float, offset: float) -> Estimate:
        """Return the estimate on another scale: each number times `slope` plus `offset`."""
        ends = [None if x is None else x * slope + offset for x in (self.low, self.high)]
        low, high = ends if slope >= 0 else reversed(ends)
        return Estimate(
            mean=self.mean * slope + offset,
            low=low,
            high=high,
            n=self.n,
            effective_n=self.effective_n,
            raw=self.raw * slope + offset,
        )


def mean_of(values: Sequence[float], weights: Sequence[float] | None = None) -> Estimate | None:
    """Return the mean of values in [0, 1]; None for no values.

    Args:
        values: The values.
        weights: Inverse inclusion probability of each; equal ones by default.
    """
    if not values:
        return None
    parts = _parts(len(values), weights)
    mean = _weighted(values, parts)
    effective = 1.0 / math.fsum(p * p for p in parts)
    is_share = all(value in (0.0, 1.0) for value in values)
    variance = _covariance(values, values, parts) if len(values) > 1 else None
    low, high = _interval(mean, variance, effective, math.inf if is_share else None)
    return Estimate(
        mean=mean,
        low=low,
        high=high,
        n=len(values),
        effective_n=effective,
        raw=math.fsum(values) / len(values),
    )


def share_of(flags: Sequence[bool], weights: Sequence[float] | None = None) -> Estimate | None:
    """Return the share of true flags, with Wilson's interval; None for no flags."""
    return mean_of([float(flag) for flag in flags], weights)


def predicted_mean(
    judged: Sequence[float],
    labelled: Sequence[tuple[float, float]],
    weights: Sequence[float] | None = None,
    *,
    label_weights: Sequence[float] | None = None,
) -> Estimate | None:
    """Return the mean of the labels that all samples would have, from labels of a part of them.

    Prediction-powered estimate with the weight on the judge that minimises the variance
    (Angelopoulos, Duchi and Zrnic, PPI++, 2023). Without a useful judge it is the labels' mean.

    Args:
        judged: The judge's value of every sample without a label, in [0, 1].
        labelled: Label and the judge's value of the labelled samples, a random part.
        weights: Inverse inclusion probability of each in `judged`; equal ones by default.
        label_weights: That of each in `labelled`.

    Returns:
        None for fewer than two labels.
    """
    if len(labelled) < 2:
        return None
    labels, beside = zip(*labelled, strict=True)
    own, parts = mean_of(labels, label_weights), _parts(len(labels), label_weights)
    assert own is not None
    if not judged:
        return own
    rest = _parts(len(judged), weights)
    of_rest = _covariance(judged, judged, rest)
    spread = _covariance(beside, beside, parts) + of_rest
    trust = _covariance(labels, beside, parts) / spread if spread else 0.0
    trust = min(1.0, max(0.0, trust))
    mean = own.mean + trust * (_weighted(judged, rest) - _weighted(beside, parts))
    mean = min(1.0, max(0.0, mean))
    residuals = [y - trust * f for y, f in labelled]
    variance = _covariance(residuals, residuals, parts) + trust**2 * of_rest
    low, high = _interval(mean, variance, own.effective_n)
    return Estimate(
        mean=mean, low=low, high=high, n=own.n, effective_n=own.effective_n, raw=own.raw
    )


def t_quantile(freedom: float) -> float:
    """Return the quantile of Student's t for a 95 % interval; that of the normal above 1e6."""
    from scipy.special import stdtrit

    return float(stdtrit(min(max(freedom, 1.0), 1e6), 0.5 + _CONFIDENCE / 2))


def _interval(
    mean: float, variance: float | None, effective: float, freedom: float | None = None
) -> tuple[float | None, float | None]:
    if variance is None:
        return None, None
    spread = mean * (1.0 - mean)
    # Without any variance, as where all are right, the values count as they are.
    count = spread / variance if variance > 0 and spread > 0 else effective
    square = t_quantile(min(count, effective) - 1.0 if freedom is None else freedom) ** 2
    middle = (mean + square / (2 * count)) / (1 + square / count)
    half = math.sqrt(square * spread / count + (square / (2 * count)) ** 2) / (1 + square / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def _parts(number: int, weights: Sequence[float] | None) -> list[float]:
    """Return each weight as a part of them all."""
    weights = weights or [1.0] * number
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _weighted(values: Sequence[float], parts: Sequence[float]) -> float:
    return math.fsum(part * value for part, value in zip(parts, values, strict=True))


def _covariance(left: Sequence[float], right: Sequence[float], parts: Sequence[float]) -> float:
    """Return the linearised covariance of two weighted means of the same samples."""
    middle, other = _weighted(left, parts), _weighted(right, parts)
    return math.fsum(
        part**2 * (x - middle) * (y - other) / max(1.0 - part, 1e-9)
        for part, x, y in zip(parts, left, right, strict=True)
    )
