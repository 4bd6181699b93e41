"""`rag-eval-hooks report` and `compare`: show results as HTML, terminal text or Markdown."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rag_eval_hooks.cli.arguments import UNSCORED, UsageError
from rag_eval_hooks.delivery.jsonl import open_private
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.results.compare import compare
from rag_eval_hooks.results.diagnose import select
from rag_eval_hooks.results.estimate import LEAST_LABELS
from rag_eval_hooks.results.gates import failed_conditions, regressed
from rag_eval_hooks.results.read import Results, read, read_labels
from rag_eval_hooks.results.report import ResultReport, as_json, comparison_as_json
from rag_eval_hooks.results.summary import check_key

_SUFFIXES: Final = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}


def report_results(arguments: argparse.Namespace) -> int:
    output: Path | None = arguments.output
    _keep_inputs(output, arguments.results)
    report = _report(arguments)
    _write(_rendered(report, arguments), output)
    if output is not None:
        print(f"{output}: {report.whole.samples} samples")
    return 0


def _keep_inputs(output: Path | None, inputs: Sequence[str]) -> None:
    if output is not None and any(output.resolve() == Path(one).resolve() for one in inputs):
        raise UsageError(f"--output {output} would replace the results. Name another file.")


def _report(arguments: argparse.Namespace) -> ResultReport:
    results, chosen = _rows_of(arguments.results), arguments.metric
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
    labels = None if arguments.labels is None else read_labels(arguments.labels)
    report = ResultReport(rows, by=arguments.by, labels=labels, skipped=results.skipped)
    if labels is not None and not report.labelled:
        raise UsageError(
            f"{arguments.labels} has {len(labels)} labels, but no metric has labels for at least "
            f"{LEAST_LABELS} scored samples. Label more samples."
        )
    return report


def _rendered(report: ResultReport, arguments: argparse.Namespace) -> str:
    from rag_eval_hooks.results.render import as_html, as_markdown, as_text

    output, worst = arguments.output or Path(), arguments.worst
    kind = arguments.format or _SUFFIXES.get(output.suffix, "text")
    if kind == "html":
        return as_html(report)
    if kind == "json":
        return json.dumps(as_json(report), ensure_ascii=False, indent=2)
    markdown = as_markdown(
        report, worst=worst or 5, tables=worst is None, groups=bool(arguments.by)
    )
    return markdown if kind == "md" else as_text(markdown)


def compare_runs(arguments: argparse.Namespace) -> int:
    from rag_eval_hooks.results.render import as_text, comparison_as_markdown

    _keep_inputs(arguments.output, (arguments.base, arguments.new))
    comparison = compare(
        *(_rows_of([path]) for path in (arguments.base, arguments.new)),
        by=arguments.by,
        allow_different_judges=arguments.allow_different_judges,
    )
    if not comparison.pairs:
        told = f"note: {arguments.base} and {arguments.new} have no question in common"
        print(f"{told}, so their means are not comparable", file=sys.stderr)
    points, conditions = arguments.fail_on_point, arguments.fail_on
    failures = failed_conditions(conditions, comparison.new, by_point=points)
    if arguments.fail_on_regression is not None:
        for one in regressed(comparison, arguments.fail_on_regression):
            name = one.metric if one.group is None else f"{one.metric} of {one.group}"
            failures.append(f"{name} fell by {-one.gain:.3f} on a scale from 0 to 1")
    shown = comparison_as_markdown(comparison, failures)
    if arguments.format == "json":
        shown = json.dumps(comparison_as_json(comparison, failures), ensure_ascii=False, indent=2)
    elif arguments.format == "text":
        shown = as_text(shown)
    _write(shown, arguments.output)
    if failures:
        return 1
    return UNSCORED if comparison.unscored else 0


def _rows_of(paths: Sequence[str]) -> Results:
    results = read(*paths)
    if any(row.outcomes for row in results):
        return results
    skipped = ", ".join(f"{count} {reason}" for reason, count in results.skipped.items())
    raise UsageError(
        f"{', '.join(paths)}: found no outcome of a metric (skipped lines: {skipped or 0}). "
        "To write results of a data set, run: rag-eval-hooks evaluate DATA -o RESULTS"
    )


def _write(text: str, path: Path | None) -> None:
    if path is None:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    else:
        with open(path, "w", encoding="utf-8", errors="replace", opener=open_private) as file:
            file.write(text)
