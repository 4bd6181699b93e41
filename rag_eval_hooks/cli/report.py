"""`rag-eval-hooks report`: renders results as a page, terminal text or Markdown."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Final

from rag_eval_hooks.cli.arguments import (
    UsageError,
    add_repeated,
    add_selection,
    cut,
    positive,
    rows_of,
    write_text,
)
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.results import as_json, make_report, read_labels, select
from rag_eval_hooks.results.estimate import LEAST_LABELS
from rag_eval_hooks.results.report import ResultReport
from rag_eval_hooks.results.summary import check_key

ABOUT: Final = "Shows results as a page, in a terminal or in a pull request."
_SUFFIXES: Final = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}
_NARROWEST: Final = 100
_PIPED_WIDTH: Final = 140


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_selection(parser)
    add = parser.add_argument
    add("-o", "--output", type=Path, metavar="FILE", help="default: the terminal")
    default = "default: from the file name, else text"
    add("--format", choices=("html", "md", "json", "text"), help=f"default: {default}")
    worst = "show only the N worst samples, with the reasons"
    add("--worst", type=positive, metavar="N", help=worst)
    add_repeated(parser, "--metric", "ID", "metrics or suites to report; default: all")
    add_repeated(parser, "--by", "KEY", "group by a key")
    labels = "labels of a random part of the samples, from people or a better judge"
    add("--labels", type=Path, metavar="FILE", help=labels)
    cuts = "a metric is low below LOW and high from HIGH, normalized; default: 0.5:0.8"
    add_repeated(parser, "--cut", "METRIC=LOW:HIGH", cuts, cut)
    add("--title", default="RAG evaluation")


def run(arguments: argparse.Namespace) -> int:
    output: Path | None = arguments.output
    report = _report(arguments)
    write_text(_rendered(report, arguments), output)
    if output is not None:
        size = output.stat().st_size / 1e6
        print(f"{output}: {report.whole.samples} samples, {size:.1f} MB")
    return 0


def _report(arguments: argparse.Namespace) -> ResultReport:
    results, chosen = rows_of(arguments.results), arguments.metric
    times = {"since": arguments.since, "until": arguments.until}
    known = list(select(results, where=arguments.where, **times))
    rows = list(select(known, metrics=chosen))
    if not known:
        for key in (key for key, _ in arguments.where if key != "tag"):
            check_key(list(results), key, "--where")
        told = f"None of {len(list(results))} results matches --where, --since and --until."
        raise UsageError(told)
    if not rows:
        names = {name for row in known for name in row.outcomes}
        raise ConfigError.unknown("--metric", ", ".join(chosen), names)
    names = {name for row in rows for name in row.outcomes}
    if unknown := {metric for metric, _ in arguments.cut} - names:
        raise ConfigError.unknown("--cut", min(unknown), names)
    labels = None if arguments.labels is None else read_labels(arguments.labels)
    report = make_report(
        rows,
        by=arguments.by,
        title=arguments.title,
        cuts=dict(arguments.cut),
        labels=labels,
        skipped=results.skipped,
    )
    if labels is not None and not report.labelled:
        raise UsageError(
            f"{arguments.labels}: no metric has labels for {LEAST_LABELS} scored samples. "
            f"The file has {len(labels)} labels."
        )
    return report


def _rendered(report: ResultReport, arguments: argparse.Namespace) -> str:
    from rag_eval_hooks.results.render import as_html, as_markdown

    output, worst = arguments.output or Path(), arguments.worst
    kind = arguments.format or _SUFFIXES.get(output.suffix, "text")
    if kind == "html":
        return as_html(report)
    if kind == "json":
        return json.dumps(as_json(report), ensure_ascii=False, indent=2)
    markdown = as_markdown(
        report, worst=worst or 5, tables=worst is None, groups=bool(arguments.by)
    )
    return markdown if kind == "md" else terminal_text(markdown)


def terminal_text(markdown: str) -> str:
    from rag_eval_hooks.results.render import as_text

    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPED_WIDTH
    return as_text(markdown, max(columns, _NARROWEST))
