"""Delivery of a sample's scores once more, as after a recovered or repeated evaluation."""

from __future__ import annotations

import time
from dataclasses import replace

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery.delivery import Delivery
from rag_eval_hooks.delivery.destination import Limits
from rag_eval_hooks.delivery.platforms.platform import PlatformSink
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Score
from tests.viewers.demo import Scored

__all__ = ["redeliver"]


def redeliver(sink: PlatformSink, scored: Scored, *, value: float | None = None) -> None:
    """Deliver and wait; `value` replaces the faithfulness."""
    sample, outcomes = scored.again()
    if value is not None:
        changed = outcomes["ragas.faithfulness"]
        assert isinstance(changed, Score)
        outcomes = {**outcomes, "ragas.faithfulness": replace(changed, value=value)}
    incidents = Incidents()
    limits = Limits(timeout=10.0, retry_for=30.0)
    delivery = Delivery([sink], RagEvalConfig(capture_content=True), incidents, limits=limits)
    now = time.time_ns()
    evaluation = Evaluation(sample=sample, outcomes=outcomes, probability=None, start=now, end=now)
    delivery.put(evaluation, delivery.lacking(evaluation))
    assert delivery.flush(300)
    delivery.close()
    books = sink.books()
    assert (books["sent"], books["lost"], dict(incidents.counts())) == (1, 0, {})
