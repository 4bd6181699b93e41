"""Evaluates one sample: plan, findings, metrics. The same online, inline and offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_eval_hooks._version import __version__
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.base import Embedder, Judge
from rag_eval_hooks.metrics import ALL_METRICS, Metric
from rag_eval_hooks.pipeline.inquiry import Inquiry
from rag_eval_hooks.pipeline.plan import findings_for, unfed
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Outcomes, Score, Unavailable

__all__ = ["Scorer"]


class Scorer:
    """Turns a sample into outcomes.

    Args:
        metrics: The chosen metrics, or None for all that a sample can feed.
        judge: Makes the findings.
        embedder: Embeds texts, where there is one.
        sample_timeout: Seconds for all findings of one sample.
        incidents: Where exceptions of metrics and judges are counted.
    """

    def __init__(
        self,
        metrics: Sequence[Metric] | None,
        judge: Judge,
        embedder: Embedder | None,
        sample_timeout: float,
        incidents: Incidents,
    ) -> None:
        self._chosen = metrics
        self._judge = judge
        self._embedder = embedder
        self._sample_timeout = sample_timeout
        self._incidents = incidents

    async def score(self, sample: Sample) -> Outcomes:
        """One outcome per chosen metric. Raises nothing but cancellation."""
        metrics = ALL_METRICS if self._chosen is None else self._chosen
        lacking = unfed(metrics, sample)
        fed = [metric for metric in metrics if metric.id not in lacking]
        findings = await self._find(sample, findings_for(fed))
        outcomes = {metric.id: self._measure(metric, sample, findings) for metric in fed}
        if self._chosen is None:
            return outcomes
        return {m.id: lacking[m.id] if m.id in lacking else outcomes[m.id] for m in metrics}

    async def _find(self, sample: Sample, wanted: frozenset[Finding]) -> Findings:
        if not wanted:
            return Findings()
        inquiry = Inquiry(sample, wanted, self._judge, self._embedder, self._incidents)
        return await inquiry.run(self._sample_timeout)

    def _measure(self, metric: Metric, sample: Sample, findings: Findings) -> Outcome:
        try:
            outcome = metric.score(sample, findings)
        except Unavailable as absent:
            return absent.outcome
        except Exception as error:  # noqa: BLE001 - the metric's edge
            self._incidents.report(f"metric {metric.id}", error)
            detail = f"the metric raised {type(error).__name__}"
            return NotScored(Cause.METRIC_FAILED, detail)
        return self._signed(outcome, metric) if isinstance(outcome, Score) else outcome

    def _signed(self, score: Score, metric: Metric) -> Score:
        if not metric.findings:
            return replace(score, version=__version__)
        return replace(
            score,
            annotator_kind=self._judge.annotator_kind,
            annotator=self._judge.name,
            version=f"{__version__}+{self._judge.version}",
        )
