"""Asks the metrics that are async functions, all at once, each within its time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import AskedMetric, Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Score

__all__ = ["ask_all"]


async def ask_all(
    metrics: Iterable[Metric], sample: Sample, incidents: Incidents
) -> Mapping[str, Outcome]:
    """The outcomes of those that are asked, by id. Raises nothing but cancellation."""
    asked = [metric for metric in metrics if isinstance(metric, AskedMetric)]
    outcomes = await asyncio.gather(*(_ask(metric, sample, incidents) for metric in asked))
    return {metric.id: outcome for metric, outcome in zip(asked, outcomes, strict=True)}


async def _ask(metric: AskedMetric, sample: Sample, incidents: Incidents) -> Outcome:
    limit = asyncio.timeout(metric.timeout)
    try:
        async with limit:
            outcome = await metric.ask(sample)
        if not isinstance(outcome, Score | NotScored):
            raise TypeError("a metric gives a Score or NotScored")
    except Exception as error:  # noqa: BLE001 - the metric's edge
        if limit.expired():
            return NotScored(Cause.TIMEOUT, f"no outcome within {metric.timeout:g} s")
        incidents.report(f"metric {metric.id}", error)
        return NotScored(Cause.METRIC_FAILED, f"the metric raised {type(error).__name__}")
    if isinstance(outcome, Score) and outcome.annotator is None:
        return replace(outcome, annotator=metric.annotator)
    return outcome
