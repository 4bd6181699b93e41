"""Plan of an evaluation: the inputs that metrics lack and the findings that they read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rag_eval_hooks.findings import BUILDS_ON, Finding, Findings
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import Field, Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Unavailable

__all__ = ["EvaluationPlan", "closed", "missing_inputs"]

_NONE: Final[frozenset[Finding]] = frozenset()


def missing_inputs(metrics: Iterable[Metric], sample: Sample) -> dict[str, NotScored]:
    """Return the metrics that lack a field of the sample, by id, with the reason."""
    lacking = Field.lacking(sample)
    return {
        metric.id: NotScored(
            Cause.MISSING_INPUT, "the sample has no " + ", ".join(sorted(metric.needs & lacking))
        )
        for metric in metrics
        if not metric.needs.isdisjoint(lacking)
    }


def closed(kinds: Iterable[Finding]) -> frozenset[Finding]:
    """Return the findings with those that they build on."""
    wanted = frozenset(kinds)
    return wanted | {BUILDS_ON[kind] for kind in wanted if kind in BUILDS_ON}


class EvaluationPlan:
    """Findings that each metric reads, computed once where every sample needs the same."""

    def __init__(self, metrics: Iterable[Metric], incidents: Incidents) -> None:
        self._incidents = incidents
        self._fixed = {
            metric.id: closed(metric.findings)
            for metric in metrics
            if metric.given is None and metric.then is None
        }

    def needs_findings(self, metrics: Iterable[Metric], sample: Sample) -> bool:
        """Return whether any of the metrics may read a finding of this sample."""
        return any(metric.then is not None or self.reads(metric, sample) for metric in metrics)

    def first(self, metrics: Iterable[Metric], sample: Sample) -> frozenset[Finding]:
        """Return the findings that the metrics read whatever answer and reference say."""
        return _NONE.union(*(self.reads(metric, sample) for metric in metrics))

    def all(
        self, metrics: Sequence[Metric], sample: Sample, findings: Findings
    ) -> frozenset[Finding]:
        """Return the findings that the metrics read once answer and reference are decomposed."""
        return _NONE.union(*(self.reads(metric, sample, findings) for metric in metrics))

    def reads(
        self, metric: Metric, sample: Sample, findings: Findings | None = None
    ) -> frozenset[Finding]:
        """Return the findings that a metric reads of this sample.

        Args:
            metric: The metric.
            sample: The sample.
            findings: Claims and the like, on which further findings may depend; None before
                answer and reference are decomposed.
        """
        fixed = self._fixed.get(metric.id)
        if fixed is not None:
            return fixed
        try:
            kinds = metric.reads(sample)
        except Exception as error:  # noqa: BLE001 - the metric's edge
            self._incidents.report(f"metric {metric.id}", error)
            kinds = metric.findings
        if findings is None or metric.then is None:
            return closed(kinds)
        return closed(kinds | self._then(metric, sample, findings))

    def _then(self, metric: Metric, sample: Sample, findings: Findings) -> frozenset[Finding]:
        assert metric.then is not None
        try:
            return metric.then(sample, findings)
        except Unavailable:
            # The finding that decides is absent, and so will be those that it decides about.
            return _NONE
        except Exception as error:  # noqa: BLE001 - the metric's edge
            self._incidents.report(f"metric {metric.id}", error)
            return _NONE
