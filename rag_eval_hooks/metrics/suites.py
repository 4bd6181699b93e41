"""Rows of `suites.toml`: inputs, findings and meaning of each metric of the five suites."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.metrics.metric import Metric
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import Outcome, Scale

SUITES: Final[Mapping[str, Any]] = tomllib.loads(
    files("rag_eval_hooks.metrics").joinpath("suites.toml").read_text("utf-8")
)
"""Tables of the suites by name."""


def metric(
    suite: str,
    name: str,
    score: Callable[[Sample, Findings], Outcome],
    reads: Callable[[Sample, Findings], frozenset[Finding]] | None = None,
    findings: frozenset[Finding] = frozenset(),
) -> Metric:
    """Return a metric of a suite from its functions and its row."""
    table = SUITES[suite]
    row = table["metrics"][name]
    low, high = table["scale"]
    return Metric(
        id=f"{suite}.{name}",
        score=score,
        needs=frozenset(map(Field, row["needs"])),
        findings=findings | frozenset(map(Finding, row.get("findings", ()))),
        reads=reads,
        scale=Scale(low, high, higher_is_better=not row.get("lower_is_better")),
        summary=row["summary"],
        source=f"{table['source']}, {row['where']}",
    )
