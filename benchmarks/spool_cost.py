"""Time that `offer` takes with a spool and without one.

Samples of about 13 kB are offered at a steady rate to a judge that takes 50 ms. In the last line,
another program keeps the spool's file locked.

    python -m benchmarks.spool_cost [--offers 1000] [--rate 100] [--json FILE]
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from benchmarks.table import parser_of, written
from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.testing import Findings, ScriptedJudge, Support

CONTEXTS = tuple(f"{position} " + "word " * 600 for position in range(4))
GOOD = Findings(answer_claims=("a",), answer_support=(Support((True,) * len(CONTEXTS)),))


def offers(count: int, rate: float, spool: str | None = None, *, lock: bool = False) -> list[float]:
    """Return the milliseconds that each offer took; print the CPU time of the whole process."""
    evals = RagEval(
        metrics=["ragas.faithfulness"],
        judge=ScriptedJudge(GOOD, latency=0.05),
        config=RagEvalConfig(spool=spool),
    )
    times = [_offer(evals, number, rate) for number in range(10)]
    evals.flush(60)
    if lock and spool is not None:
        (path,) = Path(spool).glob("*.sqlite")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            times = [_offer(evals, number, rate) for number in range(count)]
    else:
        times = [_offer(evals, number, rate) for number in range(count)]
    evals.flush(60)
    assert not evals.stats().failed, evals.stats()
    evals.shutdown()
    return times


def _offer(evals: RagEval, number: int, rate: float) -> float:
    sample = Sample(question=f"q{number}", contexts=CONTEXTS, answer="a")  # type: ignore[arg-type]
    began = time.perf_counter()
    evals.offer(sample)
    taken = (time.perf_counter() - began) * 1000
    time.sleep(1 / rate)
    return taken


def row(name: str, times: list[float], base: float, cpu: float) -> dict[str, object]:
    """Return the milliseconds of an offer, their ratio to the base, and the CPU of a sample."""
    ordered = sorted(times)
    median = statistics.median(times)
    return {
        "ms an offer": name,
        "median": median,
        "p99": ordered[int(0.99 * len(ordered))],
        "most": ordered[-1],
        "ratio": median / base,
        "CPU ms a sample": 1000 * cpu / len(times),
    }


def main() -> None:
    """Print milliseconds and ratios of one run."""
    parser = parser_of(__doc__)
    parser.add_argument("--offers", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=100.0)
    options = parser.parse_args()
    count, rate = options.offers, options.rate
    offers(50, rate)
    base, rows = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        spools = {"no spool": None, "spool": f"{folder}/a", "spool, locked": f"{folder}/b"}
        for name, spool in spools.items():
            began = time.process_time()
            times = offers(count, rate, spool, lock="locked" in name)
            base = base or statistics.median(times)
            rows.append(row(name, times, base, time.process_time() - began))
    written(rows, options.json)


if __name__ == "__main__":
    main()
