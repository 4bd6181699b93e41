"""Tables of a report, as texts; templates draw them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rag_eval_hooks.results.compare import Comparison
from rag_eval_hooks.results.estimate import Estimate
from rag_eval_hooks.results.report import ResultReport
from rag_eval_hooks.results.summary import MetricSummary, ResultGroup, band_of

__all__ = [
    "TextTable",
    "comparison_tables",
    "first_table",
    "further_tables",
    "group_tables",
    "metric_table",
    "shown_interval",
    "shown_number",
    "shown_share",
]

_MOST_REGRESSIONS: Final = 20
_NUMBER: Final = re.compile(r"[-+]?[\d.,]*( %)?")


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table with a title and a note."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    @property
    def numeric(self) -> list[bool]:
        """Columns that hold numbers alone, behind the first, which names the row."""
        columns = list(zip(*self.rows, strict=True))[1:]
        return [False, *(all(map(_NUMBER.fullmatch, cells)) for cells in columns)]


def first_table(report: ResultReport) -> TextTable:
    """Return what to look at first."""
    header = ("blame", "pattern", "samples", "share", "advice")
    rows = [
        (one.rule.blame, one.rule.name, f"{len(one.rows)}", shown_share(one.share), one.rule.advice)
        for one in report.diagnoses
    ]
    return TextTable("What to look at first", header, rows)


def metric_table(
    groups: Mapping[str | None, ResultGroup], title: str = "Metrics", key: str | None = None
) -> TextTable:
    """Return means, best, worst and missing scores of each group, or of all samples."""
    header = ("metric", "mean", "95 %", "word", "plain mean", "scored", "best", "worst")
    rows = [
        (*_group_cell(key, group), *_metric_row(one))
        for group in groups.values()
        for one in group.metrics.values()
        if key is None or one.scored
    ]
    return TextTable(title, (*_group_head(key), *header, "not scored"), rows)


def _metric_row(one: MetricSummary) -> tuple[str, ...]:
    absent = ", ".join(f"{count} {cause.value}" for cause, count in one.not_scored.items())
    if one.estimate is None or one.normalised is None:
        return one.metric, *["-"] * 4, "0", "-", "-", absent
    effective = f" (as good as {one.estimate.effective_n:.0f})"
    flags = "~" * one.is_estimated + "?" * one.is_rare
    return (
        one.metric,
        f"{flags}{shown_number(one.estimate.mean)}",
        shown_interval(one.estimate),
        band_of(one.metric, one.normalised.mean) or "-",
        shown_number(one.estimate.raw),
        f"{one.scored}{effective if one.estimate.effective_n < 0.95 * one.estimate.n else ''}",
        shown_number(one.best or 0.0),
        shown_number(one.worst or 0.0),
        absent or "-",
    )


def _label_table(
    groups: Mapping[str | None, ResultGroup], title: str = "Labels", key: str | None = None
) -> TextTable:
    names = {"correct_answers_count", "wrong_answers_count", "dont_know_answers_count"}
    rows = [
        (*_group_cell(key, group), one.metric, label, str(count), shown_share(share))
        for group in groups.values()
        for one in group.metrics.values()
        for label, count, share in _labels_of(one)
    ]
    note = ", ".join(sorted(names)) + " are the counts of graphrag.answer_class."
    is_graded = any(one.counts for group in groups.values() for one in group.metrics.values())
    header = (*_group_head(key), "metric", "label", "samples", "share of traffic")
    return TextTable(title, header, rows, note if is_graded else "")


def _labels_of(one: MetricSummary) -> Iterable[tuple[str, int, Estimate | None]]:
    return ((label, count, one.shares.get(label)) for label, count in sorted(one.labels.items()))


def _group_head(key: str | None) -> tuple[str, ...]:
    return () if key is None else (key,)


def _group_cell(key: str | None, group: ResultGroup) -> tuple[str, ...]:
    return () if key is None else (f"{group.key or '(none)'} ({group.samples})",)


def group_tables(report: ResultReport, key: str) -> list[TextTable]:
    """Return metrics and labels by a key."""
    groups = report.groups[key]
    tables = metric_table(groups, f"By {key}", key), _label_table(groups, f"Labels by {key}", key)
    return [table for table in tables if table.rows]


def further_tables(report: ResultReport) -> list[TextTable]:
    """Return means by labels, labels, missing scores and cost, as far as there are any."""
    labelled = [
        (
            one.metric,
            str(one.labels),
            shown_number(one.estimate.mean),
            shown_interval(one.estimate),
            f"{shown_number(one.alone.mean)} ({shown_interval(one.alone)})",
            f"{shown_number(one.judge.mean)} ({shown_interval(one.judge)})",
        )
        for one in report.labelled
    ]
    absent = [
        (metric, cause.replace("_", " "), str(count), detail or "-")
        for metric, causes in report.reasons.items()
        for (cause, detail), count in causes.items()
    ]
    used = [*report.usage.items(), *([("all", report.total)] if report.usage else [])]
    cost = [
        (
            name,
            f"{one.calls:,.6g}",
            f"{one.input_tokens:,.0f}",
            f"{one.output_tokens:,.0f}",
            "-" if one.cost is None else f"{one.cost:.4f}",
        )
        for name, one in used
    ]
    tables = (
        TextTable(
            "By your labels and the judge (0 to 1, 1 is best)",
            ("metric", "labels", "mean", "95 %", "labels alone", "judge alone"),
            labelled,
            "Prediction-powered means: correct even where the judge is biased, and narrower than "
            "the labels alone.",
        ),
        _label_table({None: report.whole}),
        TextTable("Not scored", ("metric", "cause", "samples", "detail"), absent),
        TextTable(
            "Cost of judging", ("metric", "calls", "input tokens", "output tokens", "cost"), cost
        ),
    )
    return [table for table in tables if table.rows]


def comparison_tables(comparison: Comparison) -> list[TextTable]:
    """Return the differences, and the samples that became worse."""
    changes = [
        (
            one.group or "all",
            one.metric,
            shown_number(one.base.mean),
            shown_number(one.new.mean),
            f"{one.difference:+.3f}",
            "-" if one.low is None or one.high is None else f"{one.low:+.3f} to {one.high:+.3f}",
            one.trend.value,
            str(one.pairs),
        )
        for one in comparison.changes
    ]
    header = ("group", "metric", "base", "new", "difference", "95 %", "trend", "pairs")
    worse = [
        (
            one.metric,
            f"-{shown_number(one.drop)}",
            one.new.sample.question,
            one.base.sample.answer or "none",
            one.new.sample.answer or "none",
        )
        for one in comparison.regressions[:_MOST_REGRESSIONS]
    ]
    tables = (
        TextTable("Differences", header, changes),
        TextTable(
            "Samples that became worse", ("metric", "drop", "question", "before", "after"), worse
        ),
    )
    return [table for table in tables if table.rows]


def shown_number(value: float) -> str:
    """Return a number with three digits, of which none stands for less than a thousandth."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{round(value, 3):g}"


def shown_share(share: Estimate | None) -> str:
    """Return a share in per cent with its interval."""
    if share is None:
        return "-"
    ends = "" if share.low is None else f" ({shown_interval(share.scaled(100, 0))})"
    return f"{shown_number(round(100 * share.mean, 1))} %{ends}"


def shown_interval(estimate: Estimate) -> str:
    """Return the interval of an estimate, or a dash for a single value."""
    if estimate.low is None or estimate.high is None:
        return "-"
    return f"{shown_number(estimate.low)} to {shown_number(estimate.high)}"
