"""Measure other libraries in their own environments, and write the page of the benchmarks.

The command prints a table for each part and writes its rows as JSON. `--page` also writes
docs/benchmarks.md from these rows and from the rows of `make bench` in build/bench.

    python -m benchmarks.peers [--only PEER ...] [--rounds 40] [--samples 40]
        [--json build/bench/peers.json] [--page]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
from pathlib import Path

from benchmarks.peers.environments import BUILD, PEERS, ROOT
from benchmarks.peers.measure import measured
from benchmarks.peers.page import own_parts, page, tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--json", type=Path, default=BUILD / "peers.json")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    results = measured(options.only, rounds=options.rounds, count=options.samples)
    for part, table in tables(results).items():
        print(f"\n{part}\n{table}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=2), encoding="utf-8")
    if options.page:
        machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs"
        text = page(results, own_parts(BUILD), datetime.date.today().isoformat(), machine)
        (ROOT / "docs" / "benchmarks.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
