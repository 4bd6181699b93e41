"""Results that come back, limits that all workers share, and the order of batches."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from rag_eval_hooks import MemorySink, RagEval, RagEvalConfig, Sample, semconv
from tests.servers.brokers import REDIS, RedisServer
from tests.support.evaluation import record_request, total
from tests.support.fleet import working
from tests.support.otel import Spans
from tests.support.variation import Variation, seeds
from tests.waiting import until

pytest.importorskip("celery")
pytestmark = pytest.mark.skipif(REDIS is None, reason="needs Debian's redis-server")

from rag_eval_hooks.fleet.broker import Broker, lane_of  # noqa: E402

METRICS = "lexical"


def offered(evals: RagEval, seed: int, count: int) -> list[Sample]:
    draw = Variation(seed)
    samples = [
        Sample(question=draw.question(), answer=draw.passage(), reference=draw.passage())
        for _ in range(count)
    ]
    assert all(map(evals.offer, samples))
    return samples


@pytest.mark.parametrize("seed", seeds(2))
def test_results_come_back(redis: RedisServer, seed: int) -> None:
    """With `results="return"` the application's own sinks get the outcomes of the workers.

    The application counts such samples as its own; each is in the worker's sink, too.
    """
    sink, workers = MemorySink(), MemorySink()
    with (
        working(redis, RagEval(METRICS, sinks=workers)),
        RagEval(
            METRICS, sinks=sink, evaluator="celery", broker=redis.url, results="return"
        ) as evals,
    ):
        samples = offered(evals, seed, 20)
        assert evals.flush(300)
        stats = evals.stats()
    assert (stats.scored, stats.shipped, total(stats)) == (20, 0, stats.offered)
    got = {one.sample.sample_id: one.outcomes for one in sink.results}
    assert got.keys() == {sample.sample_id for sample in samples}
    assert got == {one.sample.sample_id: one.outcomes for one in workers.results}


def test_a_waiting_span_gets_the_scores_or_ends_at_its_deadline(redis: RedisServer) -> None:
    """A held span has the worker's scores if they come in time; else it ends without them."""
    for in_time in (True, False):
        spans = Spans()
        with RagEval(
            METRICS,
            evaluator="celery",
            broker=redis.url,
            results="return",
            hold_timeout=120.0 if in_time else 0.5,
            tracer_provider=spans.provider,
        ) as evals:
            record_request(evals)
            if in_time:
                with working(redis, RagEval(METRICS)):
                    assert evals.flush(300)
            else:
                assert evals.flush(300)
                assert evals.stats().shipped == 1
        span = spans.named("invoke")[0] if spans.named("invoke") else spans.all()[-1]
        attributes = dict(span.attributes or {})
        scores = [name for name in attributes if name.endswith(".score")]
        assert bool(scores) is in_time, attributes
        if not in_time:
            assert attributes[semconv.EVAL_STATUS] in ("shipped", "timeout")
            late = MemorySink()
            with working(redis, RagEval(METRICS, sinks=late)):
                until(late.results.__len__, "the late scores")


def test_services_take_turns_and_urgent_samples_go_first(redis: RedisServer) -> None:
    """A service with a long queue holds up no other; tail-sampled ones overtake random ones."""
    broker = Broker.of(RagEvalConfig(broker=redis.url))
    loud, calm, *others = sorted({lane_of(f"service-{number}") for number in range(20)})
    assert others
    redis.client().flushdb()
    for _ in range(50):
        broker.send("loud", lane=loud, urgent=False, batch_id=uuid.uuid4().hex)
    for _ in range(5):
        broker.send("calm", lane=calm, urgent=False, batch_id=uuid.uuid4().hex)
    broker.send("urgent", lane=loud, urgent=True, batch_id=uuid.uuid4().hex)
    order: list[str] = []
    with broker.app.connection_for_read() as connection:

        def take(body: Any, message: Any) -> None:
            order.append(str(body[0][0]))
            message.ack()

        with connection.Consumer(broker.app.conf.task_queues, callbacks=[take], accept=["json"]):
            while len(order) < 56:
                connection.drain_events(timeout=120)
    assert order[0] == "urgent"
    assert max(n for n, text in enumerate(order) if text == "calm") < 25
