"""Delivers a sample's scores once more, as a recovered or repeated evaluation would."""

from __future__ import annotations

from dataclasses import replace

from rag_eval_hooks.delivery.outbox import Limits
from rag_eval_hooks.delivery.platforms.platform_sink import PlatformHost, PlatformSink
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.score import Score
from tests.viewers.demo import Scored

__all__ = ["HOST", "redeliver"]

HOST = PlatformHost(
    limits=Limits(timeout=10.0, retry_for=30.0, queue_chars=1_000_000),
    content=True,
    max_chars=4000,
    verdicts=lambda _: {},
)


def redeliver(sink: PlatformSink, scored: Scored, *, value: float | None = None) -> None:
    """Delivers and waits; `value` replaces the faithfulness."""
    sample, outcomes = scored.again()
    if value is not None:
        changed = outcomes["ragas.faithfulness"]
        assert isinstance(changed, Score)
        outcomes = {**outcomes, "ragas.faithfulness": replace(changed, value=value)}
    incidents = Incidents()
    sink.open(HOST, incidents)
    sink.deliver(sample, outcomes)
    assert sink.flush(30)
    books = sink.books()
    sink.close()
    assert (books["sent"], books["lost"], dict(incidents.counts())) == (1, 0, {})
