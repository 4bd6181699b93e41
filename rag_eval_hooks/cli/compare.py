"""`rag-eval-hooks compare` and `tail`: two runs side by side, and results as they come."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.arguments import at_least, share
from rag_eval_hooks.cli.report_command import results_of, write_text
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.results.comparison import Change, Comparison, Trend, compare
from rag_eval_hooks.results.read import row_of
from rag_eval_hooks.results.summary import MetricSummary

__all__ = ["FailCondition", "failed_gates", "register", "regressed"]

_PAUSE_S: Final = 0.2


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommands."""
    parser = subparsers.add_parser(
        "compare",
        help="two runs side by side, as a gate for a build",
        description="Compares two runs. Exit code 1 where a gate fails.",
    )
    parser.add_argument("base", metavar="BASE", help="results before")
    parser.add_argument("new", metavar="NEW", help="results after")
    parser.add_argument("--by", metavar="KEY", help="compare groups, too")
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION",
        help="such as 'ragas.faithfulness<0.8', of the new mean (repeatable)",
    )
    parser.add_argument(
        "--fail-on-regression",
        type=share,
        metavar="MARGIN",
        help="fail where a mean, of 0 to 1, falls by more, and the samples show that it does",
    )
    parser.add_argument(
        "--allow-different-judges", action="store_true", help="compare scores of different judges"
    )
    parser.add_argument("--format", choices=("text", "md", "json"), default="text")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: the terminal")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML, too")
    parser.set_defaults(run=_compare)
    parser = subparsers.add_parser(
        "tail",
        help="show results as they come",
        description="Follows a results file: requests, scores, failing claims. Ctrl-C ends it.",
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="file of a jsonl: sink")
    parser.add_argument(
        "-n", type=at_least(0), default=5, metavar="N", help="earlier ones (default: 5)"
    )
    parser.set_defaults(run=_tail)


def _compare(arguments: argparse.Namespace) -> int:
    from rag_eval_hooks.results.compared_text import (
        comparison_as_json,
        comparison_as_junit,
        comparison_as_text,
    )

    gates = [FailCondition.of(text) for text in arguments.fail_on]
    comparison = compare(
        results_of([arguments.base]),
        results_of([arguments.new]),
        by=arguments.by,
        allow_different_judges=arguments.allow_different_judges,
    )
    if not comparison.changes:
        raise UsageError("compare: no metric has scores in both runs")
    conditions = failed_gates(gates, comparison.new)
    margin = arguments.fail_on_regression
    worse = [] if margin is None else regressed(comparison, margin)
    failures = [
        *conditions,
        *(
            f"{one.metric}{'' if one.group is None else f' of {one.group}'} fell by"
            f" {-one.difference:.3f}"
            for one in worse
        ),
    ]
    if arguments.junit is not None:
        write_text(comparison_as_junit(comparison, worse, conditions), arguments.junit)
    if arguments.format == "json":
        text = json.dumps(comparison_as_json(comparison, failures), ensure_ascii=False, indent=2)
    else:
        text = comparison_as_text(comparison, failures, markdown=arguments.format == "md")
    write_text(text, arguments.output)
    return 1 if failures else 0


def _tail(arguments: argparse.Namespace) -> int:
    from rag_eval_hooks.results.tables import sample_lines

    for line in _followed(arguments.results, arguments.n):
        try:
            values = json.loads(line)
            text = "\n".join(sample_lines(row_of(values)))
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        print(text, end="\n\n", flush=True)
    return 0


def _followed(path: Path, earlier: int) -> Iterator[bytes]:
    """Yield the last lines of a file, then each further one; a rotated file is left for its heir.

    Raises:
        UsageError: There is no such file.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file yet")
    rest = b""
    file = path.open("rb")
    try:
        lines = file.read().splitlines(keepends=True)
        rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        yield from lines[max(0, len(lines) - earlier) :] if earlier else ()
        while True:
            rest += file.readline()
            if rest.endswith(b"\n"):
                yield rest
                rest = b""
            elif path.exists() and not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                file.close()
                file, rest = path.open("rb"), b""
            else:
                time.sleep(_PAUSE_S)
    finally:
        file.close()


_GATE: Final = re.compile(r"\s*([\w.\-]+)\s*(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True, slots=True)
class FailCondition:
    """Condition under which a build fails, such as `ragas.faithfulness<0.8`.

    Attributes:
        text: The condition.
        metric: The metric, in its own scale.
        sign: `<`, `<=`, `>` or `>=`.
        limit: The number.
    """

    text: str
    metric: str
    sign: str
    limit: float

    @classmethod
    def of(cls, text: str) -> FailCondition:
        """Return the gate that a text names.

        Raises:
            ConfigError: It names none.
        """
        match = _GATE.fullmatch(text)
        if match is None:
            raise ConfigError("fail-on", text, "a condition such as 'ragas.faithfulness<0.8'")
        return cls(text, match[1], match[2], float(match[3]))

    def is_met_by(self, value: float) -> bool:
        """Return whether the build fails at this mean."""
        limit = self.limit
        return {
            "<": value < limit,
            "<=": value <= limit,
            ">": value > limit,
            ">=": value >= limit,
        }[self.sign]


def failed_gates(gates: Iterable[FailCondition], metrics: Mapping[str, MetricSummary]) -> list[str]:
    """Return what fails a build, in words; a metric without a score fails it too.

    Raises:
        ConfigError: A gate names a metric that was not measured.
    """
    found = []
    for gate in gates:
        summary = metrics.get(gate.metric)
        if summary is None:
            raise ConfigError("fail-on", gate.metric, "one of " + ", ".join(metrics))
        if summary.estimate is None:
            found.append(f"{gate.text}: no sample has a score")
        elif gate.is_met_by(summary.estimate.mean):
            found.append(f"{gate.text}: the mean is {summary.estimate.mean:.3f}")
    return found


def regressed(comparison: Comparison, margin: float) -> list[Change]:
    """Return the differences that fail a build.

    Args:
        comparison: The comparison.
        margin: Fall of a mean in [0, 1] that is accepted; a larger one fails if its interval shows
            that it is no accident of the samples.
    """
    return [
        one for one in comparison.changes if one.trend is Trend.WORSE and one.difference < -margin
    ]
