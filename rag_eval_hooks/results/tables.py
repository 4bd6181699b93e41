"""Report as text: tables for a terminal, and Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rag_eval_hooks.explanation_text import prose
from rag_eval_hooks.results.estimate import Estimate
from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.results.report import ResultReport
from rag_eval_hooks.results.summary import MetricSummary, ResultGroup, band_of
from rag_eval_hooks.results.text_table import (
    TextTable,
    escaped,
    markdown_table,
    one_line,
    shown_number,
    text_table,
)

__all__ = [
    "absent_table",
    "as_markdown",
    "as_text",
    "cost_table",
    "label_table",
    "label_tables",
    "labelled_table",
    "sample_lines",
    "tables",
]

_WORST: Final = 5
"""Samples shown, the worst first."""
_NOTHING: Final = "-"
_MOST_EXPLAINED: Final = 1200


def tables(report: ResultReport) -> list[TextTable]:
    """Return the tables of a report, those that say what to do first."""
    found = [_first(report), _metrics(report), labelled_table(report), label_table(report)]
    for key, groups in report.groups.items():
        found += [_groups(key, groups.values()), *label_tables(report, key)]
    return [table for table in [*found, absent_table(report), cost_table(report)] if table.rows]


def as_text(report: ResultReport) -> str:
    """Return a report for a terminal, with the worst samples."""
    parts = [_heading(report), *map(text_table, tables(report))]
    rows = report.worst[:_WORST]
    if rows:
        parts.append("Worst samples")
        parts += ["\n".join(sample_lines(row)) for row in rows]
    return "\n\n".join(parts)


def as_markdown(report: ResultReport) -> str:
    """Return a report for a pull request."""
    parts = [f"# {escaped(report.title)}", escaped(_heading(report).partition("\n")[2])]
    parts += map(markdown_table, tables(report))
    rows = report.worst[:_WORST]
    if rows:
        lines = ["- " + "<br>".join(map(escaped, sample_lines(row))) for row in rows]
        parts.append("## Worst samples\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def sample_lines(row: ResultRow) -> Iterator[str]:
    """Yield a sample in lines: when, question, answer, scores, and what the worst score says."""
    when = "" if row.when is None else f"{row.when:%Y-%m-%d %H:%M}  "
    yield f"{when}{one_line(row.sample.question, 100)}"
    yield f"  answer: {one_line(row.sample.answer or 'none', 160)}"
    scores = [(name, s) for name in row.outcomes if (s := row.score(name))]
    shown = ", ".join(f"{name} {s.value:.3g}" for name, s in scores[:6])
    more = f" and {len(scores) - 6} more" if len(scores) > 6 else ""
    yield f"  {shown}{more}"
    explained = [(s.normalised, name, s) for name, s in scores if s.explanation]
    if explained:
        _, name, score = min(explained, key=lambda each: each[0])
        text = prose(score.explanation, _MOST_EXPLAINED, content=True) or ""
        yield from (f"  {one_line(line, 160)}" for line in [f"{name}:", *text.splitlines()[:6]])
    ids = filter(
        None, (row.sample.sample_id, row.sample.trace_id and f"trace {row.sample.trace_id}")
    )
    yield f"  id {', '.join(ids)}"


def _heading(report: ResultReport) -> str:
    times = report.times
    period = (
        "" if times is None else f", {times[0]:%Y-%m-%d %H:%M} to {times[1]:%Y-%m-%d %H:%M} UTC"
    )
    skipped = ", ".join(f"{count} {reason}" for reason, count in report.skipped.items())
    judges = "; ".join(report.judges) or "no score"
    lines = [report.title, f"{report.whole.samples} samples{period}", f"judged by {judges}"]
    if report.whole.passed is not None:
        lines.append(f"{shown_share(report.whole.passed)} pass their thresholds")
    return "\n".join([*lines, *([f"lines that are no results: {skipped}"] if skipped else [])])


def _first(report: ResultReport) -> TextTable:
    rows = [
        (
            each.rule.blame,
            each.rule.name,
            str(len(each.rows)),
            shown_share(each.share),
            each.rule.advice,
        )
        for each in report.diagnoses
    ]
    return TextTable(
        "What to look at first", ("blame", "pattern", "samples", "share", "advice"), rows
    )


def _metrics(report: ResultReport) -> TextTable:
    header = (
        "metric",
        "mean",
        "95 %",
        "word",
        "plain mean",
        "scored",
        "as good as",
        "best",
        "worst",
        "not scored",
    )
    return TextTable(
        "Metrics, over all traffic", header, [_metric_row(one) for one in report.metrics]
    )


def _metric_row(one: MetricSummary) -> tuple[str, ...]:
    absent = ", ".join(f"{count} {cause.value}" for cause, count in one.absences.items())
    if one.estimate is None or one.normalised is None:
        return one.metric, *[_NOTHING] * 4, "0", *[_NOTHING] * 3, absent or _NOTHING
    flag = "~" if one.is_estimated else ""
    return (
        one.metric,
        f"{flag}{shown_number(one.estimate.mean)}",
        shown_interval(one.estimate),
        band_of(one.metric, one.normalised.mean) or _NOTHING,
        shown_number(one.estimate.raw),
        str(one.scored),
        f"{one.estimate.effective_n:.0f}",
        shown_number(one.best or 0.0),
        shown_number(one.worst or 0.0),
        absent or _NOTHING,
    )


def labelled_table(report: ResultReport) -> TextTable:
    """Return the means by labels and judge together."""
    rows = [
        (
            one.metric,
            str(one.labels),
            shown_number(one.estimate.mean),
            shown_interval(one.estimate),
            _mean_and_interval(one.alone),
            _mean_and_interval(one.judge),
        )
        for one in report.labelled
    ]
    header = ("metric", "labels", "mean", "95 %", "labels alone", "judge alone")
    return TextTable("By your labels and the judge (0 to 1, 1 is best)", header, rows)


def label_table(report: ResultReport) -> TextTable:
    """Return how often each label of a metric is."""
    rows = [
        (one.metric, label, str(count), shown_share(one.shares.get(label)))
        for one in report.metrics
        for label, count in sorted(one.labels.items())
    ]
    return TextTable("Labels", ("metric", "label", "samples", "share of traffic"), rows)


def _groups(key: str, groups: Iterable[ResultGroup]) -> TextTable:
    known = list(groups)
    scored = [(name, one) for group in known for name, one in group.metrics.items()]
    names = list(dict.fromkeys(name for name, one in scored if one.estimate is not None))
    rows = [
        (
            group.key or "(none)",
            str(group.samples),
            *(_cell(group.metrics.get(name)) for name in names),
        )
        for group in known
    ]
    return TextTable(f"By {key}", (key, "samples", *names), rows)


def label_tables(report: ResultReport, key: str) -> list[TextTable]:
    """Return a table for each metric with labels: their counts and shares by group."""
    return [
        TextTable(
            f"{one.metric} by {key}",
            (key, *sorted(one.labels)),
            [
                (group.key or "(none)", *(_count(own, label) for label in sorted(one.labels)))
                for group in report.groups[key].values()
                if (own := group.metrics.get(one.metric)) is not None
            ],
        )
        for one in report.metrics
        if one.labels
    ]


def _count(summary: MetricSummary, label: str) -> str:
    share = summary.shares.get(label)
    if share is None:
        return "0"
    return f"{summary.labels[label]} ({shown_number(round(100 * share.mean, 1))} %)"


def _cell(summary: MetricSummary | None) -> str:
    if summary is None or summary.estimate is None:
        return _NOTHING
    return _mean_and_interval(summary.estimate)


def _mean_and_interval(estimate: Estimate) -> str:
    return f"{shown_number(estimate.mean)} ({shown_interval(estimate)})"


def absent_table(report: ResultReport) -> TextTable:
    """Return how many scores are missing, and why."""
    rows = [
        (metric, cause.replace("_", " "), str(count), detail or _NOTHING)
        for metric, causes in report.reasons.items()
        for (cause, detail), count in causes.items()
    ]
    return TextTable("Not scored", ("metric", "cause", "samples", "detail"), rows)


def cost_table(report: ResultReport) -> TextTable:
    """Return what the judge took, by metric and in all."""
    each = [(name, used) for name, used in report.usage.items()]
    rows = [
        (
            name,
            f"{used.calls:,.6g}",
            f"{used.input_tokens:,.0f}",
            f"{used.output_tokens:,.0f}",
            _NOTHING if used.cost is None else f"{used.cost:.4f}",
        )
        for name, used in [*each, *([("all", report.total)] if each else [])]
    ]
    return TextTable(
        "Cost of judging", ("metric", "calls", "input tokens", "output tokens", "cost"), rows
    )


def shown_share(share: Estimate | None) -> str:
    """Return a share in per cent with its interval."""
    if share is None:
        return _NOTHING
    ends = "" if share.low is None else f" ({shown_interval(share.scaled(100, 0))})"
    return f"{shown_number(100 * share.mean)} %{ends}"


def shown_interval(estimate: Estimate) -> str:
    """Return the interval of an estimate, or a dash for a single value."""
    if estimate.low is None or estimate.high is None:
        return _NOTHING
    return f"{shown_number(estimate.low)} to {shown_number(estimate.high)}"
