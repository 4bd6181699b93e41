"""Runs the soak; ends with 1 where something is not as it must be."""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.placement import packaged
from benchmarks.soak import __doc__ as about
from benchmarks.soak import checks, report
from benchmarks.soak.judge import Faults, JudgeProcess
from benchmarks.soak.load import Host, drain, serve
from benchmarks.soak.variants import variants
from benchmarks.soak.watch import Look, Watch, children, growth

_SLOTS = 2
_CALLS = 2
"""That a sample takes: one for its claims, one for their verdicts."""
_OVERLOAD = 10
_TIMES = 1.5
"""Budget of calls, as a multiple of what the judge can take in the time: it is not the limit."""
_FILLING = 0.2
"""Share of the time after which caches and the allocator's arenas have the size that they keep."""


class Soak:
    """One run.

    Args:
        options: Of the command line.
        folder: For spools, results and budgets.
    """

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.judge = JudgeProcess(_SLOTS, options.latency)
        self.rate = _OVERLOAD * self.judge.calls_per_second / _CALLS
        self.calls = max(1000.0, _TIMES * self.judge.calls_per_second * 3600)
        model = packaged() is not None and not options.no_model
        self.found = list(variants(folder, self.judge.url, self.calls, model))
        self.host = Host()
        self.watch = Watch(lambda: {self.judge.pid or 0})
        self.faults = Faults(
            self.judge, every=1.5 * options.block, longest=min(2.0, options.block / 3)
        )
        self.steady_from = 0.0
        self._seeds = itertools.count()

    def run(self) -> list[str]:
        """Everything; gives the findings."""
        try:
            with self.host, self.watch:
                self._round(seconds=1.0)
                for variant in self.found:
                    variant.latencies.clear()
                with self.faults:
                    self._soak()
                findings = list(self._end())
        finally:
            self.judge.kill()
        return [*findings, *self._memory(), *self._leftovers()]

    def _soak(self) -> None:
        began, seconds = time.monotonic(), 60 * self.options.minutes
        while time.monotonic() < began + seconds:
            self._round(self.options.block)
            if time.monotonic() >= began + seconds * _FILLING:
                self.steady_from = self.steady_from or self.watch.elapsed

    def _round(self, seconds: float) -> None:
        for variant in random.sample(self.found, len(self.found)):
            before = 0 if variant.evals is None else variant.evals.stats().scored
            serve(variant, next(self._seeds), self.rate, seconds, self.host)
            if variant.evals is not None:
                variant.scored += variant.evals.stats().scored - before
            drain(variant)

    def _end(self) -> Iterator[str]:
        for variant in self.found:
            if variant.evals is None:
                continue
            variant.evals.shutdown(60)
            found = [
                *checks.books(variant),
                *checks.spool(variant),
                *checks.results(variant),
                *checks.budget(variant, self.calls),
                *checks.leaks(variant),
            ]
            yield from (f"{variant.name}: {finding}" for finding in found)
        yield from (f"exception in the application: {what}" for what in self.host.troubles)

    @property
    def steady(self) -> list[Look]:
        """Memory once caches are full, until the evaluators ended."""
        return [
            look
            for look in self.watch.looks
            if look.at >= self.steady_from and look.evaluators_mb > 0
        ]

    @property
    def window(self) -> float:
        """Seconds that are compared: a minute, in short runs less."""
        steady = self.steady
        return min(60.0, (steady[-1].at - steady[0].at) / 3) if steady else 0.0

    def _memory(self) -> Iterator[str]:
        for name, value in report.PLACES:
            grown = growth(self.steady, value, self.window)
            if grown > self.options.growth:
                yield f"memory of {name} grew by {grown:.1f} MB, allowed {self.options.growth}"

    def _leftovers(self) -> Iterator[str]:
        yield from checks.threads()
        if left := children():
            yield f"{len(left)} child processes left"


def _print(soak: Soak, findings: Sequence[str]) -> None:
    judge = soak.judge.calls_per_second
    print(f"the judge takes {judge:.1f} calls a second; {soak.rate:.0f} requests a second came")
    report.latencies(soak.found)
    report.books(soak.found)
    report.incidents(soak.found, soak.faults.counts, soak.host.troubles)
    report.memory(soak.watch.looks, soak.steady, soak.window)
    for finding in findings:
        print(f"WRONG: {finding}")
    print(report.verdict(soak.found, findings, soak.watch.elapsed))


def main() -> int:
    """Runs it; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--block", type=float, default=6.0, help="seconds of one block")
    parser.add_argument(
        "--latency", type=float, default=0.65, help="seconds of a judge's call: sets the load"
    )
    parser.add_argument("--no-model", action="store_true", help="without MiniLM")
    parser.add_argument("--growth", type=float, default=40.0, help="MB that memory may grow by")
    options = parser.parse_args()
    # As the documentation advises applications that run a model in a thread.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        soak = Soak(options, Path(folder))
        findings = soak.run()
        _print(soak, findings)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
