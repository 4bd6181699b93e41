"""Runs one metric as an evaluator does, on findings that are given."""

from __future__ import annotations

from typing import Any

from rag_eval_hooks import NotScored, Outcome, Sample, Score
from rag_eval_hooks.findings import Finding, Findings, Support
from rag_eval_hooks.metrics import ALL_METRICS, Metric
from rag_eval_hooks.prompts.specs import with_bases
from rag_eval_hooks.score import Cause, Unavailable

BY_ID = {metric.id: metric for metric in ALL_METRICS}


def asked(metric: Metric, sample: Sample, findings: Findings) -> frozenset[Finding]:
    return with_bases(metric.findings_for(sample, findings))


def measure(metric: Metric | str, sample: Sample, findings: Findings | None = None) -> Outcome:
    metric = BY_ID[metric] if isinstance(metric, str) else metric
    lacking = metric.missing(sample)
    if lacking:
        return NotScored(Cause.MISSING_INPUT, "the sample has no " + ", ".join(lacking))
    given = findings or Findings()
    names = [kind.value for kind in asked(metric, sample, given) if given.asked(kind)]
    seen: dict[str, Any] = {name: getattr(given, name) for name in names}
    try:
        return metric.score(sample, Findings(**seen))
    except Unavailable as absent:
        return absent.outcome


def value(outcome: Outcome) -> float:
    assert isinstance(outcome, Score), outcome
    return outcome.value


def support(*rows: str) -> tuple[Support, ...]:
    return tuple(Support(tuple(mark == "x" for mark in row)) for row in rows)
