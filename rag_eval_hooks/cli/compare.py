"""`rag-eval-hooks compare`: compares two runs, and fails a build whose scores fell."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from rag_eval_hooks.cli.arguments import UNSCORED, add_gates, rows_of, share, write_text
from rag_eval_hooks.results.compare import Change, Comparison, compare
from rag_eval_hooks.results.gates import failed_conditions, regressed

ABOUT: Final = """\
Compares two runs, as a gate for a build. Exit code 1 if a gate fails, 3 if a metric has no score in
one of the runs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("base", metavar="BASE", help="results before")
    add("new", metavar="NEW", help="results after")
    add("--by", metavar="KEY", help="compare groups, too")
    add_gates(parser)
    fall = "exit with 1 if a normalized mean falls significantly by more than this"
    add("--fail-on-regression", type=share, metavar="MARGIN", help=fall)
    add("--allow-different-judges", action="store_true", help="compare scores of different judges")
    add("--format", choices=("text", "md", "json"), default="text")
    add("-o", "--output", type=Path, metavar="FILE", help="default: the terminal")


def run(arguments: argparse.Namespace) -> int:
    comparison = compare(
        *(rows_of([path]) for path in (arguments.base, arguments.new)),
        by=arguments.by,
        allow_different_judges=arguments.allow_different_judges,
    )
    if not comparison.pairs:
        told = f"note: no question is in both {arguments.base} and {arguments.new}"
        print(f"{told}, so the means are of different questions", file=sys.stderr)
    points, conditions = arguments.fail_on_point, arguments.fail_on
    failures = failed_conditions(conditions, comparison.new, by_point=points)
    if arguments.fail_on_regression is not None:
        failures += map(_fall, regressed(comparison, arguments.fail_on_regression))
    write_text(_rendered(comparison, failures, arguments.format), arguments.output)
    if failures:
        return 1
    return UNSCORED if comparison.unscored else 0


def _fall(one: Change) -> str:
    of_group = "" if one.group is None else f" of {one.group}"
    return f"{one.metric}{of_group} fell by {-one.gain:.3f} on a scale from 0 to 1"


def _rendered(comparison: Comparison, failures: list[str], kind: str) -> str:
    if kind == "json":
        from rag_eval_hooks.results.report import comparison_as_json

        plain = comparison_as_json(comparison, failures)
        return json.dumps(plain, ensure_ascii=False, indent=2)
    from rag_eval_hooks.cli.report import terminal_text
    from rag_eval_hooks.results.render import comparison_as_markdown

    markdown = comparison_as_markdown(comparison, failures)
    return markdown if kind == "md" else terminal_text(markdown)
