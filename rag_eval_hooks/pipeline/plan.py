"""From chosen metrics to the findings they need, each once."""

from __future__ import annotations

from collections.abc import Iterable

from rag_eval_hooks.findings import BUILDS_ON, Finding
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored

__all__ = ["findings_for", "unfed"]


def unfed(metrics: Iterable[Metric], sample: Sample) -> dict[str, NotScored]:
    """The metrics that lack a field of the sample, with the reason."""
    lacking = {metric.id: metric.missing(sample) for metric in metrics}
    return {
        name: NotScored(Cause.MISSING_INPUT, "the sample has no " + ", ".join(fields))
        for name, fields in lacking.items()
        if fields
    }


def findings_for(metrics: Iterable[Metric]) -> frozenset[Finding]:
    """The union of what the metrics read, with what those findings build upon."""
    wanted = {finding for metric in metrics for finding in metric.findings}
    return frozenset(wanted | {BUILDS_ON[kind] for kind in wanted if kind in BUILDS_ON})
