"""Coverage of the 95 % intervals of `rag_eval_hooks.results` over simulated streams.

Each stream is decided by the real sampler. Values depend on tag and refusal, as live traffic does.

    python -m benchmarks.interval_coverage [--streams 1000] [--requests 500]
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rag_eval_hooks.results.estimate import Estimate, mean_of, predicted_mean

TRUE_BETA, TRUE_REST, TRUE_REFUSED = 0.85, 0.75, 0.05
BETA, REFUSED = 0.2, 0.15


@dataclass(frozen=True)
class Request:
    """One request of a stream."""

    beta: bool
    refused: bool
    value: float


def stream(chance: random.Random, requests: int) -> Iterator[Request]:
    """Yield the requests of one stream; values are shares of three to eight claims."""
    for _ in range(requests):
        beta, refused = chance.random() < BETA, chance.random() < REFUSED
        level = TRUE_REFUSED if refused else TRUE_BETA if beta else TRUE_REST
        claims = chance.randint(3, 8)
        value = sum(chance.random() < level for _ in range(claims)) / claims
        yield Request(beta, refused, value)


TRUTH = REFUSED * TRUE_REFUSED + (1 - REFUSED) * (BETA * TRUE_BETA + (1 - BETA) * TRUE_REST)

DESIGNS: dict[str, Callable[[Request], float]] = {
    "uniform .1": lambda _: 0.1,
    "stratified: beta .8, rest .1": lambda r: 0.8 if r.beta else 0.1,
    "tail: refusals 1, beta .8, rest .1": lambda r: 1.0 if r.refused else 0.8 if r.beta else 0.1,
    "every request": lambda _: 1.0,
}


def drawn(
    chance: random.Random, requests: Sequence[Request], design: Callable[[Request], float]
) -> tuple[list[float], list[float]]:
    """Return values and weights of the requests that the design chooses."""
    chosen = [r for r in requests if chance.random() < design(r)]
    return [r.value for r in chosen], [1 / design(r) for r in chosen]


def covered(estimates: Sequence[Estimate | None], truth: float) -> float:
    """Return the share of intervals that hold the truth."""
    return fmean(
        e is not None and e.low is not None and e.high is not None and e.low <= truth <= e.high
        for e in estimates
    )


def main() -> None:
    """Print a line per design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    print(f"{arguments.streams} streams of {arguments.requests} requests; true mean {TRUTH:.3f}")
    print(f"{'design':36}{'scored':>8}{'plain':>9}{'weighted':>10}{'plain %':>9}{'covers %':>10}")
    for name, design in DESIGNS.items():
        _design(name, design, chance, arguments)
    _shares(chance, arguments.streams)
    _labels(chance, arguments.streams)


def _design(
    name: str,
    design: Callable[[Request], float],
    chance: random.Random,
    arguments: argparse.Namespace,
) -> None:
    weighted, plain, counts = [], [], []
    for _ in range(arguments.streams):
        requests = list(stream(chance, arguments.requests))
        values, weights = drawn(chance, requests, design)
        weighted.append(mean_of(values, weights))
        plain.append(_naive(values))
        counts.append(len(values))
    means = [e.mean for e in weighted if e is not None]
    raws = [e.raw for e in weighted if e is not None]
    rate = fmean(counts) / arguments.requests
    uniform = [
        mean_of(drawn(chance, list(stream(chance, arguments.requests)), lambda _: rate)[0])
        for _ in range(arguments.streams)
    ]
    print(
        f"{name:36}{fmean(counts):8.0f}{fmean(raws) - TRUTH:+9.3f}{fmean(means) - TRUTH:+10.3f}"
        f"{100 * covered(plain, TRUTH):9.1f}{100 * covered(weighted, TRUTH):10.1f}"
        f"   half width {_half(weighted):.3f}, rmse {_rmse(means):.3f},"
        f" uniform of as many {_half(uniform):.3f}"
    )


def _half(estimates: Sequence[Estimate | None]) -> float:
    ends = [(e.low, e.high) for e in estimates if e is not None]
    return fmean(high - low for low, high in ends if low is not None and high is not None) / 2


def _rmse(means: Sequence[float]) -> float:
    return math.sqrt(fmean((mean - TRUTH) ** 2 for mean in means))


def _naive(values: Sequence[float]) -> Estimate | None:
    """Return the plain mean with its normal interval."""
    if len(values) < 2:
        return None
    mean, half = fmean(values), 1.96 * stdev(values) / math.sqrt(len(values))
    n = len(values)
    return Estimate(mean=mean, low=mean - half, high=mean + half, n=n, effective_n=n, raw=mean)


def _shares(chance: random.Random, streams: int) -> None:
    """Print the coverage for labels: a share near 0 and one near 1 in few samples."""
    for share, number in ((0.05, 40), (0.5, 12), (0.93, 60)):
        flags = ([float(chance.random() < share) for _ in range(number)] for _ in range(streams))
        found = [mean_of(each) for each in flags]
        print(
            f"share {share:.2f} of {number:3} samples: covers {100 * covered(found, share):.1f} %"
        )


def _labels(chance: random.Random, streams: int) -> None:
    """Print coverage and width with 60 labels beside 500 values of a biased judge."""
    powered, alone = [], []
    truth = 0.4
    for _ in range(streams):
        rows = []
        for _ in range(560):
            label = chance.random() < truth
            rows.append((float(label), float(chance.random() < (0.85 if label else 0.35))))
        powered.append(predicted_mean([judge for _, judge in rows[60:]], rows[:60]))
        alone.append(mean_of([label for label, _ in rows[:60]]))
    for name, found in (("60 labels and a biased judge", powered), ("60 labels alone", alone)):
        print(
            f"{name:30}: covers {100 * covered(found, truth):.1f} %, half width {_half(found):.3f}"
        )


if __name__ == "__main__":
    main()
