"""`rag-eval-hooks report` and `worst`: results as a page, in a terminal or a pull request."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.arguments import at_least
from rag_eval_hooks.results import (
    Cuts,
    ResultRow,
    Results,
    labelled_means,
    read,
    read_labels,
    select,
    worst,
)
from rag_eval_hooks.results.labels import Labels
from rag_eval_hooks.results.ranking import time_of

__all__ = ["add_results", "moment", "register", "results_of", "write_text"]

_SUFFIXES: Final = {".html": "html", ".htm": "html", ".md": "md", ".json": "json", ".txt": "text"}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommands."""
    parser = subparsers.add_parser(
        "report",
        help="what results say: a page, a terminal, a pull request",
        description="Shows results as a page, in a terminal or in a pull request.",
    )
    add_results(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: the terminal")
    parser.add_argument(
        "--format",
        choices=("html", "md", "json", "text"),
        help="default: by the name of the output, else text",
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="ID",
        help="metrics or suites of the report (repeatable; default: all)",
    )
    parser.add_argument(
        "--by", action="append", default=[], metavar="KEY", help="group by a key (repeatable)"
    )
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="labels of people or results of a better judge, for a random part of the samples",
    )
    parser.add_argument(
        "--cut",
        action="append",
        default=[],
        type=_cut,
        metavar="METRIC=LOW:HIGH",
        help="below and from which, of 0 to 1, a metric is low and high (default: 0.5:0.8)",
    )
    parser.add_argument("--title", default="RAG evaluation")
    parser.set_defaults(run=_report)
    parser = subparsers.add_parser(
        "worst",
        help="the worst answers, with what is wrong with them",
        description="Shows the samples that score worst, with claims and reasons.",
    )
    add_results(parser)
    parser.add_argument("--metric", metavar="ID", help="rank by this metric (default: by all)")
    parser.add_argument(
        "-n", type=at_least(1), default=20, metavar="N", help="how many (default: 20)"
    )
    parser.set_defaults(run=_worst)


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which results are read."""
    parser.add_argument(
        "results",
        nargs="+",
        metavar="RESULTS",
        help="files of results (JSON lines, gzip, Parquet), spools or folders",
    )
    parser.add_argument(
        "--since", type=moment, metavar="TIME", help="24h, 7d, today, or a date: later ones only"
    )
    parser.add_argument("--until", type=moment, metavar="TIME", help="earlier ones only")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        type=_condition,
        metavar="KEY=VALUE",
        help="key of the metadata, tag, workflow, version, reason, day (repeatable: all are met)",
    )


def moment(text: str) -> datetime:
    """Return the time that an argument names."""
    try:
        return time_of(text)
    except ValueError:
        wants = "24h, 90m, 7d, today, or a date such as 2026-03-01"
        raise argparse.ArgumentTypeError(f"got {text!r}; wants {wants}") from None


def _condition(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise argparse.ArgumentTypeError(f"got {text!r}; wants KEY=VALUE, such as tag=beta")
    return key, value


def _cut(text: str) -> tuple[str, Cuts]:
    metric, _, values = text.partition("=")
    try:
        low, high = (float(value) for value in values.split(":"))
        if not 0.0 <= low <= high <= 1.0:
            raise ValueError
    except ValueError:
        wants = "METRIC=LOW:HIGH of 0 to 1, such as ragas.faithfulness=0.6:0.9"
        raise argparse.ArgumentTypeError(f"got {text!r}; wants {wants}") from None
    return metric, Cuts(high=high, low=low)


def _selected(
    results: Results, arguments: argparse.Namespace, metrics: Iterable[str] = ()
) -> list[ResultRow]:
    return list(
        select(
            results,
            since=arguments.since,
            until=arguments.until,
            where=arguments.where,
            metrics=metrics,
        )
    )


def results_of(paths: Iterable[str]) -> Results:
    """Return the results at some paths.

    Raises:
        UsageError: Nothing is at a path.
    """
    try:
        return read(list(paths))
    except FileNotFoundError as error:
        raise UsageError(str(error)) from None


def write_text(text: str, path: Path | None) -> None:
    """Write to a file, or to the terminal.

    Raises:
        UsageError: The file cannot be written.
    """
    if path is None:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        return
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def _report(arguments: argparse.Namespace) -> int:
    output: Path | None = arguments.output
    kind = arguments.format or _SUFFIXES.get("" if output is None else output.suffix, "text")
    results = results_of(arguments.results)
    known = _selected(results, arguments, arguments.metric)
    if not known:
        raise UsageError(_nothing(results, arguments, arguments.metric))
    names = {name for row in known for name in row.outcomes}
    if unknown := {metric for metric, _ in arguments.cut} - names:
        raise UsageError(f"--cut: got {min(unknown)!r}; scored are: {', '.join(sorted(names))}")
    write_text(_rendered(known, results, kind, arguments), output)
    if output is not None:
        print(f"{output}: {len(known)} samples, {output.stat().st_size / 1e6:.1f} MB")
    return 0


def _rendered(
    rows: list[ResultRow], results: Results, kind: str, arguments: argparse.Namespace
) -> str:
    try:
        from rag_eval_hooks.results.report import as_json, make_report
        from rag_eval_hooks.results.tables import as_markdown, as_text

        report = make_report(
            rows,
            by=arguments.by,
            title=arguments.title,
            cuts=dict(arguments.cut),
            labels=_labels(arguments.labels, rows),
            skipped=results.skipped,
        )
        if kind == "html":
            from rag_eval_hooks.results.html import as_html

            return as_html(report)
        if kind == "json":
            return json.dumps(as_json(report), ensure_ascii=False, indent=2) + "\n"
        return as_markdown(report) if kind == "md" else as_text(report)
    except ModuleNotFoundError as error:
        wants = 'pip install "rag-eval-hooks[report]"'
        raise UsageError(f"the report needs {error.name}: {wants}") from None


def _labels(path: Path | None, rows: list[ResultRow]) -> Labels | None:
    if path is None:
        return None
    try:
        labels = read_labels(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    if not labelled_means(rows, labels):
        raise UsageError(f"{path}: no metric has labels of two scored samples; {len(labels)} read")
    return labels


def _worst(arguments: argparse.Namespace) -> int:
    from rag_eval_hooks.results.tables import sample_lines

    results = results_of(arguments.results)
    known = _selected(results, arguments)
    ranked = worst(known, arguments.metric)
    if not ranked:
        raise UsageError(
            _nothing(results, arguments, [arguments.metric] if arguments.metric else [])
        )
    for row in ranked[: arguments.n]:
        print("\n".join(sample_lines(row)), end="\n\n")
    print(f"{min(arguments.n, len(ranked))} of {len(ranked)} scored samples, {len(known)} in all")
    return 0


def _nothing(results: Results, arguments: argparse.Namespace, metrics: Sequence[str]) -> str:
    """Return why there is nothing to show."""
    scored = sorted({name for row in _selected(results, arguments) for name in row.outcomes})
    if scored and metrics:
        return f"--metric: got {', '.join(metrics)!r}; scored are: {', '.join(scored)}"
    number = sum(1 for _ in results)
    skipped = ", ".join(f"{count} {reason}" for reason, count in results.skipped.items())
    return f"no result with a score, of {number} read; lines skipped: {skipped or 'none'}"
