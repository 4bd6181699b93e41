"""`rag-eval-hooks metrics`: lists the metrics, or explains one with a worked example."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Finding
from rag_eval_hooks.metrics import Metric, build
from rag_eval_hooks.metrics.example import example
from rag_eval_hooks.metrics.options import MetricOptions
from rag_eval_hooks.metrics.question_checks import parse_checks
from rag_eval_hooks.prompts import SPECS, Unit, with_bases
from rag_eval_hooks.score import NotScored, Score

__all__ = ["example_texts", "listed", "register", "worked"]

_HEADER: Final = ("metric", "scale", "better", "needs", "judge calls", "source")
_WIDTH: Final = 96


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    text = "Lists the metrics, or explains one with a worked example."
    parser = subparsers.add_parser("metrics", help="list the metrics", description=text)
    parser.add_argument("metric", nargs="?", help="a metric id or a suite; all by default")
    parser.add_argument(
        "--question-checks", metavar="FILE", type=Path, help="TOML file with question checks"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    path: Path | None = arguments.question_checks
    try:
        checks = () if path is None else parse_checks(path.read_text("utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error}") from error
    wanted, available = arguments.metric, build(MetricOptions(question_checks=checks))
    chosen = [m for m in available if wanted in (None, m.suite, m.id)]
    if not chosen:
        known = [*dict.fromkeys(m.suite for m in available), *(m.id for m in available)]
        raise ConfigError("metric", wanted, "one of " + ", ".join(known))
    is_one = chosen[0].id == wanted
    lines = _explained(chosen[0]) if is_one else _aligned([_HEADER, *map(listed, chosen)])
    print("\n".join(lines))
    return 0


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def listed(metric: Metric) -> tuple[str, ...]:
    """Return id, scale, better side, needs, judge calls and source of a metric."""
    needs = ", ".join(sorted(metric.needs)) or "its parts'"
    scale = f"{metric.scale.low:g} to {metric.scale.high:g}"
    better = "higher" if metric.scale.higher_is_better else "lower"
    return metric.id, scale, better, needs, str(_calls(metric)), metric.source


def _calls(metric: Metric) -> int:
    """Return the judge calls that the metric alone takes for the example: one for each finding."""
    judged = [SPECS[kind] for kind in _findings(metric) & SPECS.keys()]
    return sum(2 if spec.unit is Unit.TEMPLATE else 1 for spec in judged)


def _findings(metric: Metric) -> frozenset[Finding]:
    return with_bases(metric.findings_for(*example()))


def _explained(metric: Metric) -> Iterator[str]:
    """Yield a description of the metric, and its real value on the example."""
    name, scale, better, needs, calls, source = listed(metric)
    findings = ", ".join(sorted(_findings(metric))) or "none: computed from the texts"
    yield from [name, *textwrap.wrap(metric.summary, _WIDTH), ""]
    yield from _aligned(
        [
            ("scale", f"{scale}, {better} is better"),
            ("needs", needs),
            ("findings", findings),
            ("judge calls", calls),
            ("source", source),
        ]
    )
    yield from ["", "Worked example", *_aligned(list(example_texts())), "", *worked(metric)]


def example_texts() -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the example."""
    sample, _ = example()
    yield "  question", sample.question
    for number, context in enumerate(sample.contexts or (), start=1):
        yield f"  chunk {number}", context.text
    yield "  answer", sample.answer or ""
    yield "  reference", sample.reference or ""


def worked(metric: Metric) -> Iterator[str]:
    """Yield the way from the example's findings to the metric's value."""
    outcome = metric.score(*example())
    if isinstance(outcome, NotScored):
        yield f"  not scored: {outcome.line}"
    else:
        yield from _worked(outcome)


def _worked(score: Score) -> Iterator[str]:
    for name, value in score.explanation.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield f"  {name}"
            for row in value:
                cells = (f"{key}: {_text(each)}" for key, each in row.items() if each != "")
                yield "    " + "; ".join(cells)
            yield from (f"    {count}" for count in _counted(value))
        else:
            yield f"  {name}: {_text(value)}"
    for name, part in score.parts.items() if "parts" not in score.explanation else ():
        yield f"  part {name} = {part:.4g}"
    words = (score.label, "screening" if score.screening else None)
    label = f" ({', '.join(filter(None, words))})" if any(words) else ""
    yield f"  value = {score.value:.4g}{label}; normalized, 1 is best: {score.normalized:.4g}"
    yield from (f"  warning: {warning}" for warning in score.warnings)


def _counted(rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Yield the way from rows to value: verdicts counted, numbers averaged, parts weighed."""
    verdict = next((name for name, value in rows[0].items() if isinstance(value, bool)), None)
    if verdict is not None:
        yield f"{verdict}: {sum(row[verdict] for row in rows)} of {len(rows)}"
    if "similarity" in rows[0]:
        yield f"mean: {_text(sum(row['similarity'] for row in rows) / len(rows))}"
    if "share" in rows[0]:
        yield " + ".join(f"{_text(row['share'])} x {_text(row['value'])}" for row in rows)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    return "none" if value is None else str(value)
