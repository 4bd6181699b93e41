"""`rag-eval-hooks compare`: two runs side by side."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.arguments import share
from rag_eval_hooks.cli.report_command import results_of, write_text
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.results.comparison import Change, Comparison, Trend, compare
from rag_eval_hooks.results.summary import MetricSummary

__all__ = ["FailCondition", "failed_gates", "register", "regressed"]


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
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
    parser.set_defaults(run=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    from rag_eval_hooks.results.compared_text import (
        comparison_as_json,
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
    if arguments.format == "json":
        text = json.dumps(comparison_as_json(comparison, failures), ensure_ascii=False, indent=2)
    else:
        text = comparison_as_text(comparison, failures, markdown=arguments.format == "md")
    write_text(text, arguments.output)
    return 1 if failures else 0


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
