"""`rag-eval-hooks report`: renders results as a page, terminal text or Markdown."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.arguments import (
    add_repeated,
    add_selection,
    at_least,
    cut,
    rows_of,
    write_text,
)
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import (
    Results,
    as_json,
    labelled_means,
    make_report,
    read_labels,
    select,
)
from rag_eval_hooks.results.estimate import LEAST_LABELS
from rag_eval_hooks.results.labels import Labels
from rag_eval_hooks.results.summary import check_key

ABOUT: Final = "Shows results as a page, in a terminal or in a pull request."
_SUFFIXES: Final = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}
_NARROWEST: Final = 100
_PIPED_WIDTH: Final = 140


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_selection(parser)
    add = parser.add_argument
    add("-o", "--output", type=Path, metavar="FILE", help="default: the terminal")
    formats, default = ("html", "md", "json", "text"), "default: from the file name, else text"
    add("--format", choices=formats, help=f"default: {default}")
    add(
        "--worst",
        type=at_least(1),
        metavar="N",
        help="show only the N worst samples, with the reasons",
    )
    add_repeated(parser, "--metric", "ID", "metrics or suites to report; default: all")
    add_repeated(parser, "--by", "KEY", "group by a key")
    labels = "labels of a random part of the samples, from people or a better judge"
    add("--labels", type=Path, metavar="FILE", help=labels)
    cuts = "a metric is low below LOW and high from HIGH, normalized; default: 0.5:0.8"
    add_repeated(parser, "--cut", "METRIC=LOW:HIGH", cuts, cut)
    add("--title", default="RAG evaluation")


def run(arguments: argparse.Namespace) -> int:
    output: Path | None = arguments.output
    kind = arguments.format or _SUFFIXES.get("" if output is None else output.suffix, "text")
    results = rows_of(arguments.results)
    rows = _selected(results, arguments, arguments.metric)
    names = {name for row in rows for name in row.outcomes}
    if not names:
        raise UsageError(_nothing(results, arguments))
    if unknown := {metric for metric, _ in arguments.cut} - names:
        raise ConfigError.unknown("--cut", min(unknown), names)
    write_text(_rendered(rows, results, kind, arguments), output)
    if output is not None:
        print(f"{output}: {len(rows)} samples, {output.stat().st_size / 1e6:.1f} MB")
    return 0


def _selected(
    results: Results, arguments: argparse.Namespace, metrics: Iterable[str] = ()
) -> list[Evaluation]:
    conditions = {"since": arguments.since, "until": arguments.until, "where": arguments.where}
    return list(select(results, metrics=metrics, **conditions))


def _rendered(
    rows: list[Evaluation], results: Results, kind: str, arguments: argparse.Namespace
) -> str:
    from rag_eval_hooks.results.render import as_html, as_markdown

    report = make_report(
        rows,
        by=arguments.by,
        title=arguments.title,
        cuts=dict(arguments.cut),
        labels=_labels(arguments.labels, rows),
        skipped=results.skipped,
    )
    if kind == "html":
        return as_html(report)
    if kind == "json":
        return json.dumps(as_json(report), ensure_ascii=False, indent=2)
    worst, is_whole = arguments.worst or 5, arguments.worst is None
    markdown = as_markdown(report, worst=worst, tables=is_whole, groups=bool(arguments.by))
    return markdown if kind == "md" else terminal_text(markdown)


def terminal_text(markdown: str) -> str:
    from rag_eval_hooks.results.render import as_text

    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPED_WIDTH
    return as_text(markdown, max(columns, _NARROWEST))


def _labels(path: Path | None, rows: list[Evaluation]) -> Labels | None:
    if path is None:
        return None
    labels = read_labels(path)
    if not labelled_means(rows, labels):
        raise UsageError(
            f"{path}: no metric has labels for {LEAST_LABELS} scored samples. "
            f"The file has {len(labels)} labels."
        )
    return labels


def _nothing(results: Results, arguments: argparse.Namespace) -> str:
    scored = {name for row in _selected(results, arguments) for name in row.outcomes}
    if scored:
        raise ConfigError.unknown("--metric", ", ".join(arguments.metric), scored)
    rows = list(results)
    for key in (key for key, _ in arguments.where if key != "tag"):
        check_key(rows, key, "--where")
    return f"None of {len(rows)} results matches --where, --since and --until."
