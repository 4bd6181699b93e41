"""Renders reports and comparisons as Markdown, terminal text or one HTML file."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

from rag_eval_hooks.errors import missing_extra

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown, TableElement
    from rich.table import Table
except ImportError as missing:
    raise missing_extra("A report", "report") from missing

from rag_eval_hooks._version import __version__
from rag_eval_hooks.explanation import encodable, prose
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.compare import Comparison
from rag_eval_hooks.results.diagnose import CUTS, badness, faithfulness_of
from rag_eval_hooks.results.estimate import Estimate
from rag_eval_hooks.results.report import ResultReport
from rag_eval_hooks.results.summary import band_of

_NARROWEST, _PIPED = 100, 140  # columns: fewest of a terminal, and of other outputs
_MOST_IN_LINE: Final = 200
_MOST_EXPLAINED: Final = 1200
_FIGURE: Final = re.compile(r"[-+]?[\d.,]+( %)?")
_BLOCK: Final = 25  # samples per block; the page unpacks a block when a reader opens a sample


class _Unshortened(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                for column in part.columns:
                    column.overflow = "fold"
                part.columns[0].no_wrap = True
            yield part


class _Page(Markdown):
    elements: ClassVar = {**Markdown.elements, "table_open": _Unshortened}


def as_text(markdown: str) -> str:
    file, columns = io.StringIO(), shutil.get_terminal_size((_PIPED, 0)).columns
    console = Console(file=file, width=max(columns, _NARROWEST), color_system=None)
    console.print(_Page(markdown, hyperlinks=False))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def as_markdown(
    report: ResultReport, *, worst: int = 5, tables: bool = True, groups: bool = True
) -> str:
    values = {"with_tables": tables, "with_groups": groups, "worst": report.worst[:worst]}
    return _rendered("report.md.j2", report=report, **values)


def comparison_as_markdown(comparison: Comparison, failures: Sequence[str] = ()) -> str:
    return _rendered("compare.md.j2", comparison=comparison, failures=failures)


def as_html(report: ResultReport) -> str:
    ranked = {id(row) for row in report.worst}
    rows = [*report.worst, *(row for row in report.whole.rows if id(row) not in ranked)]
    position = {id(row): number for number, row in enumerate(rows)}
    rules = [[position[id(row)] for row in each.rows] for each in report.diagnoses]
    values = {"rows": rows, "rules": rules, "size": _BLOCK, "blocks": _blocks(rows)}
    page = _rendered("report.html.j2", report=report, **values)
    return encodable(page)


def _blocks(rows: Sequence[Evaluation]) -> Iterator[str]:
    for start in range(0, len(rows), _BLOCK):
        details = list(map(_detail, rows[start : start + _BLOCK]))
        data = json.dumps(details, ensure_ascii=False).encode("utf-8", "replace")
        yield base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _detail(row: Evaluation) -> str:
    lists = [value for one in row.outcomes.values() for value in one.explanation.values()]
    quotes = {str(item.get("quote") or "") for each in filter(_are_items, lists) for item in each}
    return _rendered("detail.html.j2", row=row, quotes=quotes - {""})


def _rendered(template: str, **values: Any) -> str:
    return _environment(template.endswith(".html.j2")).get_template(template).render(values)


@cache
def _environment(is_html: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("rag_eval_hooks.results"),
        undefined=StrictUndefined,
        autoescape=is_html,
        trim_blocks=not is_html,
        lstrip_blocks=not is_html,
    )
    environment.filters |= {
        "badness": badness,
        "faithful": faithfulness_of,
        "interval": _interval,
        "marked": _marked,
        "md": _escaped,
        "number": _number,
        "plain": _plain,
        "prose": lambda one: prose(one, _MOST_EXPLAINED, content=True) or "",
        "rating": band_of,
        "share": _share,
    }
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.tests["figure"] = lambda cell: _FIGURE.fullmatch(str(cell)) is not None
    environment.tests["items"] = _are_items
    environment.globals |= {"cuts": CUTS, "version": __version__}
    return environment


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{round(value, 3):g}"


def _share(share: Estimate | None) -> str:
    if share is None:
        return "-"
    ends = "" if share.low is None else f" ({_interval(share.scaled(100, 0))})"
    return f"{_number(round(100 * share.mean, 1))} %{ends}"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "-"
    return f"{_number(estimate.low)} to {_number(estimate.high)}"


def _escaped(value: object) -> str:
    line = " ".join(str(value).split())
    shown = "".join(char if char.isprintable() else "?" for char in line)
    if len(shown) > _MOST_IN_LINE:
        shown = shown[: _MOST_IN_LINE - 3].rstrip() + "..."
    return "".join(f"\\{char}" if char in "\\|<>*_`[]&~#" else char for char in shown)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _are_items(value: object) -> bool:
    is_list = isinstance(value, list | tuple) and bool(value)
    return is_list and all(isinstance(one, Mapping) for one in value)  # type: ignore[attr-defined]


def _marked(text: str, quotes: Iterable[str]) -> Markup:
    shown, end = Markup(), 0
    for start, quote in sorted((text.find(quote), quote) for quote in quotes):
        if start >= end:
            shown += text[end:start] + Markup("<mark>{}</mark>").format(quote)
            end = start + len(quote)
    return shown + text[end:]
