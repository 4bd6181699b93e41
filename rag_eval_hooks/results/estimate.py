"""Estimates means over all traffic, with 95 % intervals, from randomly sampled requests.

A mean of values in [0, 1] is Hajek's ratio estimator (1971), weighted by the inverse inclusion
probability. Its linearized variance follows Sarndal, Swensson and Wretman, Model Assisted Survey
Sampling (1992), section 5.7. The variance treats a cluster, such as a session, as one unit and
corrects residuals for leverage.

The interval is Wilson's (1927). Its formula treats the mean as a proportion that has the same
variance (Korn and Graubard, 1998). The interval uses the normal distribution if all values are 0 or
1, all weights are equal, and there are no clusters. Otherwise, the interval uses Student's t.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean
from typing import Final, NamedTuple

LEAST_LABELS: Final = 20  # for a prediction-powered interval
ALPHA: Final = 0.05
# A stratum is rare if it has fewer values than `_RARE`, but more than `_MATTERS` of the traffic.
_RARE: Final = 10
_MATTERS: Final = 0.05


class Basis(NamedTuple):
    number: float
    freedom: float

    def interval(self, mean: float) -> tuple[float, float]:
        square, count = t_quantile(self.freedom) ** 2, self.number
        middle = (mean + square / (2 * count)) / (1 + square / count)
        half = math.sqrt(square * mean * (1.0 - mean) / count + (square / (2 * count)) ** 2)
        half /= 1 + square / count
        return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over all traffic with its 95 % interval."""

    mean: float
    low: float | None = None  # ends of the interval; None for fewer than two values or clusters
    high: float | None = None
    n: int  # number of values
    effective_n: float  # effective sample size (Kish), at most `n`
    raw: float  # mean of the values without weights
    basis: Basis | None = None  # None without an interval

    def scaled(self, slope: float, offset: float) -> Estimate:
        ends = [None if x is None else x * slope + offset for x in (self.low, self.high)]
        low, high = ends if slope >= 0 else reversed(ends)
        mean, raw = self.mean * slope + offset, self.raw * slope + offset
        return replace(self, mean=mean, low=low, high=high, raw=raw)

    def with_interval(self, variance: float, effective: float, freedom: float = 0.0) -> Estimate:
        if variance == math.inf:
            return self
        spread = self.mean * (1.0 - self.mean)
        # Without variance, for example if all values are 1, no correction applies.
        count = max(1e-3, spread / variance) if variance > 0 and spread > 0 else effective
        basis = Basis(count, freedom or min(count, effective) - 1.0)
        low, high = basis.interval(self.mean)
        return replace(self, low=low, high=high, basis=basis)


class Moments:
    def __init__(
        self,
        number: int,
        weights: Sequence[float] | None = None,
        clusters: Sequence[Hashable] | None = None,
    ) -> None:
        given = weights or [1.0] * number
        total = math.fsum(given)
        self.parts = [weight / total for weight in given]
        self._clusters = range(number) if clusters is None else clusters
        self._masses: defaultdict[Hashable, float] = defaultdict(float)
        for cluster, part in zip(self._clusters, self.parts, strict=True):
            self._masses[cluster] += part
        self.is_plain = len(self._masses) == number and len(set(given)) == 1

    @property
    def effective_clusters(self) -> float:
        return 1.0 / math.fsum(mass * mass for mass in self._masses.values())

    def mean(self, values: Sequence[float]) -> float:
        return math.fsum(part * value for part, value in zip(self.parts, values, strict=True))

    def covariance(self, left: Sequence[float], right: Sequence[float]) -> float:
        if len(self._masses) < 2:
            return math.inf
        middles = self.mean(left), self.mean(right)
        sums: dict[Hashable, tuple[float, float]] = dict.fromkeys(self._masses, (0.0, 0.0))
        for cluster, part, x, y in zip(self._clusters, self.parts, left, right, strict=True):
            a, b = sums[cluster]
            sums[cluster] = a + part * (x - middles[0]), b + part * (y - middles[1])
        return math.fsum(
            a * b / max(1.0 - self._masses[cluster], 1e-9) for cluster, (a, b) in sums.items()
        )


def mean_of(
    values: Sequence[float],
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> Estimate | None:
    """Return the weighted mean of values in [0, 1]. A weight is 1 / inclusion probability."""
    if not values:
        return None
    moments = Moments(len(values), weights, clusters)
    estimate = Estimate(
        mean=moments.mean(values),
        n=len(values),
        effective_n=1.0 / math.fsum(part * part for part in moments.parts),
        raw=fmean(values),
    )
    is_share = moments.is_plain and all(value in (0.0, 1.0) for value in values)
    variance = moments.covariance(values, values) + rare_variance(weights or ())
    effective = moments.effective_clusters
    return estimate.with_interval(variance, effective, math.inf if is_share else 0.0)


def rare_variance(weights: Sequence[float]) -> float:
    # A few values may be equal by chance. Their variance would be too low without this addition.
    # Samples with the same weight form a stratum. The method follows Agresti and Coull (1998).
    strata, total = Counter(round(weight, 6) for weight in weights), math.fsum(weights)
    masses = {weight: count * weight / total for weight, count in strata.items()}
    return math.fsum(
        0.25 * masses[weight] ** 2 / (count + 1)
        for weight, count in strata.items()
        if len(strata) > 1 and count < _RARE and masses[weight] > _MATTERS
    )


def predicted_mean(
    labelled: Sequence[tuple[float, float, float]], judged: Sequence[tuple[float, float]]
) -> Estimate | None:
    # Prediction-powered inference (Angelopoulos et al., PPI++, 2023).
    # `labelled`: (label, judge's value, weight) of each sample with a label.
    # `judged`: (judge's value, weight) of each sample without a label.
    if len(labelled) < LEAST_LABELS:
        return None
    labels, beside, weights = zip(*labelled, strict=True)
    own, of_labels = mean_of(labels, weights), Moments(len(labels), weights)
    if own is None or not judged:
        return own
    values, others = zip(*judged, strict=True)
    rest = Moments(len(values), others)
    of_rest = rest.covariance(values, values) if len(values) > 1 else 0.0
    spread = of_labels.covariance(beside, beside) + of_rest
    trust = of_labels.covariance(labels, beside) / spread if spread else 0.0
    trust = min(1.0, max(0.0, trust))
    mean = own.mean + trust * (rest.mean(values) - of_labels.mean(beside))
    residuals = [label - trust * value for label, value, _ in labelled]
    variance = of_labels.covariance(residuals, residuals) + trust**2 * of_rest
    return replace(own, mean=min(1.0, max(0.0, mean))).with_interval(variance, own.effective_n)


def t_quantile(freedom: float, alpha: float = ALPHA) -> float:
    """Return the two-sided quantile of Student's t for `alpha`.

    `freedom` is the number of degrees of freedom. A number below 1 counts as 1.
    """
    # Above two degrees of freedom, Hill's expansion (1970, CACM algorithm 396) has a relative error
    # below 4e-4. Below two, the quantile is at most 4 % too high.
    n, normal = max(freedom, 1.0), NormalDist().inv_cdf(alpha / 2)
    if n > 1e6:
        return -normal
    if n <= 2.0:
        share = 2.0 / n - 1.0
        of_two = math.sqrt(2.0 / (alpha * (2.0 - alpha)) - 2.0)
        return float(math.tan(math.pi * (1.0 - alpha) / 2) ** share * of_two ** (1.0 - share))
    a = 1.0 / (n - 0.5)
    b = 48.0 / a**2
    c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36
    d = ((94.5 / (b + c) - 3.0) / b + 1.0) * math.sqrt(a * math.pi / 2) * n
    tail = (d * alpha) ** (2.0 / n)
    if tail > 0.05 + a:
        x, y = normal, normal**2
        c += 0.3 * (n - 4.5) * (x + 0.6) if n < 5 else 0.0
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x
        return math.sqrt(n * math.expm1(a * y * y))
    y = 1.0 / (((n + 6.0) / (n * tail) - 0.089 * d - 0.822) * (n + 2.0) * 3.0) + 0.5 / (n + 4.0)
    return math.sqrt(n * ((y * tail - 1.0) * (n + 1.0) / (n + 2.0) + 1.0 / tail))
