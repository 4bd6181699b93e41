"""Measure each library in its own environment. Print tables, and write the rows as JSON.

    python -m benchmarks.peers [--only PEER ...] [--rounds 40] [--samples 40] [--page]

`--page` also writes docs/benchmarks.md from these rows and from the rows of `make bench`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.environments import BUILD, PEERS, ROOT
from benchmarks.peers.measure import measured
from benchmarks.table import shown

Row = Mapping[str, Any]
_TEMPLATE: Final = Path(__file__).with_name("page.md")
_NAMES: Final = {
    **{"peer": "library", "plain_ms": "request, ms"},
    **{"request": "pipeline", "plain": "request", "of plain": "share"},
    **{"condition": "replies", "chars": "characters", "wall_s": "wall, s", "cpu_s": "CPU, s"},
    **{"with_shape": "with the form", "replied": "reply characters", "most calls": "call limit"},
    **{"failed": "metrics without a score", "seen": "accepted", "twice": "scored twice"},
    **{"lost_50": "lost more than 50 ms after they were accepted"},
    **{"lost_late": "lost more than 100 ms after they were accepted"},
    **{"oldest_lost": "longest time between acceptance and loss, s"},
    "lost_stored": "lost although this sample or a later sample was on disk",
}


def _flat(row: Row) -> Row:
    flat = {key: value for key, value in row.items() if key != "rows"}
    for each in row.get("rows", ()):
        name = each["name"] if each["name"].startswith("ours") else "the library of this row"
        flat[f"{name} (share)"] = f"{each['added_ms']:.2f} ms ({each['share']:.2f})"
    return flat


def _table(given: Sequence[Row]) -> str:
    rows = list(map(_flat, given))
    head = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[shown(row.get(key)).replace("|", "/") for key in head] for row in rows]
    titles, *lines = (f"| {' | '.join(c)} |" for c in ([_NAMES.get(k, k) for k in head], *cells))
    return "\n".join([titles, "|" + "---|" * len(head), *lines])


def page(results: Mapping[str, Sequence[Row]]) -> str:
    # A section of the template appears only if its table has rows.
    head, *sections = _TEMPLATE.read_text("utf-8").split("\n## ")
    parts = re.findall(r"^\{(\w+)\}$", "\n".join(sections), re.M)
    files = {part: BUILD / f"{part}.json" for part in parts}
    own = {p: json.loads(file.read_text("utf-8")) for p, file in files.items() if file.exists()}
    filled = {f"{{{part}}}": _table(rows) for part, rows in {**results, **own}.items() if rows}
    machine = f"Python {platform.python_version()} on {platform.machine()}"
    date, machine = datetime.date.today().isoformat(), f"{machine} with {os.cpu_count()} CPUs"
    text = [head.replace("{date}", date).replace("{machine}", machine)]
    for section in sections:
        marks = re.findall(r"^\{\w+\}$", section, re.M)
        if all(mark in filled for mark in marks):
            text.append(re.sub(r"^\{\w+\}$", lambda mark: filled[mark[0]], section, flags=re.M))
    return "\n## ".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--json", type=Path, default=BUILD / "peers.json")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    results = measured(options.only, rounds=options.rounds, count=options.samples)
    for part, rows in results.items():
        print(f"\n{part}\n{_table(rows)}" if rows else f"\n{part}: none")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=2), encoding="utf-8")
    if options.page:
        (ROOT / "docs" / "benchmarks.md").write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
