"""Reports and comparisons as Markdown, as text for a terminal, and as one HTML file."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any, ClassVar, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rag_eval_hooks._version import __version__
from rag_eval_hooks.encodable import encodable
from rag_eval_hooks.explanation_text import prose
from rag_eval_hooks.results.compare import Comparison
from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.results.report import ReportPeriod, ResultReport
from rag_eval_hooks.results.select import FAITHFULNESS, badness
from rag_eval_hooks.results.summary import band_of
from rag_eval_hooks.results.tables import (
    comparison_tables,
    first_table,
    further_tables,
    group_tables,
    metric_table,
    shown_number,
    shown_share,
)
from rag_eval_hooks.score import NotScored, Score, outcome_to_dict

__all__ = ["as_html", "as_markdown", "as_text", "comparison_as_markdown", "one_line"]

_WIDTH: Final = 140
_MOST_IN_LINE: Final = 200
_MOST_EXPLAINED: Final = 1200
_BLOCK: Final = 25
"""Samples of the page that are unpacked together."""
_ASKED: Final = 220
"""Characters of a question in the page's list."""


def as_text(markdown: str, width: int = _WIDTH) -> str:
    """Return Markdown as it stands in a terminal of some columns.

    Raises:
        ImportError: rich is not installed.
    """
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown, TableElement
    from rich.table import Table

    class Unshortened(TableElement):
        """Table that folds long cells and keeps the names of its rows."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for part in super().__rich_console__(console, options):
                if isinstance(part, Table):
                    for column in part.columns:
                        column.overflow = "fold"
                    part.columns[0].no_wrap = True
                yield part

    class Page(Markdown):
        elements: ClassVar = {**Markdown.elements, "table_open": Unshortened}

    file = io.StringIO()
    Console(file=file, width=width, color_system=None).print(Page(markdown, hyperlinks=False))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def as_markdown(
    report: ResultReport, *, worst: int = 5, tables: bool = True, groups: bool = True
) -> str:
    """Return a report for a pull request.

    Args:
        report: The report.
        worst: Samples shown, the worst first.
        tables: Whether to show the tables, not only the samples.
        groups: Whether tables by group are among them.
    """
    shown = [first_table(report), metric_table({None: report.whole}, "Metrics, over all traffic")]
    for key in report.groups if groups else ():
        shown += group_tables(report, key)
    shown += further_tables(report)
    return _markdown(
        "report.md.j2",
        report=report,
        tables=[table for table in shown if table.rows] if tables else [],
        worst=report.worst[:worst],
        lines=sample_lines,
        share=shown_share,
    )


def comparison_as_markdown(comparison: Comparison, failures: Sequence[str] = ()) -> str:
    """Return a comparison for a pull request, with what fails the build."""
    tables = comparison_tables(comparison)
    return _markdown("compare.md.j2", comparison=comparison, failures=failures, tables=tables)


def _markdown(template: str, **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("rag_eval_hooks.results"),
        undefined=StrictUndefined,
        finalize=_escaped,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    return environment.get_template(template).render(values).strip() + "\n"


def _escaped(value: object) -> str:
    """Return a value on one line that Markdown shows as it is."""
    text = one_line(str(value), _MOST_IN_LINE)
    return "".join(f"\\{char}" if char in "\\|<>*_`[]&~#" else char for char in text)


def one_line(text: str, width: int) -> str:
    """Return a text on one line without control characters, cut at the end."""
    line = " ".join(text.split())
    shown = "".join(char if char.isprintable() else "?" for char in line)
    return shown if len(shown) <= width else shown[: width - 3].rstrip() + "..."


def sample_lines(row: ResultRow) -> Iterator[str]:
    """Yield a sample in lines: answer, scores, what the worst score says, time and ids."""
    yield f"answer: {row.sample.answer or 'none'}"
    scores = [(name, s) for name in row.outcomes if (s := row.score(name))]
    more = f" and {len(scores) - 6} more" if len(scores) > 6 else ""
    yield ", ".join(_value(name, score) for name, score in scores[:6]) + more
    explained = [(s.normalised, name, s) for name, s in scores if s.explanation]
    if explained:
        _, name, score = min(explained, key=lambda each: each[0])
        text = prose(score.explanation, _MOST_EXPLAINED, content=True) or ""
        yield from (line.removeprefix("- ") for line in [f"{name}:", *text.splitlines()[:6]])
    when = "" if row.when is None else f"{row.when:%Y-%m-%d %H:%M}"
    trace = row.sample.trace_id and f"trace {row.sample.trace_id}"
    yield ", ".join(filter(None, (when, f"id {row.sample.sample_id}", trace)))


def _value(name: str, score: Score) -> str:
    word = band_of(name, score.normalised) or score.label
    return f"{name} {score.value:.3g}" + (f" ({word})" if word else "")


def as_html(report: ResultReport) -> str:
    """Return a report as a page of its own, for narrow and wide, light and dark.

    Question, scores and rules of every sample are in it as they are; texts and explanations are
    compressed, in blocks that the page unpacks when a sample is opened.
    """
    loader = PackageLoader("rag_eval_hooks.results")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.globals.update(number=shown_number, band=band_of)
    environment.globals["spark"] = lambda metric: _spark(report.periods, metric)
    scored = {id(row) for row in report.worst}
    rows = [*report.worst, *(row for row in report.whole.rows if id(row) not in scored)]
    position = {id(row): number for number, row in enumerate(rows)}
    problems = [each for each in report.diagnoses if each.rule.blame != "none"]
    good = [each for each in report.diagnoses if each.rule.blame == "none"]
    metrics = list(report.whole.metrics)
    index = {
        "metrics": metrics,
        "size": _BLOCK,
        "rules": [[position[id(row)] for row in each.rows] for each in (*problems, *good)],
        "samples": [_entry(row, metrics) for row in rows],
    }
    folder = resources.files("rag_eval_hooks.results") / "templates"
    style, script = ((folder / f"report.{kind}").read_text("utf-8") for kind in ("css", "js"))
    return environment.get_template("report.html.j2").render(
        report=report,
        problems=problems,
        good=good,
        ranked="faithfulness first" if set(FAITHFULNESS) & set(metrics) else "all scores",
        group_tables=lambda key: group_tables(report, key)[1:],
        tables=further_tables(report),
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        index=Markup(_in_script(index)),
        blocks=[Markup(block) for block in _blocks(rows)],
    )


def _entry(row: ResultRow, metrics: Sequence[str]) -> dict[str, Any]:
    scores = [row.score(name) for name in metrics]
    faithful = next((name for name in FAITHFULNESS if name in row.outcomes), None)
    key, score = badness(row), row.score(faithful or "")
    # Without a verdict on faithfulness, the other scores do not make a sample good.
    level = None if score is None else score.normalised
    if faithful is None and key is not None:
        level = key[-1]
    labels = (one.label for one in scores if one)
    return {
        "q": row.sample.question[:_ASKED],
        "t": "" if row.when is None else f"{row.when:%Y-%m-%d %H:%M}",
        "g": next(filter(None, labels), None),
        "f": int(faithful is not None),
        "l": None if level is None else round(level, 4),
        "s": [None if score is None else round(score.normalised, 4) for score in scores],
        "u": int(any(isinstance(one, NotScored) for one in row.outcomes.values())),
    }


def _blocks(rows: Sequence[ResultRow]) -> Iterator[str]:
    for start in range(0, len(rows), _BLOCK):
        plain = [_detail(row) for row in rows[start : start + _BLOCK]]
        data = json.dumps(plain, ensure_ascii=False, default=str).encode("utf-8", "replace")
        yield base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _detail(row: ResultRow) -> dict[str, Any]:
    sample = row.sample
    facts = {
        "id": sample.sample_id,
        "trace": sample.trace_id,
        "chosen": row.reason and f"{row.reason}, probability {row.probability}",
        "seconds": sample.latency and round(sample.latency, 3),
        "cut": ", ".join(sample.truncated),
        "tags": ", ".join(sample.tags),
        **sample.metadata,
    }
    outcomes = {name: outcome_to_dict(one) for name, one in row.outcomes.items()}
    for name, plain in outcomes.items():
        if (score := row.score(name)) and (word := band_of(name, score.normalised)):
            plain["word"] = word
    return {
        "question": sample.question,
        "answer": sample.answer,
        "reference": sample.reference,
        "contexts": sample.to_dict().get("contexts"),
        "facts": {key: value for key, value in facts.items() if value not in (None, "", ())},
        "outcomes": outcomes,
    }


def _in_script(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = encodable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _spark(periods: Sequence[ReportPeriod], metric: str) -> Markup:
    """Return the line of a metric over time with its interval, drawn from worst to best."""
    known = [
        (number, one.normalised)
        for number, period in enumerate(periods)
        if (one := period.group.metrics.get(metric)) is not None and one.normalised is not None
    ]
    if len(known) < 2:
        return Markup("")

    def point(number: int, value: float) -> str:
        return f"{130 * number / max(1, len(periods) - 1):.1f},{30 * (1 - value):.1f}"

    line = " ".join(point(number, one.mean) for number, one in known)
    ends = [(n, e.low, e.high) for n, e in known if e.low is not None and e.high is not None]
    band = [point(n, high) for n, _, high in ends] + [point(n, low) for n, low, _ in ends[::-1]]
    means = known[0][1].mean, known[-1][1].mean
    words = f"from {means[0]:.2f} to {means[1]:.2f} of 1 in {len(known)} periods"
    return Markup(
        '<svg class="spark" viewBox="0 0 130 30" preserveAspectRatio="none" role="img"'
        ' aria-label="{}"><polygon points="{}"/><polyline points="{}"/></svg>'
    ).format(words, " ".join(band), line)
