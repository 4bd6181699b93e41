"""Evaluation by workers of a fleet over a real RabbitMQ, also a slow and a full one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import MemorySink, RagEval, Sample
from tests.servers.brokers import RABBITMQ, REDIS, RabbitServer, RedisServer
from tests.support.evaluation import total
from tests.support.fleet import working
from tests.support.limits import small_limits
from tests.support.variation import Variation, seeds
from tests.waiting import PATIENCE, until

pytest.importorskip("celery")
pytestmark = pytest.mark.skipif(
    REDIS is None or not RABBITMQ.exists(), reason="needs Debian's redis-server, rabbitmq-server"
)

from rag_eval_hooks.fleet.store import FleetStore  # noqa: E402

METRIC = "lexical.keyword_coverage"


@pytest.fixture
def rabbit(tmp_path: Path) -> Iterator[RabbitServer]:
    with (
        RedisServer(tmp_path / "redis") as redis,
        RabbitServer(tmp_path / "rabbit", redis) as server,
    ):
        yield server


def offer(evals: RagEval, draw: Variation, count: int) -> None:
    for _ in range(count):
        passage = draw.passage()
        evals.offer(Sample(question="q", answer=passage, reference=passage))


def counted(rabbit: RabbitServer) -> dict[str, int]:
    return dict(FleetStore(rabbit.redis.url, keep=0).books()["unknown_service"])


def test_rabbitmq_ships_scores_and_returns(rabbit: RabbitServer) -> None:
    """Over RabbitMQ each sample is scored once, results come back, and the counts add up."""
    own, workers, draw = MemorySink(), MemorySink(), Variation(5)
    settings: Any
    for settings in ({}, {"results": "return"}):
        with (
            working(rabbit, RagEval(METRIC, sinks=workers)),
            RagEval(METRIC, sinks=own, evaluator="celery", broker=rabbit.url, **settings) as evals,
        ):
            offer(evals, draw, 20)
            assert evals.flush(PATIENCE)
            stats = evals.stats()
            assert (stats.shipped, stats.scored) == ((0, 20) if settings else (20, 0))
    until(lambda: len(workers.results) == 40, "the scores")
    assert len(own.results) == 20
    assert len({one.sample.sample_id for one in workers.results}) == 40
    assert counted(rabbit) == {"shipped": 40, "scored": 40}


@pytest.mark.long
@pytest.mark.parametrize(
    ("trouble", "has_spool"), [("frozen", False), ("frozen", True), ("full", True)]
)
@pytest.mark.parametrize("seed", seeds(1))
def test_a_rabbitmq_in_trouble_holds_up_nobody(
    rabbit: RabbitServer, tmp_path: Path, trouble: str, has_spool: bool, seed: int
) -> None:
    """While RabbitMQ hangs or takes no message samples wait on disk, or are counted as dropped.

    Those that waited are shipped when it is well again, and each is scored once: also those that
    had arrived though no answer came, and none of those that are counted as dropped.
    """
    settings: dict[str, Any] = {"spool": str(tmp_path / "spool")} if has_spool else {}
    reason = "spooled" if has_spool else "broker"
    sink, draw = MemorySink(), Variation(seed)
    with (
        small_limits({"SINK_RETRY_SECONDS": 0.2}),
        RagEval(METRIC, evaluator="celery", broker=rabbit.url, **settings) as evals,
    ):
        offer(evals, draw, 30)
        assert evals.flush(PATIENCE)
        with rabbit.frozen() if trouble == "frozen" else rabbit.full():
            offer(evals, draw, 30)
            until(lambda: evals.stats().dropped.get(reason), "a sample that finds no room")
        by_hand = 60
        while evals.stats().shipped < 31:
            by_hand += 1
            offer(evals, draw, 1)
            assert evals.flush(PATIENCE)
        if has_spool:
            until(lambda: evals.stats().shipped == by_hand, "the recovery")
        with working(rabbit, RagEval(METRIC, sinks=sink)):
            assert evals.flush(PATIENCE)
            shipped = evals.stats().shipped
            until(lambda: len(sink.results) >= shipped, "the scores")
        stats = evals.stats()
    assert total(stats) == stats.offered
    assert set(stats.dropped) == {reason}
    assert len({one.sample.sample_id for one in sink.results}) == len(sink.results) == shipped
    assert counted(rabbit) == {"shipped": shipped, "scored": shipped}
