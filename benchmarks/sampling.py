"""What deciding costs a request, what a rate limit admits under load, what a budget costs a call.

    python benchmarks/sampling.py [--offers 5000] [--seconds 5]

All times are of one run on one machine: read them against each other.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.budget import Budget, BudgetStore
from rag_eval_hooks.judges.calls.budget_store import MemoryStore, SqliteStore
from rag_eval_hooks.sampling.rate_limit import RateLimit
from rag_eval_hooks.testing import ScriptedJudge

RULES = [
    {"tags": ["beta"], "rate": 1.0},
    {"question": "(?i)refund|money back", "rate": 1.0},
    {"metadata": {"tenant": "gold"}, "latency_above": 3.0, "rate": 1.0},
]
WAYS: dict[str, dict[str, Any]] = {
    "ratio alone": {"feedback_samples": 0},
    "and feedback": {},
    "and rates by metric": {"metric_rates": {"lexical": 0.0, "ragas": 0.0}},
    "and three rules": {"rules": RULES},
    "and a tail rule": {"tail": [{"dont_know": True, "then": ["ragas"]}]},
}


def offering(offers: int) -> None:
    """Median time of an offer that is not chosen, by what decides."""
    samples = [
        Sample(question=f"When does ferry {n} leave?", answer="At twenty to eight.")
        for n in range(offers)
    ]
    print(f"{'an offer, not chosen':24}{'us':>8}{'ratio':>8}")
    first = 0.0
    for name, settings in WAYS.items():
        config = RagEvalConfig(sample_rate=0.0, queue_size=offers, **settings)
        evals = RagEval(["ragas", "lexical"], ScriptedJudge(), config=config)
        times = []
        for sample in samples:
            began = time.perf_counter()
            evals.offer(sample)
            times.append(time.perf_counter() - began)
        evals.flush(60)
        evals.shutdown()
        median = statistics.median(times) * 1e6
        first = first or median
        print(f"{name:24}{median:8.1f}{median / first:8.2f}")


def limiting(seconds: float) -> None:
    """Admitted of ten times as many as allowed, in real time."""
    print(f"\n{'limit':24}{'asked':>8}{'let in':>8}{'of it':>8}")
    for rate in (20, 200):
        limit = RateLimit({"second": rate})
        asked = admitted = 0
        began = time.monotonic()
        while (now := time.monotonic() - began) < seconds:
            while asked < now * rate * 10:
                asked += 1
                admitted += limit.admit() is not None
            time.sleep(0.001)
        # The first second holds a whole limit at its very beginning, and so does each after it.
        allowed = rate * -(-seconds // 1)
        print(f"{f'{rate} a second':24}{asked:8}{admitted:8}{admitted / allowed:8.3f}")


def reserving(calls: int) -> None:
    """Time to reserve and settle one call."""
    print(f"\n{'a call reserved, settled':24}{'us':>8}")
    with tempfile.TemporaryDirectory() as folder:
        stores: dict[str, BudgetStore] = {
            "in memory": MemoryStore(),
            "in a shared file": SqliteStore(Path(folder) / "budget.db"),
        }
        for name, store in stores.items():
            limits = {"calls_per_hour": 1e9, "tokens_per_day": 1e12}
            budget = Budget(limits, store, incidents=Incidents())
            times = []
            for _ in range(calls):
                began = time.perf_counter()
                budget.reserve(1000).settle(900, 100)
                times.append(time.perf_counter() - began)
            budget.close()
            print(f"{name:24}{statistics.median(times) * 1e6:8.1f}")


def main() -> None:
    """Prints three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=5.0)
    told = parser.parse_args()
    offering(told.offers)
    limiting(told.seconds)
    reserving(max(1, told.offers // 5))


if __name__ == "__main__":
    main()
