"""Write the tables of the benchmarks, and the page docs/benchmarks.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

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
    return {part: _table([_flat(row) for row in rows]) for part, rows in results.items() if rows}


def own_parts(folder: Path) -> dict[str, list[Row]]:
    """Return the rows that other benchmarks wrote to a folder, by benchmark name."""
    files = {part: folder / f"{part}.json" for part in _PARTS}
    return {
        part: json.loads(file.read_text(encoding="utf-8"))
        for part, file in files.items()
        if file.exists()
    }


def page(
    results: Mapping[str, Sequence[Row]], own: Mapping[str, list[Row]], date: str, machine: str
) -> str:
    """Return the page of the comparison and of our own benchmarks as Markdown."""
    parts = [_INTRODUCTION.format(date=date, machine=machine)]
    for part, table in tables({**results, **own}).items():
        title = part.replace("_", " ").capitalize()
        parts.append(f"## {title}\n\n{_PARTS.get(part, '')}\n\n{table}\n")
    return "\n".join(parts)


def _flat(row: Row) -> Row:
    inner = {
        f"{each['name']}, {key}": value
        for each in row.get("rows", ())
        for key, value in each.items()
        if key != "name"
    }
    return {key: value for key, value in row.items() if key != "rows"} | inner


def _table(rows: Sequence[Row]) -> str:
    head = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = (shown(row.get(key)).replace("|", "/") for key in head)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
