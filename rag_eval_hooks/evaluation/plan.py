"""From chosen metrics to the findings they need, each once."""

from __future__ import annotations

from collections.abc import Iterable

from rag_eval_hooks.findings import BUILDS_ON, Finding, Findings
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Unavailable

__all__ = ["closed", "first_findings", "read_by", "unfed"]


def unfed(metrics: Iterable[Metric], sample: Sample) -> dict[str, NotScored]:
    """The metrics that lack a field of the sample, with the reason."""
    lacking = {metric.id: metric.missing(sample) for metric in metrics}
    return {
        name: NotScored(Cause.MISSING_INPUT, "the sample has no " + ", ".join(fields))
        for name, fields in lacking.items()
        if fields
    }


def closed(kinds: Iterable[Finding]) -> frozenset[Finding]:
    """The findings with those that they build upon."""
    wanted = frozenset(kinds)
    return wanted | {BUILDS_ON[kind] for kind in wanted if kind in BUILDS_ON}


def first_findings(
    metrics: Iterable[Metric], sample: Sample, incidents: Incidents
) -> frozenset[Finding]:
    """The union of what the metrics read in any case."""
    return closed(kind for metric in metrics for kind in _reads(metric, sample, incidents))


def read_by(
    metric: Metric, sample: Sample, findings: Findings, incidents: Incidents
) -> frozenset[Finding]:
    """All that a metric reads of this sample, once answer and reference are taken apart."""
    more: frozenset[Finding] = frozenset()
    if metric.then is not None:
        try:
            more = metric.then(sample, findings)
        except Unavailable:
            # What it would go by is absent, and so will be what it reads.
            more = frozenset()
        except Exception as error:  # noqa: BLE001 - the metric's edge
            incidents.report(f"metric {metric.id}", error)
    return closed(_reads(metric, sample, incidents) | more)


def _reads(metric: Metric, sample: Sample, incidents: Incidents) -> frozenset[Finding]:
    try:
        return metric.reads(sample)
    except Exception as error:  # noqa: BLE001 - the metric's edge
        incidents.report(f"metric {metric.id}", error)
        return metric.findings
