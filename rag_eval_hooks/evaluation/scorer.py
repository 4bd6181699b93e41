"""Evaluates one sample: plan, findings, metrics. The same online, inline and offline."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from rag_eval_hooks._version import __version__
from rag_eval_hooks.evaluation.async_metrics import ask_all
from rag_eval_hooks.evaluation.collect_findings import Inquiry, Sources
from rag_eval_hooks.evaluation.plan import read_by, unfed
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import (
    AnnotatorKind,
    Cause,
    NotScored,
    Outcome,
    Outcomes,
    Score,
    Unavailable,
)
from rag_eval_hooks.tasks import EMBEDDED, TOKEN_SCORED
from rag_eval_hooks.usage import Usage

__all__ = ["Scorer"]

Reads = Mapping[str, frozenset[Finding]]
"""What each metric reads of one sample."""


class Scorer:
    """Turns a sample into outcomes.

    Args:
        metrics: The metrics.
        sources: Who makes the findings.
        sample_timeout: Seconds for all findings of one sample.
        incidents: Where exceptions of metrics and judges are counted.
        only_fed: Whether metrics that the sample or the judge cannot feed are left out.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        sources: Sources,
        sample_timeout: float,
        incidents: Incidents,
        *,
        only_fed: bool,
    ) -> None:
        self._metrics = metrics
        self._sources = sources
        self._sample_timeout = sample_timeout
        self._incidents = incidents
        self._only_fed = only_fed

    async def score(self, sample: Sample, chosen: Container[str] | None = None) -> Outcomes:
        """One outcome per metric. Raises nothing but cancellation.

        Args:
            sample: What to evaluate.
            chosen: Ids of the metrics to evaluate, or None for all; the others are
                `sampled_out`.
        """
        lacking = unfed(self._metrics, sample)
        unchosen = left_out(
            m.id for m in self._metrics if chosen is not None and m.id not in chosen
        )
        absent = {**unchosen, **lacking}
        fed = [metric for metric in self._metrics if metric.id not in absent]
        inquiry = Inquiry(sample, fed, self._sources, self._incidents)
        findings, asked = await asyncio.gather(
            inquiry.run(self._sample_timeout), ask_all(fed, sample, self._incidents)
        )
        reads = {m.id: read_by(m, sample, findings, self._incidents) for m in fed}
        readers = Counter(kind for kinds in reads.values() for kind in kinds)
        outcomes: dict[str, Outcome] = {}
        for metric in self._metrics:
            if metric.id in absent:
                outcomes[metric.id] = absent[metric.id]
            elif metric.id in asked:
                outcomes[metric.id] = asked[metric.id]
            else:
                outcome = self._measure(metric, sample, findings)
                used = _usage(reads[metric.id], findings, readers)
                outcomes[metric.id] = self._signed(outcome, reads[metric.id], used)
        return _fed(outcomes) if self._only_fed else outcomes

    def _measure(self, metric: Metric, sample: Sample, findings: Findings) -> Outcome:
        try:
            outcome = metric.score(sample, findings)
            if not isinstance(outcome, Score | NotScored):
                raise TypeError("a metric gives a Score or NotScored")
            return outcome
        except Unavailable as absent:
            return absent.outcome
        except Exception as error:  # noqa: BLE001 - the metric's edge
            self._incidents.report(f"metric {metric.id}", error)
            detail = f"the metric raised {type(error).__name__}"
            return NotScored(Cause.METRIC_FAILED, detail)

    def _signed(self, outcome: Outcome, read: frozenset[Finding], used: Usage) -> Outcome:
        """The outcome with who judged it, by what version, at what cost."""
        if isinstance(outcome, NotScored):
            return replace(outcome, usage=used)
        judge = self._sources.judge
        if read - EMBEDDED - TOKEN_SCORED:
            return replace(
                outcome,
                annotator_kind=judge.annotator_kind,
                annotator=judge.name,
                version=f"{__version__}+{judge.version}",
                usage=used,
            )
        made_by = self._sources.embedder if read & EMBEDDED else self._sources.scorer
        name = made_by.name if read and made_by is not None else None
        return replace(
            outcome,
            annotator_kind=AnnotatorKind.CODE,
            annotator=name,
            version=__version__,
            usage=used,
        )


def _usage(read: frozenset[Finding], findings: Findings, readers: Mapping[Finding, int]) -> Usage:
    """A metric's part: of each finding that it reads, one share of as many as read it."""
    parts = [findings.usage[kind].share(readers[kind]) for kind in read if kind in findings.usage]
    return sum(parts, start=Usage())


def left_out(ids: Iterable[str]) -> dict[str, NotScored]:
    """The outcomes of metrics that a sample's decision does not choose."""
    return dict.fromkeys(ids, NotScored(Cause.SAMPLED_OUT, "the metric's rate left it out"))


def _fed(outcomes: Mapping[str, Outcome]) -> Outcomes:
    return {
        name: outcome
        for name, outcome in outcomes.items()
        if isinstance(outcome, Score) or outcome.cause is not Cause.MISSING_INPUT
    }
