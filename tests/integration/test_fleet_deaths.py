"""Workers that die, brokers that restart, and samples that no worker survives."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import MemorySink, RagEval, RagEvalConfig, Sample
from tests.servers.brain import truthful_reply
from tests.servers.brokers import RABBITMQ, REDIS, RedisServer
from tests.servers.judge_server import JudgeServer
from tests.support.fleet import WorkerProcess, lines, scores
from tests.support.size import size
from tests.support.variation import Variation, seeds
from tests.waiting import until

pytest.importorskip("celery")
pytestmark = pytest.mark.skipif(REDIS is None, reason="needs Debian's redis-server")

from benchmarks.fleet_kills import run  # noqa: E402
from rag_eval_hooks.decision import Decision, Rates, Share  # noqa: E402
from rag_eval_hooks.distributed.heartbeat import send_lost  # noqa: E402
from rag_eval_hooks.distributed.worker import Worker  # noqa: E402
from rag_eval_hooks.fleet.broker import Broker, lane_of  # noqa: E402
from rag_eval_hooks.fleet.dead_letters import dead_letters  # noqa: E402
from rag_eval_hooks.fleet.store import Claim, FleetStore  # noqa: E402
from rag_eval_hooks.fleet.wire import SCHEMA, Batch, Shipped  # noqa: E402

METRIC = "lexical.keyword_coverage"


class Fleet:
    """A worker in this process, and its Redis."""

    def __init__(self, redis: RedisServer) -> None:
        self.redis = redis
        # Workers have been seen to beat for long.
        redis.client().set("rag_eval:beating", 1)
        self.sink = MemorySink()
        config = RagEvalConfig(broker=redis.url)
        self.broker = Broker.of(config)
        self.evals = RagEval("lexical", sinks=self.sink, config=config)
        self.worker = Worker(self.evals, self.broker)
        self.store = FleetStore(redis.url, keep=3600)
        self.variables = {"RAG_EVAL_BROKER": redis.url}

    def scored(self) -> list[str]:
        return [one.sample.sample_id for one in self.sink.results]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with RedisServer(tmp_path / "redis") as redis:
        made = Fleet(redis)
        yield made
        made.worker.stop(1.0)


def batch(seed: int, count: int, service: str = "shop") -> Batch:
    draw = Variation(seed)
    decision = Decision(0, Rates({METRIC: Share(0.5)}))
    items = [
        Shipped(
            sample=Sample(
                question=draw.question(),
                contexts=(draw.passage(),),  # type: ignore[arg-type]
                answer=draw.passage(),
                reference=draw.passage(),
            ),
            decision=decision,
            accepted_at=1.0,
        )
        for _ in range(count)
    ]
    return Batch(service=service, items=items)


@pytest.mark.parametrize("seed", seeds(3))
def test_a_batch_that_comes_again_is_evaluated_once(fleet: Fleet, seed: int) -> None:
    """A batch that is delivered twice has each sample scored and counted once."""
    made, key = batch(seed, 1 + seed * 5), uuid.uuid4().hex
    for _ in range(2):
        fleet.worker.process(key, made.text())
    assert sorted(fleet.scored()) == sorted(item.sample.sample_id for item in made.items)
    assert fleet.store.books() == {"shop": {"scored": len(made.items)}}


@pytest.mark.parametrize("seed", seeds(3))
def test_a_message_that_dies_with_its_worker_is_sent_again(fleet: Fleet, seed: int) -> None:
    """Redis forgets a message at its delivery: a worker that dies right then loses no sample.

    What waits or is in evaluation is not sent again; what is lost is, and is evaluated once.
    """
    chance, client = random.Random(seed), fleet.redis.client()
    with RagEval(METRIC, evaluator="celery", broker=fleet.redis.url) as evals:
        for item in batch(seed, chance.randint(1, 60)).items:
            evals.offer(item.sample)
        assert evals.flush(300)
        shipped = evals.stats().shipped
    sent = delivered(client)
    if chance.random() < 0.5:
        # A worker that took one of them had claimed it before it died.
        fleet.store.claim(sent[0], "dead-worker#1")
    fleet.store.beat("other")
    assert send_lost(fleet.store, fleet.broker) == 0
    assert send_lost(fleet.store, fleet.broker, age=0) == len(sent)
    again = delivered(client)
    assert sorted(again) == sorted(sent)
    first, *others = again
    fleet.store.claim(first, "other#1")
    for key in others * 2:
        fleet.worker.process(key, "")
    assert send_lost(fleet.store, fleet.broker, age=0) == 0
    fleet.store.bury("other")
    assert send_lost(fleet.store, fleet.broker, age=0) == 1
    assert send_lost(fleet.store, fleet.broker) == 0
    for key in delivered(client) * 2:
        fleet.worker.process(key, "")
    assert len(set(fleet.scored())) == len(fleet.scored()) == shipped
    assert fleet.store.books()["unknown_service"] == {"shipped": shipped, "scored": shipped}
    left = {key.decode() for key in client.scan_iter("rag_eval*")}
    assert not any("open" in key or "text" in key for key in left), left


def test_only_a_dead_workers_batch_is_lost_while_others_wait(fleet: Fleet) -> None:
    """A batch that waits behind others is not sent again, however long it waits."""
    text, keys = batch(1, 2).text(), [uuid.uuid4().hex for _ in range(3)]
    for key in keys:
        fleet.store.keep(key, "shop", text, {"shipped": 2})
    fleet.broker.send("", lane=lane_of("shop"), urgent=False, batch_id=keys[0])
    fleet.store.claim(keys[1], "dead-worker#1")
    assert fleet.store.lost(lane_of("shop"), is_empty=False, age=0) == [keys[1]]
    assert send_lost(fleet.store, fleet.broker, age=0) == 1


def delivered(client: Any) -> list[str]:
    """Take all messages out of Redis, as it does itself at their delivery; return their ids."""
    found = [m for key in client.scan_iter("rag_eval.*") for m in client.lrange(key, 0, -1)]
    client.delete(*client.scan_iter("rag_eval.*"))
    return [json.loads(message)["headers"]["id"] for message in found]


def test_the_batch_of_a_dead_worker_is_taken_over_and_that_of_a_live_one_is_not(
    fleet: Fleet,
) -> None:
    """A claim holds for as long as its worker says that it lives."""
    fleet.store.beat("other")
    assert fleet.store.claim("b", "other#1") is Claim.FREE
    assert fleet.store.claim("b", "third#1") is Claim.BUSY
    fleet.store.bury("other")
    assert fleet.store.claim("b", "third#1") is Claim.SUSPECT
    fleet.store.release("b", "third#1")
    assert fleet.store.claim("b", "fourth#1") is Claim.FREE


def test_workers_are_not_taken_for_dead_when_redis_was_away(fleet: Fleet) -> None:
    """After an outage in which all beats expired, a worker has time to beat again."""
    key = uuid.uuid4().hex
    fleet.store.keep(key, "shop", batch(1, 2).text(), {"shipped": 2})
    fleet.store.claim(key, "other#1")
    fleet.redis.client().delete("rag_eval:beating")
    fleet.store.beat("third")
    assert fleet.store.claim(key, "third#1") is Claim.BUSY
    assert send_lost(fleet.store, fleet.broker, age=0) == 0
    fleet.redis.client().set("rag_eval:beating", 1)
    assert send_lost(fleet.store, fleet.broker, age=0) == 1
    assert fleet.store.claim(key, "third#1") is Claim.SUSPECT


@pytest.mark.parametrize("seed", seeds(2))
def test_a_sample_that_kills_workers_is_given_up_alone(fleet: Fleet, seed: int) -> None:
    """The poison goes to the dead letters with its reason; its fellow travellers are scored."""
    made, key = batch(seed, 8), uuid.uuid4().hex
    poison = made.items[seed % 8].sample
    fleet.store.claim(key, "dead-worker#1")
    for _ in range(3):
        fleet.store.tried(poison.sample_id)
    fleet.worker.process(key, made.text())
    others = {item.sample.sample_id for item in made.items} - {poison.sample_id}
    assert set(fleet.scored()) == others
    assert fleet.store.books()["shop"] == {"scored": 7, "dead:worker_lost": 1}

    (letter,) = dead_letters(fleet.broker)
    assert (letter.reason, letter.samples[0]["sample_id"]) == ("worker_lost", poison.sample_id)


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(1))
def test_a_sample_that_kills_every_worker_ends_among_the_dead_letters(
    tmp_path: Path, seed: int
) -> None:
    """A worker is killed whenever it evaluates the poison; the other samples are scored.

    Workers are started by `rag-eval-hooks worker`, and by nothing else than settings.
    """
    made = list(batch(seed, 12).items)
    poison = f"poison{seed}"
    made[seed % 12] = replace(
        made[seed % 12], sample=replace(made[seed % 12].sample, answer=poison)
    )
    dead = made[seed % 12].sample.sample_id
    deaths: list[WorkerProcess] = []

    def reply(body: Mapping[str, Any]) -> str:
        if poison in json.dumps(body):
            worker.kill()
            deaths.append(worker)
        return json.dumps(truthful_reply(body))

    with RedisServer(tmp_path / "redis") as redis, JudgeServer(replies=reply) as judge:
        broker, store = Broker.of(RagEvalConfig(broker=redis.url)), FleetStore(redis.url, keep=60)
        worker = WorkerProcess(
            tmp_path,
            redis.url,
            arguments="rag_eval_hooks.cli.main worker",
            sinks="jsonl:results.jsonl",
            judge="openai:test-model",
            judge_base_url=judge.url,
            judge_api_key="k",
        )
        settings: Any = {"evaluator": "celery", "broker": redis.url, "embedder": "none"}
        with RagEval("ragas.faithfulness", **settings) as evals, worker:
            for item in made:
                evals.offer(item.sample)
            assert evals.flush(300)
            for count in range(1, 5):
                until(lambda: len(deaths) == count, f"death {count}")  # noqa: B023
                # What happens by itself half a minute after the last beat.
                for name in store.workers():
                    store.bury(name)
                until(lambda: send_lost(store, broker, age=0) == 1, "the lost batch")
                worker.start()
            wanted = {"shipped": 12, "scored": 11, "dead:worker_lost": 1}
            until(lambda: store.books()["unknown_service"] == wanted, "the counts")
            letters = dead_letters(broker)
    assert [(one.reason, one.samples[0]["sample_id"]) for one in letters] == [("worker_lost", dead)]
    others = {item.sample.sample_id for item in made} - {dead}
    assert set(scores(tmp_path / "results.jsonl")) == others
    assert len({line["result_id"] for line in lines(tmp_path / "results.jsonl")}) == len(others)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "unreadable"),
        ("[]", "unreadable"),
        ('{"schema": 1, "items": [{}]}', "unreadable"),
        (json.dumps({"schema": SCHEMA + 1, "items": []}), "newer_schema"),
        (json.dumps({"schema": "1"}), "unreadable"),
    ],
)
def test_what_cannot_be_read_is_a_dead_letter(fleet: Fleet, text: str, reason: str) -> None:
    """A message of another shape or a newer version stops no worker and is not thrown away."""
    fleet.worker.process(uuid.uuid4().hex, text)
    assert [letter.reason for letter in dead_letters(fleet.broker)] == [reason]
    assert fleet.store.books() == {"": {f"dead:{reason}": 1}}


@pytest.mark.long
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_nothing_is_lost_and_nothing_scored_twice(tmp_path: Path, broker: str) -> None:
    """Workers that are killed and brokers that restart lose no sample and score none twice.

    Nor do messages that Redis has given away, and that their worker has not noted.
    """
    if broker == "rabbitmq" and not RABBITMQ.exists():
        pytest.skip("needs Debian's rabbitmq-server")
    thefts = 2 if broker == "redis" else 0
    report = run(
        tmp_path,
        samples=size(200, 400),
        kills=2,
        restarts=1,
        thefts=thefts,
        broker=broker,
        rate=40,
    )
    assert (report.kills, report.restarts) == (2, 1)
    assert report.thefts > 0 or not thefts
    assert (report.lost, report.twice, report.stats.dropped) == (0, 0, {})
    assert report.adds_up, report.books
