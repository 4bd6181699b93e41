"""Comparison with other libraries: makes their environments, measures, and writes the page.

Prints a table for each part; writes build/bench/results.json and docs/benchmarks.md, the latter
only when all peers are measured.

    python -m benchmarks.peers [--only PEER ...] [--rounds 40] [--requests 250] [--samples 40]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform

from benchmarks.peers.environments import BUILD, PEERS, ROOT
from benchmarks.peers.measure import measured
from benchmarks.peers.page import page, tables


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--requests", type=int, default=250)
    parser.add_argument("--samples", type=int, default=40)
    options = parser.parse_args()
    results = measured(
        options.only, rounds=options.rounds, requests=options.requests, count=options.samples
    )
    for part, table in tables(results).items():
        print(f"\n{part}\n{table}")
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "results.json").write_text(json.dumps(results, indent=2), encoding="utf-8")
    if set(options.only) == set(PEERS):
        machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs"
        text = page(results, datetime.date.today().isoformat(), machine)
        (ROOT / "docs" / "benchmarks.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
