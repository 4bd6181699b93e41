"""Tables of the comparison, and the page that holds them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import OURS
from benchmarks.peers.measure import Results
from benchmarks.table import shown

__all__ = ["own_parts", "page", "tables"]

Row = dict[str, Any]
_INTRODUCTION = """# Beside other libraries

Made by `make bench` on {date}, {machine}. Every library has a pinned environment of
its own (`benchmarks/peers/requirements`). Compare within a row or a table, never between machines;
absolute times are those of a small and busy machine.
"""
_NOTES = {
    "requests": """The same LangChain chain (eleven runs, five passages of 1 kB), called in turns
unwatched, with ours and with the peer, in one process of the peer's environment. CPU of all threads
that each adds to the plain request: median of the differences. Exporters write to memory. Tracers
record every run as a span; ours records question, passages and answer, and evaluates them by one
metric that costs nothing. DeepEval has no exporter: its last trace is kept, as its tests do.""",
    "memory": """Resident memory that requests add while nothing listens where spans go, and, for
ours, while the judge never answers: the first requests, then as many again. `none` is the pipeline
unwatched.""",
    "judging": """Faithfulness of the same samples, asked of a judge server on loopback, eight
samples at a time. Corrupted replies stop in the middle. Calls and prompt characters are counted at
the server, for each sample; message texts only, without the schemas that a library sends beside
them. Changed: scores unlike those of the undisturbed run. The judge is honest, not clever: what
the contexts do not mention it calls unsupported, for DeepEval "borderline", which that counts as
faithful. Each library retries and batches as it does by default; TruLens sends at most 60 requests
a minute, and lets the judge split sentences here, as its other way downloads a tokenizer. DeepEval
asks for its reason in a call of its own.""",
    "install": """Import: what it adds to starting Python, a median of five. Size: all packages of
the environment, without pip and compiled files; ours has LangChain's core and OpenAI's client.""",
    "missing": "Not measured, with the reason.",
}
_TITLES = {
    "requests": "Request path",
    "memory": "Memory with a dead back end",
    "judging": "Judge calls and faults",
    "install": "Import time and installed size",
    "missing": "Not measured",
    "handler_overhead": "Handler of LangChain",
    "llama_index_overhead": "Handler of LlamaIndex",
    "judge_calls": "Judge calls",
    "spool_cost": "Cost of the spool",
    "sinks_cost": "Cost of sinks",
    "kill9": "Killed processes",
}
_OWN = {
    "handler_overhead": "CPU and wall time in ms that a handler adds to requests of LangChain.",
    "llama_index_overhead": "CPU and wall time in ms that a handler adds to LlamaIndex.",
    "judge_calls": "Judge calls and characters a sample.",
    "spool_cost": "Time of an offer, without and with a spool.",
    "sinks_cost": "CPU of the evaluator for a sample's scores, by signal and by platform.",
    "kill9": "Processes killed: what of the accepted samples is scored, lost, or twice.",
}
_BY_HAND = """The tracers show every step of a chain, and prompts; ours leaves that to them.
ragas, DeepEval and TruLens have more metrics for agents and conversations, and make test sets."""


def tables(results: Results) -> dict[str, str]:
    """Return a table for each part that has rows."""
    return {part: _WRITERS[part](rows) for part, rows in results.items() if rows}


def own_parts(folder: Path) -> dict[str, list[Row]]:
    """Return the rows of our own parts that a folder has, by name."""
    files = ((part, folder / f"{part}.json") for part in _OWN)
    return {
        part: json.loads(file.read_text(encoding="utf-8")) for part, file in files if file.exists()
    }


def page(results: Results, own: Mapping[str, list[Row]], date: str, machine: str) -> str:
    """Return the page as Markdown.

    Args:
        results: The comparison.
        own: Rows of our own parts, by name.
        date: When they were measured.
        machine: Where.
    """
    parts = [_INTRODUCTION.format(date=date, machine=machine)]
    for part, table in tables(results).items():
        parts.append(f"## {_TITLES[part]}\n\n{_NOTES[part]}\n\n{table}\n")
    better = "\n".join(f"- {line}" for line in peers_do_better(results))
    parts.append(f"## What peers do better\n\n{_BY_HAND}\n\n{better}\n".rstrip() + "\n")
    for part, rows in own.items():
        table = _table(list(rows[0]), (map(shown, row.values()) for row in rows))
        parts.append(
            f"## {_TITLES[part]}\n\n{_OWN[part]} `python -m benchmarks.{part}`\n\n{table}\n"
        )
    return "\n".join(parts)


def peers_do_better(results: Results) -> list[str]:
    """Return a line for each measurement in which a peer is ahead of ours."""
    lines = []
    for row in results["requests"]:
        added = {each["name"]: each["added_ms"] for each in row["rows"]}
        peer = row["peer"]
        lines += [
            f"{peer} adds less CPU to a request than {name}: {added[peer]:.2f} to {cost:.2f} ms."
            for name, cost in added.items()
            if added[peer] < cost
        ]
    lines += _less_memory(results["memory"])
    lines += _ahead(results["judging"], ("calls", "chars", "wall_s", "cpu_s"), "condition")
    lines += _ahead(results["install"], ("import_s", "size_mb"))
    return lines


_NAMES = {
    "calls": "fewer judge calls",
    "chars": "fewer prompt characters",
    "wall_s": "less wall time",
    "cpu_s": "less CPU",
    "import_s": "shorter import time",
    "size_mb": "smaller installation",
}


def _less_memory(rows: list[Row]) -> Iterator[str]:
    own = {row["peer"]: row for row in rows if row["who"] == "ours"}
    fields = {"first_mb": "the first requests", "second_mb": "as many again"}
    for row in rows:
        better = [name for field, name in fields.items() if row[field] < own[row["peer"]][field]]
        if row["who"] == row["peer"] and better:
            yield f"{row['peer']}, dead back end: less memory for {', '.join(better)}."


def _ahead(rows: Iterable[Row], fields: Sequence[str], group: str = "") -> list[str]:
    listed = list(rows)
    own = {row.get(group): row for row in listed if row["peer"] == OURS}
    lines = []
    for row in listed:
        base = own.get(row.get(group), row)
        better = [_NAMES[field] for field in fields if row[field] < base[field]]
        if better:
            place = f" ({row[group]})" if group else ""
            lines.append(f"{row['peer']}{place}: {', '.join(better)}.")
    return lines


def _table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _requests(rows: list[Row]) -> str:
    head = ("peer", "plain, ms", "ours, sampled out", "ours, evaluated", "the peer")
    cells = [
        [
            row["peer"],
            f"{row['plain_ms']:.2f}",
            *(f"{each['added_ms']:.2f} ms ({each['share']:.2f})" for each in row["rows"]),
        ]
        for row in rows
    ]
    return _table(head, cells)


def _memory(rows: list[Row]) -> str:
    head = ("environment", "watched by", "requests", "first, MB", "as many again, MB")
    cells = [
        [
            row["peer"],
            row["who"],
            str(row["requests"]),
            f"{row['first_mb']:.1f}",
            f"{row['second_mb']:.1f}",
        ]
        for row in rows
    ]
    return _table(head, cells)


def _judging(rows: list[Row]) -> str:
    head = ("replies", "library", "calls", "characters", "wall, s", "CPU, s", "scored", "changed")
    cells = [
        [
            row["condition"],
            row["peer"],
            f"{row['calls']:.2f}",
            f"{row['chars']:,.0f}",
            f"{row['wall_s']:.2f}",
            f"{row['cpu_s']:.2f}",
            f"{row['scored']} of {row['samples']}",
            str(row["changed"]),
        ]
        for row in rows
    ]
    return _table(head, cells)


def _install(rows: list[Row]) -> str:
    cells = [
        [row["peer"], row["version"], f"{row['import_s']:.2f}", f"{row['size_mb']:.0f}"]
        for row in rows
    ]
    return _table(("library", "version", "import, s", "size, MB"), cells)


def _missing(rows: list[Row]) -> str:
    cells = [[row["peer"], row["part"], row["reason"].replace("|", "/")] for row in rows]
    return _table(("library", "part", "reason"), cells)


_WRITERS: dict[str, Callable[[list[Row]], str]] = {
    "requests": _requests,
    "memory": _memory,
    "judging": _judging,
    "install": _install,
    "missing": _missing,
}
