"""What a request pays for the spool: an offer without one, with `batch` and with `sync`.

Samples of about 13 kB are offered at a steady rate to a judge that takes 50 ms. The last line is
`sync` while another program keeps the file locked: what a slow disk may cost a request.

    python benchmarks/spool_cost.py [--offers 1000] [--rate 100]
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.testing import Findings, ScriptedJudge, Support

GOOD = Findings(answer_claims=("a",), answer_support=(Support((True,)),))
CONTEXTS = tuple(f"{place} " + "word " * 600 for place in range(4))


def offers(count: int, rate: float, **config: Any) -> list[float]:
    """Milliseconds that each offer took."""
    times = []
    evals = RagEval(
        metrics=["ragas.faithfulness"],
        judge=ScriptedJudge(GOOD, latency=0.05),
        config=RagEvalConfig(**config),
    )
    for number in range(count):
        sample = Sample(question=f"q{number}", contexts=CONTEXTS, answer="a")  # type: ignore[arg-type]
        began = time.perf_counter()
        evals.offer(sample)
        times.append((time.perf_counter() - began) * 1000)
        time.sleep(1 / rate)
    evals.flush(60)
    evals.shutdown()
    return times


def row(name: str, times: list[float], base: float) -> None:
    """Prints one line."""
    ordered = sorted(times)
    median, p99 = statistics.median(times), ordered[int(0.99 * len(ordered))]
    print(f"{name:<14}{median:>10.3f}{p99:>10.3f}{ordered[-1]:>10.3f}{median / base:>10.1f}")


def main() -> None:
    """Prints milliseconds and ratios of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=100.0)
    options = parser.parse_args()
    count, rate = options.offers, options.rate
    print(f"{'ms an offer':<14}{'median':>10}{'p99':>10}{'most':>10}{'ratio':>10}")
    offers(50, rate)
    plain = offers(count, rate)
    base = statistics.median(plain)
    row("no spool", plain, base)
    with tempfile.TemporaryDirectory() as folder:
        for durability in ("batch", "sync"):
            spool = str(Path(folder) / f"{durability}.sqlite")
            row(durability, offers(count, rate, spool=spool, durability=durability), base)
        with closing(sqlite3.connect(spool, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            row("sync, locked", offers(count, rate, spool=spool, durability="sync"), base)


if __name__ == "__main__":
    main()
