"""Print the number of lines in each folder next to its limit, and the sizes of modules.

    python -m benchmarks.house

The command fails if a folder exceeds its limit by more than 5 %. A commit that needs more lines
must raise the limit.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
CORE: Final = "rag_eval_hooks"


class Room(NamedTuple):
    name: str
    parts: tuple[str, ...]
    goal: int
    limit: int


ROOMS: Final = (
    Room("runtime", ("runtime",), 1300, 1312),
    Room("sampling", ("sampling",), 450, 256),
    Room("delivery", ("delivery",), 1600, 1848),
    Room("fleet", ("../integrations/rag_eval_hooks_celery",), 500, 413),
    Room("books", ("books.py", "memory.py"), 260, 247),
    Room("telemetry", ("telemetry",), 1250, 1271),
    Room("config", ("config",), 600, 622),
    Room("redaction", ("redaction",), 750, 642),
    Room("results, datasets", ("results", "datasets"), 1700, 2118),
    Room("cli", ("cli",), 1000, 859),
    Room("metrics", ("metrics",), 1300, 1484),
    Room("evaluation", ("evaluation",), 870, 1068),
    Room("prompts", ("prompts",), 850, 816),
    Room("judges, text", ("judges", "text"), 4900, 5104),
    Room("capture", ("capture",), 3800, 4850),
    Room("integrations", ("../integrations",), 3200, 3891),
    Room("core", ("",), 23300, 26533),
    Room("tests", ("../tests",), 26000, 26000),
    Room("benchmarks", ("../benchmarks",), 2500, 2500),
)


def python_files(*parts: str) -> list[Path]:
    paths = [(ROOT / CORE / part).resolve() for part in parts]
    found = (file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]))
    return sorted(file for file in found if file.is_file())


def lines_of(files: list[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def function_lengths(files: list[Path]) -> list[int]:
    functions = (
        node
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return sorted((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions)


def main() -> int:
    over = []
    for room in ROOMS:
        lines = lines_of(python_files(*room.parts))
        print(f"{room.name:20} {lines:7,} lines, goal {room.goal:6,}, limit {room.limit:6,}")
        if lines > 1.05 * room.limit:
            over.append(room.name)
    product = python_files("", "../integrations")
    lengths = function_lengths(product)
    print(f"product: {lines_of(product):,} lines in {len(product)} modules")
    print(f"longest module: {max(lines_of([file]) for file in product)} lines")
    print(f"functions: p90 {lengths[len(lengths) * 9 // 10]}, longest {lengths[-1]} lines")
    for name in over:
        print(f"OVER THE LIMIT: {name}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
