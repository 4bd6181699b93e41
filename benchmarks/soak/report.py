"""The tables, and the verdict."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence

from benchmarks.soak.variants import Variant
from benchmarks.soak.watch import Look, growth, slope

__all__ = ["PLACES", "books", "incidents", "latencies", "memory", "verdict"]

PLACES: Sequence[tuple[str, Callable[[Look], float]]] = (
    ("application", lambda look: look.app_mb),
    ("evaluators", lambda look: look.evaluators_mb),
)
"""Whose memory is looked at."""
_ROWS = 12
"""Of the series of memory, at most."""


def latencies(found: Sequence[Variant]) -> None:
    """Percentiles by variant, and ratios to those without a handler."""
    plain = found[0]
    print("\np99 typical: the median of the p99 of its blocks, which one bad moment does not sway")
    print(f"{'request latency':18}{'p50 ms':>9}{'p99 ms':>9}{'p99 typical':>13}", end="")
    print(f"{'least and most':>18}{'p50':>8}{'p99':>8}{'typical':>9}{'requests':>10}")
    for variant in found:
        low, typical, high = spread(variant)
        values = percentile(variant, 50), percentile(variant, 99), typical
        least = percentile(plain, 50), percentile(plain, 99), spread(plain)[1]
        line = f"{variant.name:18}{values[0]:9.1f}{values[1]:9.1f}{typical:13.1f}"
        line += f"{f'{low:.0f} .. {high:.0f}':>18}"
        ratios = [value / base for value, base in zip(values, least, strict=True)]
        line += f"{ratios[0]:7.2f}x{ratios[1]:7.2f}x{ratios[2]:8.2f}x"
        print(f"{line}{sum(map(len, variant.latencies)):10}")


def percentile(variant: Variant, which: int) -> float:
    """Over all of a variant's requests; 0 for none."""
    return _percentile([value for block in variant.latencies for value in block], which)


def spread(variant: Variant) -> tuple[float, float, float]:
    """The least, the median and the highest p99 of its blocks."""
    each = [_percentile(block, 99) for block in variant.latencies]
    return (min(each), statistics.median(each), max(each)) if each else (0.0, 0.0, 0.0)


def _percentile(values: Sequence[float], which: int) -> float:
    if len(values) < 2:
        return sum(values)
    # Inclusive: no percentile is beyond what was measured.
    return statistics.quantiles(values, n=100, method="inclusive")[which - 1]


def books(found: Sequence[Variant]) -> None:
    """What became of every request."""
    heads = ("sent", "offered", "scored", "sampled out", "dropped", "failed", "pending")
    print(f"\n{'books':18}" + "".join(f"{head:>12}" for head in heads))
    for variant in found:
        if variant.evals is None:
            continue
        stats = variant.evals.stats()
        values = (
            sum(variant.sent.values()),
            stats.offered,
            stats.scored,
            stats.sampled_out,
            sum(stats.dropped.values()),
            sum(stats.failed.values()),
            stats.pending,
        )
        print(f"{variant.name:18}" + "".join(f"{value:12}" for value in values))
        print(f"{'':18}  dropped {dict(stats.dropped)}; failed {dict(stats.failed)}")
        print(f"{'':18}  spool {dict(variant.evals.spooled())}, undurable {stats.undurable}")


def incidents(found: Sequence[Variant], faults: Counter[str], troubles: Counter[str]) -> None:
    """Which faults were met, and what reached the application."""
    print(f"\nthe judge was stopped {faults['slow']} and killed {faults['refused']} times")
    for variant in found:
        if variant.evals is not None and (met := variant.evals.stats().incidents):
            print(f"{variant.name}: {dict(met)}")
    print(f"exceptions that reached the application: {dict(troubles) or 'none'}")


def memory(looks: Sequence[Look], steady: Sequence[Look], window: float) -> None:
    """The series, its slope, and the last minute against the first steady one."""
    print(f"\n{'memory':>8}{'app MB':>10}{'evaluators MB':>16}{'threads':>9}{'files':>7}")
    step = max(1, -(-len(looks) // _ROWS))
    for look in looks[::step]:
        minutes = f"{look.at / 60:.1f} min"
        print(f"{minutes:>8}{look.app_mb:10.1f}{look.evaluators_mb:16.1f}", end="")
        print(f"{look.threads:9}{look.files:7}")
    for name, value in PLACES:
        grown, rate = growth(steady, value, window), slope(steady, value)
        print(
            f"{name}: last {window:.0f} s less first steady {window:.0f} s {grown:+.1f} MB,", end=""
        )
        print(f" slope {rate:+.2f} MB a minute")


def verdict(found: Sequence[Variant], findings: Sequence[str], seconds: float) -> str:
    """One line."""
    sent = sum(sum(map(len, variant.latencies)) for variant in found)
    _, typical, highest = spread(found[0])
    told = []
    for variant in found[1:]:
        most = spread(variant)[1]
        within = "within" if most <= highest else "beyond"
        told.append(f"{variant.name} {most / typical:.2f}x ({within} the noise of none)")
    word = "FAILED" if findings else "PASSED"
    times = f"typical p99 beside no handler: {', '.join(told)}"
    return f"{word}: {sent} requests in {seconds / 60:.1f} min; {times}"
