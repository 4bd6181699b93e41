"""Write the map of the rooms in docs/architecture.md from the imports in the source.

python docs/rooms.py
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = Path(__file__).with_name("architecture.md")
BEGIN: Final = "<!-- Written by `python docs/rooms.py`. -->\n"
END: Final = "<!-- End of what is written by `python docs/rooms.py`. -->\n"
CORE: Final = "rag_eval_hooks"
VALUES: Final = "values"
"""Room of the modules that stand beside the rooms, except the front door."""
FRONT: Final = ("evals", "instrumentor", "span_processor", "testing", "__init__")
DESCRIPTIONS: Final[Mapping[str, str]] = {
    VALUES: "work, sample, score, findings, decision, feedback, errors: no behaviour of others",
    "books": "statistics and explanations: what became of every request",
    "capture": "framework-free recording of requests; the sample and the spans of each",
    "cli": "the command `rag-eval-hooks`",
    "config": "settings in groups, from arguments, environment and file",
    "datasets": "data sets as samples, and their evaluation as a whole",
    "delivery": "one outbox for every sink; the sinks",
    "distributed": "the same evaluator behind Celery",
    "fleet": "what applications and workers share: broker, messages, claims and counts in Redis",
    "evals": "the front door: `RagEval`, the instrumentor, doubles for tests",
    "evaluation": "worker, plan, scorer, golden references, models in a child process",
    "judges": "findings by language models, the embedded judge and embedders; limits of calls",
    "metrics": "suites: pure functions from findings to scores",
    "pipeline": "the way of a request through all other rooms",
    "prompts": "what a language model is asked, and how its reply is read",
    "rag_eval_hooks_langchain": "LangChain and LangGraph",
    "rag_eval_hooks_pytest": "fixture and report of pytest",
    "rag_eval_hooks_llama_index": "LlamaIndex",
    "redaction": "rules and placeholders for what must not leave",
    "results": "reading results: aggregates, estimates, comparison, report",
    "sampling": "from the traits of a request to the decision about it",
    "spool": "accepted samples on disk, one SQLite file a process",
    "telemetry": "RAG span, evaluation span, log events and metrics",
    "text": "folding, sentences, keywords, numbers, refusals",
}


def room_of(module: str) -> str:
    """Return the room of a module by its dotted name."""
    package, _, rest = module.partition(".")
    if package != CORE:
        return package
    first = rest.partition(".")[0]
    if first and (ROOT / CORE / first).is_dir():
        return first
    # A name that is no module is one that the package exports.
    is_value = (ROOT / CORE / f"{first}.py").is_file() and first not in FRONT
    return VALUES if is_value else "evals"


def edges() -> dict[str, set[str]]:
    """Return the rooms that each room imports, by the imports of its modules."""
    found: dict[str, set[str]] = {}
    for package in (CORE, "integrations"):
        for path in sorted((ROOT / package).rglob("*.py")):
            base = ROOT if package == CORE else ROOT / package
            module = ".".join(path.relative_to(base).with_suffix("").parts)
            room = room_of(module)
            targets = {room_of(name) for name in _imports(path)}
            found.setdefault(room, set()).update(targets - {room})
    return found


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(CORE):
            for alias in node.names:
                yield f"{node.module}.{alias.name}" if node.module == CORE else node.module


def ranks() -> dict[str, int]:
    """Return the layer of each room in the import contract, 0 for the outermost."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    found = {
        room_of(name): rank for rank, layer in enumerate(layers) for name in layer.split(" | ")
    }
    return found | {VALUES: len(layers)}


def page() -> str:
    """Return the page as it should be: its text, with the map between the two marks."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + rooms_map() + END + rest.partition(END)[2]


def rooms_map() -> str:
    """Return a diagram of the imports between rooms and a table of the rooms."""
    imports, rank = edges(), ranks()
    ranked = sorted(imports, key=lambda room: (rank[room], room))
    inward = {
        room: {target for target in targets if rank[target] > rank[room]}
        for room, targets in imports.items()
    }
    lines = ["\n```mermaid\nflowchart TD\n"]
    for room in ranked:
        lines += [f"  {room} --> {target}\n" for target in sorted(_direct(room, inward))]
        outward = sorted(imports[room] - inward[room])
        lines += [f"  {room} -. to be cut .-> {target}\n" for target in outward]
    lines.append("```\n\n| room | what it is | imports |\n|---|---|---|\n")
    for room in ranked:
        targets = ", ".join(sorted(imports[room], key=ranked.index)) or "nothing"
        lines.append(f"| `{room}` | {DESCRIPTIONS[room]} | {targets} |\n")
    return "".join([*lines, "\n"])


def _direct(room: str, imports: Mapping[str, set[str]]) -> set[str]:
    """Return the imported rooms that no other imported room leads to."""
    targets = imports[room]
    return {t for t in targets if not any(t in _reached(o, imports) for o in targets - {t})}


def _reached(room: str, imports: Mapping[str, set[str]]) -> set[str]:
    """Return the rooms that a room imports, directly or not."""
    return imports[room].union(*(_reached(target, imports) for target in imports[room]))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
