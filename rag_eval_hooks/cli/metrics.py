"""`rag-eval-hooks metrics`: lists the metrics, or explains one metric with a worked example."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Finding
from rag_eval_hooks.metrics import ALL_METRICS, Metric, example
from rag_eval_hooks.prompts.specs import SPECS, Unit, with_bases
from rag_eval_hooks.score import NotScored

_HEADER: Final = ("metric", "scale", "better", "needs", "judge calls", "source")
_WIDTH: Final = 96


def run(arguments: argparse.Namespace) -> int:
    wanted = arguments.metric
    chosen = [m for m in ALL_METRICS if wanted in (None, m.suite, m.id)]
    if not chosen:
        known = [*dict.fromkeys(m.suite for m in ALL_METRICS), *(m.id for m in ALL_METRICS)]
        raise ConfigError.unknown("metric", wanted, known, listed="`rag-eval-hooks metrics`")
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
    needs = ", ".join(sorted(metric.needs)) or "inputs of the combined metrics"
    scale = f"{metric.scale.low:g} to {metric.scale.high:g}"
    better = "higher" if metric.scale.higher_is_better else "lower"
    judged = [SPECS[kind] for kind in _findings(metric) & SPECS.keys()]
    calls = sum(2 if spec.unit is Unit.TEMPLATE else 1 for spec in judged)
    return metric.id, scale, better, needs, str(calls), metric.source


def _findings(metric: Metric) -> frozenset[Finding]:
    return with_bases(metric.findings_for(*example()))


def _explained(metric: Metric) -> Iterator[str]:
    name, scale, better, needs, calls, source = listed(metric)
    none = "none, because the metric reads only the sample"
    facts = {
        "scale": f"{scale}, {better} is better",
        "needs": needs,
        "findings": ", ".join(sorted(_findings(metric))) or none,
        "judge calls": calls,
        "source": source,
    }
    yield from [name, *textwrap.wrap(metric.summary, _WIDTH), "", *_aligned(list(facts.items()))]
    yield from ["", "Worked example", *_aligned(list(example_texts())), "", *worked(metric)]


def example_texts() -> Iterator[tuple[str, str]]:
    sample, _ = example()
    yield "  question", sample.question
    for number, context in enumerate(sample.contexts or (), start=1):
        yield f"  chunk {number}", context.text
    yield "  answer", sample.answer or ""
    yield "  reference", sample.reference or ""


def worked(metric: Metric) -> Iterator[str]:
    outcome = metric.score(*example())
    if isinstance(outcome, NotScored):
        yield f"  not scored: {outcome.line}"
        return
    for name, value in outcome.explanation.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield f"  {name}"
            for row in value:
                told = {key: each for key, each in row.items() if each not in (None, "")}
                yield "    " + "; ".join(f"{key}: {_text(each)}" for key, each in told.items())
        else:
            yield f"  {name}: {_text(value)}"
    for name, part in outcome.parts.items() if "parts" not in outcome.explanation else ():
        yield f"  part {name} = {part:.4g}"
    words = (outcome.label, "screening" if outcome.screening else None)
    label = f" ({', '.join(filter(None, words))})" if any(words) else ""
    yield f"  value = {outcome.value:.4g}{label}; normalized, 1 is best: {outcome.normalized:.4g}"
    yield from (f"  warning: {warning}" for warning in outcome.warnings)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
