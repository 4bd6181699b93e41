"""Comparison as text: tables, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rag_eval_hooks.results.comparison import Change, Comparison, Regression
from rag_eval_hooks.results.text_table import (
    TextTable,
    markdown_table,
    one_line,
    shown_number,
    text_table,
)

__all__ = ["comparison_as_json", "comparison_as_text"]

_MOST_SHOWN = 20


def comparison_as_text(
    comparison: Comparison, failures: Sequence[str], *, markdown: bool = False
) -> str:
    """Return a comparison for a terminal or a pull request."""
    draw = markdown_table if markdown else text_table
    lost = f"{comparison.only_base} only before, {comparison.only_new} only after"
    parts = [f"{comparison.pairs} samples in both runs, {lost}"]
    if failures:
        parts.append("\n".join(["FAILED", *(f"- {one_line(each, 200)}" for each in failures)]))
    tables = [_changes(comparison.changes), _regressions(comparison.regressions[:_MOST_SHOWN])]
    return "\n\n".join([*parts, *(draw(table) for table in tables if table.rows)]) + "\n"


def comparison_as_json(comparison: Comparison, failures: Sequence[str]) -> dict[str, Any]:
    """Return a comparison as plain types."""
    return {
        "pairs": comparison.pairs,
        "only_base": comparison.only_base,
        "only_new": comparison.only_new,
        "failures": list(failures),
        "changes": [{**asdict(one), "trend": one.trend.value} for one in comparison.changes],
        "regressions": [
            {
                "metric": one.metric,
                "question": one.new.sample.question,
                "base": one.base.sample.sample_id,
                "new": one.new.sample.sample_id,
                "drop": one.drop,
            }
            for one in comparison.regressions
        ],
    }


def _changes(changes: Sequence[Change]) -> TextTable:
    rows = [
        (
            one.group or "all",
            one.metric,
            shown_number(one.base.mean),
            shown_number(one.new.mean),
            f"{one.difference:+.3f}",
            _interval(one),
            one.trend.value,
            str(one.pairs) if one.pairs else f"{one.base.n} and {one.new.n} unpaired",
        )
        for one in changes
    ]
    header = ("group", "metric", "base", "new", "difference", "95 %", "trend", "pairs")
    return TextTable("Differences (0 to 1, above 0 is better)", header, rows)


def _regressions(regressions: Sequence[Regression]) -> TextTable:
    rows = [
        (
            one.metric,
            f"-{shown_number(one.drop)}",
            one_line(one.new.sample.question, 70),
            one_line(one.base.sample.answer or "none", 60),
            one_line(one.new.sample.answer or "none", 60),
        )
        for one in regressions
    ]
    return TextTable(
        "Samples that became worse", ("metric", "drop", "question", "before", "after"), rows
    )


def _interval(change: Change) -> str:
    if change.low is None or change.high is None:
        return "-"
    return f"{change.low:+.3f} to {change.high:+.3f}"
