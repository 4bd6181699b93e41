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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.environments import BUILD, PEERS, ROOT
from benchmarks.peers.measure import measured
from benchmarks.table import shown

Row = Mapping[str, Any]
_INTRODUCTION: Final = """# Benchmarks

For readers who want the cost of rag-eval-hooks in CPU, memory, judge calls and lost samples.
`make bench` wrote this page on {date} with {machine}. Compare figures within one table, never with
another machine. Each library runs in its own environment with pinned versions
(`benchmarks/peers/requirements`).
"""
_PARTS: Final = {
    "requests": "CPU time in ms that each library adds to one LangChain request of eleven runs. "
    "The share divides this time by the CPU time of the request without instrumentation.",
    "judging": "Each library scores the faithfulness of the same samples, eight at a time, with "
    "one judge server. Calls and prompt characters are per sample. `changed` counts scores that "
    "differ from the run without faults.",
    "missing": "These libraries could not be measured.",
    "handler_overhead": "CPU and wall time in ms that a callback handler adds to one LangChain "
    "request.",
    "llama_index_overhead": "CPU and wall time in ms that capture adds to one LlamaIndex request.",
    "judge_calls": "Judge calls and characters per sample.",
    "sink_throughput": "Results per second that each sink delivers.",
    "intervals": "Fraction of simulated 95 % intervals that contain the true mean. `plain` is the "
    "mean without weights and sessions.",
    "gates": "Fraction of simulated builds that fail. Without a drop, either nothing has changed "
    "or all means equal their limits.",
    "alerts": "Alerts for a metric with the limit 0.8, at 100 evaluations per hour.",
    "kill9": "Accepted samples of killed processes: scored, lost, or scored twice.",
}


def tables(results: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    return {part: _table(list(map(_flat, rows))) for part, rows in results.items() if rows}


def _flat(row: Row) -> Row:
    flat = {key: value for key, value in row.items() if key != "rows"}
    for each in row.get("rows", ()):
        flat |= {f"{each['name']}, {key}": v for key, v in each.items() if key != "name"}
    return flat


def _table(rows: Sequence[Row]) -> str:
    head = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[shown(row.get(key)).replace("|", "/") for key in head] for row in rows]
    lines = [" | ".join(line) for line in (head, *cells)]
    return "\n".join(
        [f"| {lines[0]} |", "|" + "---|" * len(head), *(f"| {x} |" for x in lines[1:])]
    )


def page(results: Mapping[str, Sequence[Row]]) -> str:
    """Return the page as Markdown, with the rows that other benchmarks wrote to the folder."""
    files = {part: BUILD / f"{part}.json" for part in _PARTS}
    own = {p: json.loads(file.read_text("utf-8")) for p, file in files.items() if file.exists()}
    machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs"
    parts = [_INTRODUCTION.format(date=datetime.date.today().isoformat(), machine=machine)]
    for part, table in tables({**results, **own}).items():
        title = part.replace("_", " ").capitalize()
        parts.append(f"## {title}\n\n{_PARTS.get(part, '')}\n\n{table}\n")
    return "\n".join(parts)


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
        (ROOT / "docs" / "benchmarks.md").write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
