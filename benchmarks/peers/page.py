"""Tables of the comparison, and their page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.table import shown

Row = Mapping[str, Any]
_INTRODUCTION: Final = """# Benchmarks

Made by `make bench` on {date}, {machine}. Every library has a pinned environment of its own
(`benchmarks/peers/requirements`). Compare within a table, never between machines.
"""
_PARTS: Final = {
    "requests": "Request path beside other libraries: CPU in ms that each adds to one LangChain "
    "request of eleven runs, and its share of the plain request.",
    "judging": "Faithfulness of the same samples, eight at a time, asked of one judge server. "
    "Calls and prompt characters are those of one sample. `changed` counts scores that differ from "
    "the run without faults.",
    "missing": "Not measured.",
    "handler_overhead": "CPU and wall time in ms that a handler adds to requests of LangChain.",
    "llama_index_overhead": "CPU and wall time in ms that a handler adds to LlamaIndex.",
    "judge_calls": "Judge calls and characters of one sample.",
    "sink_throughput": "Results that sinks take in a second.",
    "intervals": "Share of simulated 95 % intervals that hold the true mean; `plain` is the mean "
    "without weights and sessions.",
    "gates": "Share of simulated builds that fail. Without a drop, nothing has changed, or all "
    "means are at their limits.",
    "alerts": "Alerts of a metric whose limit is 0.8, at 100 evaluations an hour.",
    "kill9": "Accepted samples of killed processes: scored, lost, or counted twice.",
}


def tables(results: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    return {part: _table([_flat(row) for row in rows]) for part, rows in results.items() if rows}


def own_parts(folder: Path) -> dict[str, list[Row]]:
    """Return the rows that other benchmarks left in a folder, by name."""
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
