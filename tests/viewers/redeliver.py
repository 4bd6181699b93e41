"""Delivery of a sample's scores once more, as after a recovered or repeated evaluation."""

from __future__ import annotations

import time
from dataclasses import replace

from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Score
from tests.support.delivery import Dispatched
from tests.viewers.demo import Scored


def redeliver(sink: PlatformSink, scored: Scored, *, value: float | None = None) -> None:
    """Deliver and wait; `value` replaces the faithfulness."""
    sample, outcomes = scored.again()
    if value is not None:
        changed = outcomes["ragas.faithfulness"]
        assert isinstance(changed, Score)
        outcomes = {**outcomes, "ragas.faithfulness": replace(changed, value=value)}
    one = Dispatched(sink, SINK_SECONDS=10.0, capture_content=True)
    now = time.time_ns()
    evaluation = Evaluation(sample=sample, outcomes=outcomes, probability=None, start=now, end=now)
    one.put(evaluation)
    assert one.dispatch.flush(300)
    one.close()
    books = sink.books()
    assert (books["sent"], books["lost"], dict(one.counts())) == (1, 0, {})
