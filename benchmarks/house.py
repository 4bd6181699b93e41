"""Size and shape of the source, and the way of one request through it, beside the goals.

    python -m benchmarks.house [--static] [--check] [ROOT]

Counts files, lines, functions, names and imports in the syntax trees of `rag_eval_hooks` and
`integrations`, profiles one request (see `benchmarks.call_path`), and prints a table.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from benchmarks.call_path import CallPath, measure

__all__ = ["Figure", "House", "Module"]

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_QUESTION = re.compile(
    r"(What|Who|Whom|Whose|Whether|Where|When|How|Until|The same|Likewise|It\.|They\.)\b"
)


@dataclass(frozen=True)
class Figure:
    """One row of the table.

    Attributes:
        name: What is counted.
        before: Its value before the redesign.
        now: Its value.
        goal: The most that it should be.
    """

    name: str
    before: float
    now: float
    goal: float


@dataclass(frozen=True)
class Module:
    """One source file.

    Attributes:
        name: Dotted name.
        path: Where it is.
        text: Its source.
    """

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Syntax tree."""
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        """Number of lines."""
        return len(self.text.splitlines())

    @property
    def functions(self) -> Iterator[_Function]:
        """Functions and methods, nested ones too."""
        return (n for n in ast.walk(self.tree) if isinstance(n, _Function))

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        """Classes, nested ones too."""
        return (n for n in ast.walk(self.tree) if isinstance(n, ast.ClassDef))

    @property
    def docstrings(self) -> Iterator[str]:
        """Docstrings of module, classes and functions."""
        for node in (self.tree, *self.classes, *self.functions):
            if text := ast.get_docstring(node):
                yield text

    def calls(self, name: str) -> int:
        """Return how often a function of that name is called."""
        return sum(
            isinstance(n, ast.Call) and _last_name(n.func) == name for n in ast.walk(self.tree)
        )

    @property
    def imported(self) -> set[str]:
        """Names that may be modules of what it imports, at any depth."""
        names = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        return names - {self.name}


@dataclass(frozen=True)
class House:
    """The source tree.

    Attributes:
        core: Modules of the core.
        integrations: Modules of the integrations.
        root: Folder of the repository.
    """

    core: Sequence[Module]
    integrations: Sequence[Module]
    root: Path

    @classmethod
    def at(cls, root: Path) -> House:
        """Read the tree below a folder."""
        return cls(_modules(root, "rag_eval_hooks"), _modules(root / "integrations", "."), root)

    @property
    def modules(self) -> Sequence[Module]:
        """All modules."""
        return (*self.core, *self.integrations)

    def figures(self) -> list[Figure]:
        """Return everything that the source itself tells."""
        lines = sorted(module.lines for module in self.modules)
        functions = sorted(_length(f) for module in self.modules for f in module.functions)
        return [
            Figure("core files", 276, len(self.core), 190),
            Figure("core lines but results, distributed", 33_375, self._core_lines(), 27_500),
            Figure("integration lines", 4_703, sum(m.lines for m in self.integrations), 4_300),
            Figure("module lines, median", 103, statistics.median(lines), 140),
            Figure("module lines, longest", 400, lines[-1], 300),
            Figure("function lines, 90th percentile", 17, functions[len(functions) * 9 // 10], 18),
            Figure("function lines, longest", 60, functions[-1], 55),
            Figure("modules with one importer", 89, self._imported_once(), 35),
            Figure("class names used twice", 27, self._repeated_classes(), 5),
            Figure("file names used twice", 27, self._repeated_files(), 8),
            Figure("callables as parameters or fields", 72, self._callables(), 30),
            Figure("context variables", 8, sum(m.calls("ContextVar") for m in self.modules), 4),
            Figure("reset methods", 17, self._resets(), 0),
            Figure("calls of getpid", 19, sum(m.calls("getpid") for m in self.modules), 3),
            Figure("imports against the direction of rooms", 16, self._exceptions(), 0),
            Figure("settings", 82, self._settings(), 45),
            Figure("docstrings that open with a question word, %", 22, self._questions(), 2),
        ]

    def _core_lines(self) -> int:
        """Return the lines of the core without the two rooms that the redesign added."""
        added = {"results", "distributed"}
        return sum(module.lines for module in self.core if not added & set(module.path.parts))

    def _imported_once(self) -> int:
        importers = Counter(
            name for m in self.modules for name in m.imported & {c.name for c in self.core}
        )
        return sum(importers[module.name] == 1 for module in self.core)

    def _repeated_classes(self) -> int:
        return _repeated([c.name.lstrip("_") for m in self.modules for c in m.classes])

    def _repeated_files(self) -> int:
        return _repeated([m.path.name for m in self.modules if m.path.name != "__init__.py"])

    def _callables(self) -> int:
        """Return how many constructor parameters and fields hold functions."""
        return sum(
            "Callable" in ast.unparse(annotation)
            for module in self.modules
            for made in module.classes
            for annotation in _held(made)
        )

    def _resets(self) -> int:
        return sum(f.name == "reset" for module in self.modules for f in module.functions)

    def _exceptions(self) -> int:
        """Return the imports that pyproject.toml exempts from the order of rooms."""
        project = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))
        contracts = project["tool"]["importlinter"]["contracts"]
        return sum(len(contract.get("ignore_imports", ())) for contract in contracts)

    def _settings(self) -> int:
        from rag_eval_hooks import RagEvalConfig

        return len(RagEvalConfig.model_fields)

    def _questions(self) -> float:
        texts = [text for module in self.modules for text in module.docstrings]
        return round(100 * sum(bool(_QUESTION.match(text)) for text in texts) / len(texts), 1)


def _modules(folder: Path, package: str) -> list[Module]:
    found = []
    for path in sorted((folder / package).rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        found.append(Module(name, path, path.read_text(encoding="utf-8")))
    return found


def _length(function: _Function) -> int:
    """Return the lines of a function with its docstring."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _held(made: ast.ClassDef) -> Iterator[ast.expr]:
    """Yield the annotations of a class's fields and of its constructor's parameters."""
    for statement in made.body:
        if isinstance(statement, ast.AnnAssign):
            yield statement.annotation
        elif isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            given = statement.args
            for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                if parameter.annotation is not None:
                    yield parameter.annotation


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _repeated(names: Sequence[str]) -> int:
    return sum(count > 1 for count in Counter(names).values())


def request_figures(path: CallPath) -> list[Figure]:
    """Return what one request with an OpenAI-compatible judge takes."""
    return [
        Figure("one request: files", 109, path.files, 75),
        Figure("one request: functions", 522, path.functions, 380),
        Figure("one request: objects", 163, path.objects, 110),
        Figure("one request: deepest own frame, its thread", 16, path.request_depth, 11),
        Figure("one request: deepest own frame, evaluator", 25, path.evaluator_depth, 15),
    ]


def main() -> int:
    """Print the table; return 1 if goals are to be checked and one is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--static", action="store_true", help="leave the request out")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    arguments = parser.parse_args()
    figures = House.at(arguments.root).figures()
    if not arguments.static:
        figures += request_figures(measure())
    print("| figure | before | now | goal | |\n|---|---:|---:|---:|---|")
    for one in figures:
        mark = "" if one.now <= one.goal else "missed"
        print(f"| {one.name} | {one.before:,g} | {one.now:,g} | {one.goal:,g} | {mark} |")
    return int(arguments.check and any(one.now > one.goal for one in figures))


if __name__ == "__main__":
    sys.exit(main())
