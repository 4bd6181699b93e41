"""100,000 offers at full speed against a judge that never answers.

Shows that an offer never waits, that memory is bounded by the queue, and that the books add up
to the last sample.

    python -m benchmarks.stuck_judge [--offers 100000] [--json FILE]
"""

from __future__ import annotations

import statistics
import time
from array import array
from pathlib import Path

from benchmarks.table import parser_of, written
from rag_eval_hooks import RagEval, Sample, Stats
from rag_eval_hooks.testing import ScriptedJudge

CONTEXT = "The ferry leaves the quay at twenty to eight on every working day of the year. " * 13


def resident_mb() -> float:
    """Resident memory of this process in MB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def total(stats: Stats) -> int:
    """Sum of all columns of the books."""
    counted = stats.scored + stats.sampled_out + stats.pending
    return counted + sum(stats.dropped.values()) + sum(stats.failed.values())


def main() -> None:
    """Offers samples and prints memory, time per offer, and the books."""
    parser = parser_of(__doc__)
    parser.add_argument("--offers", type=int, default=100_000)
    options = parser.parse_args()
    offers = options.offers
    evals = RagEval(metrics=["ragas"], judge=ScriptedJudge(latency=3600))
    marks = {max(1, offers * tenth // 10) for tenth in range(1, 11)}
    times = array("d")
    rows = []
    for number in range(1, offers + 1):
        contexts = [f"{number}.{place} {CONTEXT}" for place in range(5)]
        sample = Sample(question=f"question {number}", contexts=contexts, answer="an answer")  # type: ignore[arg-type]
        began = time.perf_counter()
        evals.offer(sample)
        times.append(time.perf_counter() - began)
        if number in marks:
            stats = evals.stats()
            dropped = sum(stats.dropped.values())
            rows.append(
                {
                    "offers": number,
                    "RSS MB": resident_mb(),
                    "pending": stats.pending,
                    "dropped": dropped,
                    "sum": total(stats),
                    "us an offer, median": statistics.median(times) * 1e6,
                    "ms an offer, most": max(times) * 1e3,
                }
            )
    began = time.perf_counter()
    evals.shutdown(0.5)
    stats = evals.stats()
    written(rows, options.json)
    print(f"shutdown took {time.perf_counter() - began:.2f} s; {stats}")
    print("books add up" if stats.offered == total(stats) == offers else "BOOKS DO NOT ADD UP")


if __name__ == "__main__":
    main()
