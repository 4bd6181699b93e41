"""Metrics that are an async function of the sample: an evaluator of the user's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics.metric import Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome

__all__ = ["AskedMetric"]


def _never_asked(_sample: Sample, _findings: Findings) -> Outcome:
    return NotScored(Cause.METRIC_FAILED, "it was never asked")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedMetric(Metric):
    """A metric that makes its outcome by an async function. Give it to `RagEval(metrics=[...])`.

    Attributes:
        ask: Called in the evaluator's loop with a sample that has all of `needs`. It must not
            block the loop. What it raises is counted, and the outcome is `metric_failed`.
        timeout: Seconds that it may take; longer, the outcome is `timeout`.
        annotator: Who judges, on the score.
    """

    ask: Callable[[Sample], Awaitable[Outcome]]
    score: Callable[[Sample, Findings], Outcome] = _never_asked
    timeout: float = 60.0
    annotator: str | None = None
