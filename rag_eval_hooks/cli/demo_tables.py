"""Tables of the demo: scores by question, means by metric, the worst sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.box import ASCII2, SIMPLE_HEAD, Box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rag_eval_hooks.cli.results import FAITHFULNESS, Summary, suites, summaries
from rag_eval_hooks.cli.rows import QuestionRow
from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.results.text_table import one_line
from rag_eval_hooks.score import NotScored, Outcome, Score

__all__ = ["ASCII_STYLE", "UNICODE_STYLE", "Style", "scores", "summary", "worst_sample"]

_QUESTION_CHARS: Final = 60
_LEAST_QUESTION_CHARS: Final = 12
_MISTAKE_HEADING: Final = "made wrong"
_BORDER_CHARS: Final = 3
"""Line and padding of one column."""
_GOOD: Final = 0.8
_FAIR: Final = 0.5


@dataclass(frozen=True, slots=True)
class Style:
    """Characters that a terminal can show.

    Attributes:
        box: Lines of tables.
        absent: Placeholder of a missing score.
        yes: Mark of a supported claim.
        no: Mark of an unsupported claim.
    """

    box: Box
    absent: str
    yes: str
    no: str


UNICODE_STYLE: Final = Style(SIMPLE_HEAD, "·", "✓", "✗")
ASCII_STYLE: Final = Style(ASCII2, "-", "+", "x")


def scores(
    rows: Sequence[QuestionRow], results: Mapping[str, ResultRow], style: Style, width: int
) -> RenderableType:
    """Return one table per suite, one line per question; a score's colour is its quality.

    Args:
        rows: The questions, in the order of the lines.
        results: What has arrived, by question id.
        style: The characters to use.
        width: Columns of the terminal; where they do not suffice, questions are left out.
    """
    grouped = suites(results.values())
    return Group(
        *(_suite(name, metrics, rows, results, style, width) for name, metrics in grouped.items())
    )


def _suite(
    suite: str,
    metrics: Sequence[str],
    rows: Sequence[QuestionRow],
    results: Mapping[str, ResultRow],
    style: Style,
    width: int,
) -> Table:
    table = _table(suite, style)
    chars = _question_width(metrics, rows, width)
    for heading in ("id", "question") if chars else ("id",):
        table.add_column(heading, no_wrap=True)
    for metric in metrics:
        table.add_column(_heading(metric), justify="right", no_wrap=True)
    if any(row.mistake for row in rows):
        table.add_column(_MISTAKE_HEADING, no_wrap=True)
    for row in rows:
        outcomes = results[row.id].outcomes if row.id in results else {}
        question = [Text(one_line(row.question, chars))] if chars else []
        cells = [_cell(outcomes.get(metric), style) for metric in metrics]
        line = [Text(one_line(row.id)), *question, *cells, _mistake(row)]
        table.add_row(*line[: len(table.columns)])
    return table


def _table(title: str, style: Style) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=style.box)


def _question_width(metrics: Sequence[str], rows: Sequence[QuestionRow], width: int) -> int:
    """Return the characters that other columns leave to the question; 0 if too few to be useful."""
    columns = [
        max(len(one_line(row.id)) for row in rows),
        *(max(map(len, _heading(metric).split("\n"))) for metric in metrics),
        len(_MISTAKE_HEADING),
    ]
    rest = width - sum(columns) - _BORDER_CHARS * (len(columns) + 2)
    return min(_QUESTION_CHARS, rest) if rest >= _LEAST_QUESTION_CHARS else 0


def _heading(metric: str) -> str:
    return metric.partition(".")[2].replace("_", "\n")


def _cell(outcome: Outcome | None, style: Style) -> Text:
    if outcome is None:
        return Text("")
    if isinstance(outcome, NotScored):
        return Text(style.absent, style="dim")
    return Text(f"{outcome.value:.2f}", style=_colour(outcome))


def _colour(score: Score) -> str:
    if score.normalised >= _GOOD:
        return "green"
    return "yellow" if score.normalised >= _FAIR else "red"


def _mistake(row: QuestionRow) -> Text:
    return Text("" if row.mistake is None else str(row.mistake), style="magenta")


def summary(results: Mapping[str, ResultRow], style: Style) -> Table:
    """Return mean, number of scores and number of absences by cause, for each metric."""
    table = _table("summary", style)
    table.add_column("metric", no_wrap=True)
    for name in ("mean", "scored", "not scored"):
        table.add_column(name, justify="right")
    table.add_column("why not")
    for line in summaries(results.values()):
        table.add_row(*_summary_cells(line, style))
    return table


def _summary_cells(line: Summary, style: Style) -> tuple[str, ...]:
    mean = style.absent if line.mean is None else f"{line.mean:.3f}"
    causes = ", ".join(f"{count} {cause.value}" for cause, count in sorted(line.absent.items()))
    why = causes if line.scored or not line.detail else f"{causes}: {line.detail}"
    return line.metric, mean, str(line.scored), str(sum(line.absent.values())), why


def worst_sample(row: QuestionRow, result: ResultRow, style: Style) -> RenderableType:
    """Return question, answer, and each claim with its verdict and the judge's reason."""
    sample = result.sample
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("question", Text(one_line(sample.question, 300)))
    grid.add_row("answer", Text(one_line(sample.answer or "", 600)))
    if sample.reference is not None:
        grid.add_row("expected", Text(one_line(sample.reference, 300)))
    if row.mistake is not None:
        grid.add_row(_MISTAKE_HEADING, _mistake(row))
    score = result.score(FAITHFULNESS)
    claims = () if score is None else score.explanation.get("claims", ())
    for claim in sorted(claims, key=lambda claim: bool(claim["supported"])):
        grid.add_row(*_claim(claim, style))
    return Group(Text(_title(row, result), style="bold red"), grid)


def _title(row: QuestionRow, result: ResultRow) -> str:
    score = result.score(FAITHFULNESS)
    shown = "" if score is None else f", {FAITHFULNESS} {score.value:.2f}"
    return f"worst sample: {one_line(row.id)}{shown}"


def _claim(claim: Mapping[str, object], style: Style) -> tuple[str, Text]:
    if claim["supported"]:
        return f"{style.yes} claim", Text(one_line(str(claim["claim"]), 300), style="green")
    text = Text(one_line(str(claim["claim"]), 300), style="red")
    reason = one_line(str(claim.get("reason") or ""), 300)
    return f"{style.no} claim", text.append(f"\nwhy: {reason}" if reason else "", style="default")
