"""100,000 offers at full speed against a judge that never answers.

Shows that an offer never waits, that memory is bounded by the queue, and that the books add up
to the last sample.

    python benchmarks/stuck_judge.py [--offers 100000]
"""

from __future__ import annotations

import argparse
import statistics
import time
from array import array
from pathlib import Path

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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=100_000)
    offers = parser.parse_args().offers
    evals = RagEval(metrics=["ragas"], judge=ScriptedJudge(latency=3600))
    marks = {max(1, offers * tenth // 10) for tenth in range(1, 11)}
    times = array("d")
    print(f"{'offers':>8}{'RSS MB':>10}{'pending':>9}{'dropped':>9}{'sum':>9}")
    for number in range(1, offers + 1):
        contexts = [f"{number}.{place} {CONTEXT}" for place in range(5)]
        sample = Sample(question=f"question {number}", contexts=contexts, answer="an answer")  # type: ignore[arg-type]
        began = time.perf_counter()
        evals.offer(sample)
        times.append(time.perf_counter() - began)
        if number in marks:
            stats = evals.stats()
            dropped = sum(stats.dropped.values())
            print(
                f"{number:>8}{resident_mb():>10.1f}{stats.pending:>9}{dropped:>9}{total(stats):>9}"
            )
    began = time.perf_counter()
    evals.shutdown(0.5)
    stats = evals.stats()
    median, most = statistics.median(times) * 1e6, max(times) * 1e3
    print(f"an offer takes {median:.1f} us (median), {most:.2f} ms (most)")
    print(f"shutdown took {time.perf_counter() - began:.2f} s; {stats}")
    print("books add up" if stats.offered == total(stats) == offers else "BOOKS DO NOT ADD UP")


if __name__ == "__main__":
    main()
