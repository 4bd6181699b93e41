"""Size of a fleet: workers, Redis memory and money, by a formula and by a simulation beside it.

    python -m benchmarks.capacity [--calls 2] [--latency 0.6] [--price 0.0005]
    python -m benchmarks.capacity --outage 3600

The second form lets a day of traffic pass in simulated time, with the broker away for so many
seconds at the busiest hour: what is lost, delayed and paid, without and with a spool.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.fleet.broker import BATCH_SAMPLES

__all__ = ["Load", "Outage", "Size", "outage", "simulate", "size_of"]

CPU_S = 0.008
"""Seconds of a core that a worker needs for a sample, see `benchmarks.fleet_throughput`."""
WIRE_BYTES = 900
"""Compressed bytes of a sample with five contexts of 500 characters, see there."""
WAITING_BYTES = 1080
"""Redis memory of such a sample that waits, see there."""
CLAIM_BYTES = 150
"""Redis memory of the note that a batch is finished."""
REMEMBERED_S = 3600.0 + 2 * 2000.0
_BUSY = 0.8
"""Share of their time for which workers are planned to be busy."""
_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Traffic and judge.

    Attributes:
        rate: Samples chosen in a second, of all applications.
        calls: Judge calls a sample, one after the other.
        latency: Mean seconds of a call.
        price: Money for a call.
        concurrency: Samples that a worker evaluates at once.
    """

    rate: float
    calls: float = 2.0
    latency: float = 0.6
    price: float = 0.0005
    concurrency: int = RagEvalConfig().judge_concurrency


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of a fleet.

    Attributes:
        workers: Processes, each with a core of its own.
        redis_mb: Redis memory without a backlog, in megabytes.
        backlog_mb: Redis memory for each minute for which workers stand still.
        money_per_day: Cost of the judge's calls in a day.
    """

    workers: int
    redis_mb: float
    backlog_mb: float
    money_per_day: float


def size_of(load: Load) -> Size:
    """Return the size by Little's law: so many samples are in evaluation at once."""
    in_evaluation = load.rate * load.calls * load.latency
    by_judge = in_evaluation / (load.concurrency * _BUSY)
    by_core = load.rate * CPU_S / _BUSY
    batches = load.rate / BATCH_SAMPLES
    return Size(
        workers=max(1, math.ceil(max(by_judge, by_core))),
        redis_mb=batches * REMEMBERED_S * CLAIM_BYTES / 1e6,
        backlog_mb=load.rate * 60 * WAITING_BYTES / 1e6,
        money_per_day=load.rate * _DAY * load.calls * load.price,
    )


def simulate(load: Load, workers: int, samples: int, seed: int = 1) -> tuple[float, float, float]:
    """Let samples arrive at random and be evaluated first come, first served.

    Latencies of calls vary as a lognormal distribution with a standard deviation of half the mean.

    Args:
        load: Traffic and judge.
        workers: Processes.
        samples: Samples.
        seed: Of the draws.

    Returns:
        Share of time for which slots are busy, and the median and the 99th percentile of the
        seconds that a sample waits.
    """
    chance = random.Random(seed)
    per_core = load.concurrency if load.concurrency * CPU_S < load.calls * load.latency else None
    slots = workers * (per_core or max(1, int(load.calls * load.latency / CPU_S)))
    free = [0.0] * slots
    sigma = math.sqrt(math.log(1.25))
    mu = math.log(load.latency) - sigma**2 / 2
    now = busy = 0.0
    waits: list[float] = []
    for _ in range(samples):
        now += chance.expovariate(load.rate)
        begin = max(now, free[0])
        taken = sum(chance.lognormvariate(mu, sigma) for _ in range(round(load.calls)))
        heapq.heapreplace(free, begin + taken)
        # The first samples find an empty fleet.
        waits.append(begin - now)
        busy += taken
    waits.sort()
    return busy / (slots * now), waits[len(waits) // 2], waits[int(len(waits) * 0.99)]


@dataclass(slots=True, kw_only=True)
class Outage:
    """End of a simulated day with an outage.

    Attributes:
        offered: Samples chosen.
        lost: Samples dropped and counted.
        late: Samples that waited for more than a minute.
        longest: Longest wait in seconds.
        recovered_after: Seconds from the broker's return until nothing waits.
        paid: Judge calls.
    """

    offered: float = 0.0
    lost: float = 0.0
    late: float = 0.0
    longest: float = 0.0
    recovered_after: float = 0.0
    paid: float = 0.0


def outage(
    load: Load, seconds: int, *, spool_mb: int | None, replicas: int, seed: int = 1
) -> Outage:
    """Let a day pass in steps of a second, first in, first out.

    Traffic follows the time of day, between 0.4 and 1.6 times the mean; workers are planned for
    its highest hour.

    Args:
        load: Mean traffic, and judge.
        seconds: Duration of the outage, at the busiest hour.
        spool_mb: Size of the spool of each replica, or None without one.
        replicas: Processes of the applications.
        seed: Of the draws.
    """
    chance, day = random.Random(seed), Outage()
    peak = Load(**{**{f: getattr(load, f) for f in Load.__slots__}, "rate": load.rate * 1.6})
    workers = size_of(peak).workers
    capacity = min(workers * load.concurrency / (load.calls * load.latency), workers / CPU_S)
    config = RagEvalConfig()
    begin = _DAY // 2 - seconds // 2
    in_memory = replicas * (config.queue_size + limits.SHIPPED_SAMPLES)
    on_disk = 0.0 if spool_mb is None else replicas * spool_mb * 1e6 / (3 * WIRE_BYTES)
    waiting: list[list[float]] = []
    head, held = 0, 0.0
    for now in range(_DAY + 7200):
        rate = load.rate * (1 + 0.6 * math.sin(2 * math.pi * (now / _DAY - 0.25)))
        fresh = max(0.0, chance.gauss(rate, math.sqrt(rate))) if now < _DAY else 0.0
        day.offered += fresh
        is_away = begin <= now < begin + seconds
        waiting.append([now, fresh])
        held += fresh
        if is_away:
            most = on_disk if spool_mb is not None else in_memory
            age = math.inf if spool_mb is not None else config.sink_retry_for
            while head < len(waiting) and now - waiting[head][0] > age:
                held -= waiting[head][1]
                day.lost += waiting[head][1]
                head += 1
            over = max(0.0, held - most)
            waiting[-1][1] -= min(over, fresh)
            held -= min(over, fresh)
            day.lost += min(over, fresh)
            continue
        left = capacity
        while left > 0 and head < len(waiting):
            at, count = waiting[head]
            done = min(left, count)
            left -= done
            held -= done
            day.paid += done * load.calls
            if now - at > 60:
                day.late += done
            day.longest = max(day.longest, now - at)
            waiting[head][1] -= done
            if waiting[head][1] <= 1e-9:
                head += 1
        if now >= begin + seconds and held > capacity:
            day.recovered_after = now - begin - seconds
    return day


def _print_sizes(loads: Sequence[Load]) -> None:
    head = "samples/s  workers  Redis MB  + MB/min backlog  money/day  busy  wait p50 s  p99 s"
    print(f"{head}\n{'-' * len(head)}")
    for load in loads:
        size = size_of(load)
        count = int(min(2_000_000, max(20_000, load.rate * 60)))
        busy, half, most = simulate(load, size.workers, count)
        print(
            f"{load.rate:9,.0f}  {size.workers:7,d}  {size.redis_mb:8,.0f}  "
            f"{size.backlog_mb:16,.1f}  {size.money_per_day:9,.0f}  "
            f"{busy:4.2f}  {half:10.3f}  {most:5.2f}"
        )


def main() -> None:
    """Print the table of the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=float, default=2.0)
    parser.add_argument("--latency", type=float, default=0.6)
    parser.add_argument("--price", type=float, default=0.0005)
    parser.add_argument("--outage", type=int, metavar="SECONDS")
    given = parser.parse_args()
    costs = {"calls": given.calls, "latency": given.latency, "price": given.price}
    if given.outage is None:
        _print_sizes([Load(rate=rate, **costs) for rate in (10, 1_000, 100_000)])
        return
    for spool in (None, RagEvalConfig().spool_max_mb):
        for rate in (10, 1_000):
            day = outage(
                Load(rate=rate, **costs), given.outage, spool_mb=spool, replicas=max(4, rate // 20)
            )
            print(
                f"{rate} samples/s, spool {spool and f'{spool} MB'}: of {day.offered:,.0f} lost "
                f"{day.lost:,.0f}, later than a minute {day.late:,.0f}, longest {day.longest:,.0f} "
                f"s, caught up {day.recovered_after:,.0f} s after the outage, calls paid "
                f"{day.paid:,.0f} (money {day.paid * given.price:,.0f})"
            )


if __name__ == "__main__":
    main()
