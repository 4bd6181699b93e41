"""Evaluation by workers of a fleet, over a real Redis and by real worker processes."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from rag_eval_hooks import ConfigError, MemorySink, RagEval, RagEvalConfig, Sample, score_id
from rag_eval_hooks.score import outcome_from_dict
from tests.servers.brokers import REDIS, RedisServer
from tests.servers.judge_server import JudgeServer
from tests.servers.otlp_collector import OtlpCollector
from tests.support.command_line import run_command
from tests.support.evaluation import total
from tests.support.fleet import WorkerProcess, lines, results, working
from tests.support.limits import small_limits
from tests.support.ports import free_port
from tests.support.variation import Variation, seeds
from tests.waiting import PATIENCE, until

pytest.importorskip("celery")
pytestmark = pytest.mark.skipif(REDIS is None, reason="needs Debian's redis-server")

from rag_eval_hooks.fleet.broker import celery_app  # noqa: E402
from rag_eval_hooks.fleet.store import FleetStore  # noqa: E402

METRIC = "ragas.faithfulness"
LEXICAL = "lexical.keyword_coverage"


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgeServer]:
    with JudgeServer() as server:
        yield server


@pytest.fixture(scope="module")
def collector() -> Iterator[OtlpCollector]:
    with OtlpCollector() as server:
        yield server


@pytest.fixture(scope="module")
def worker(
    tmp_path_factory: pytest.TempPathFactory,
    redis: RedisServer,
    judge: JudgeServer,
    collector: OtlpCollector,
) -> Iterator[WorkerProcess]:
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
    os.environ["OTEL_METRIC_EXPORT_INTERVAL"] = "1000"
    try:
        process = WorkerProcess(
            tmp_path_factory.mktemp("worker"),
            redis.url,
            sinks="jsonl:scores.jsonl",
            judge="openai:test-model",
            judge_base_url=judge.url,
            judge_api_key="k",
        )
        process.start()
    finally:
        del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"], os.environ["OTEL_METRIC_EXPORT_INTERVAL"]
    yield process
    process.kill()


def application(redis: RedisServer, **settings: object) -> RagEval:
    given: dict[str, Any] = {
        "evaluator": "celery",
        "broker": redis.url,
        "embedder": "none",
    } | settings
    with small_limits(given):
        return RagEval(METRIC, **given)


def some_samples(seed: int, count: int) -> list[Sample]:
    draw = Variation(seed)
    made = []
    for _ in range(count):
        passages = draw.passages(draw.chance.randint(1, 3))
        made.append(
            Sample(
                question=draw.question(),
                contexts=tuple(passages),  # type: ignore[arg-type]
                answer=draw.chance.choice(passages),
                metadata={draw.name(): draw.word()},
                trace_id=os.urandom(16).hex(),
                span_id=os.urandom(8).hex(),
            )
        )
    return made


@pytest.mark.parametrize("seed", seeds(2))
def test_workers_give_the_scores_of_the_application(
    redis: RedisServer, judge: JudgeServer, worker: WorkerProcess, seed: int
) -> None:
    """A sample has one score, equal in the worker and inline; each is counted once on both sides.

    Settings or an application of Celery name the broker.
    """
    path, store = worker.folder / "scores.jsonl", FleetStore(redis.url, keep=0)
    samples = some_samples(seed, 20)
    provider = TracerProvider(resource=Resource({"service.name": f"shop-{seed}"}))
    app = celery_app(redis.url, RagEvalConfig())
    given: dict[str, Any] = (
        {"evaluator": app} if seed % 2 else {"evaluator": "celery", "broker": redis.url}
    )
    with RagEval(METRIC, embedder="none", tracer_provider=provider, **given) as evals:
        assert all(map(evals.offer, samples))
        assert evals.flush(PATIENCE)
        stats = evals.stats()
    assert (stats.shipped, total(stats)) == (20, stats.offered)
    ids = {sample.sample_id for sample in samples}
    until(lambda: ids <= set(results(path)), "the scores")
    assert {results(path)[one] for one in ids} == {1}
    until(lambda: store.books()[f"shop-{seed}"] == {"shipped": 20, "scored": 20}, "the counts")
    endpoint = {"judge_base_url": judge.url, "judge_api_key": "k"}
    with RagEval(METRIC, "openai:test-model", **endpoint) as inline:  # type: ignore[arg-type]
        own = {sample.sample_id: inline.evaluate(sample)[METRIC] for sample in samples}
    for line in lines(path):
        if (name := line["sample"]["sample_id"]) in own:
            got = outcome_from_dict(line["outcomes"][METRIC])
            assert got == own[name]
            assert score_id(name, METRIC, got) == score_id(name, METRIC, own[name])


def test_the_worker_writes_below_the_rag_span(
    redis: RedisServer, worker: WorkerProcess, collector: OtlpCollector
) -> None:
    """Evaluation span, event and metrics of the worker are in the RAG span's trace."""
    (sample,) = some_samples(7, 1)
    with application(redis) as evals:
        evals.offer(sample)

    def below() -> list[Any]:
        return [span for span in collector.received if span.trace_id.hex() == sample.trace_id]

    until(below, "the evaluation span")
    assert [span.parent_span_id.hex() for span in below()] == [sample.span_id]
    until(
        lambda: [log for log in collector.log_records if log.span_id.hex() == sample.span_id],
        "the evaluation event",
    )
    assert "rag-eval-worker" in collector.services
    wanted = {"rag.eval.fleet.size", "rag.eval.fleet.age", "rag.eval.score"}
    until(lambda: wanted <= collector.metrics, "the metrics")


def waiting_batches(redis: RedisServer) -> list[dict[str, Any]]:
    """Return the batches that wait in Redis, the oldest of each queue first."""
    client = redis.client()
    queues = [client.lrange(key, 0, -1) for key in client.scan_iter("rag_eval.*")]
    messages = [json.loads(message) for queue in queues for message in reversed(queue)]
    assert {message["content-type"] for message in messages} == {"application/json"}
    texts = [client.get(f"rag_eval:text:{message['headers']['id']}") for message in messages]
    return [json.loads(zlib.decompress(text)) for text in texts]


@pytest.mark.parametrize("seed", seeds(2))
def test_messages_are_compressed_json_without_what_is_redacted(tmp_path: Path, seed: int) -> None:
    """Samples leave the application as versioned, compressed JSON in micro-batches, redacted.

    Nothing in Redis holds a text of the application in the clear, nor one that is redacted.
    """
    draw = Variation(seed)
    secrets = [f"{draw.name()}@{draw.name()}.example" for _ in range(40)]
    with RedisServer(tmp_path) as redis, application(redis, redact="email") as evals:
        for secret in secrets:
            text = f"{draw.question()} {secret}"
            evals.offer({"question": text, "contexts": [secret], "answer": secret})
        assert evals.flush(PATIENCE)
        batches = waiting_batches(redis)
        assert len(batches) == 3
        for batch in batches:
            assert batch["schema"] == 1
            assert len(batch["items"]) <= 16
            assert "<EMAIL_1>" in json.dumps(batch)
        # All that was ever written to Redis, and the texts.
        told = [path.read_bytes() for path in tmp_path.rglob("*.aof")]
        told.append(json.dumps(batches, ensure_ascii=False).encode())
        assert len(told) > 1
        assert not any(secret.encode() in one for secret in secrets for one in told)


def test_the_application_goes_on_without_a_broker(tmp_path: Path) -> None:
    """While the broker is down nothing is raised or blocked, and each sample is counted."""
    redis = RedisServer(tmp_path)
    with application(redis, SINK_RETRY_SECONDS=0.5, queue_size=100, exit_timeout=1.0) as evals:
        for sample in some_samples(3, 60):
            evals.offer(sample)
        until(lambda: evals.stats().dropped.get("broker") == 60, "the drops")
        stats = evals.stats()
        assert total(stats) == stats.offered == 60
        assert any("broker" in kind for kind in stats.incidents)


def test_the_spool_holds_samples_until_the_broker_is_back(tmp_path: Path) -> None:
    """With a spool no sample is lost to an outage; the oldest is shipped first after it."""
    redis = RedisServer(tmp_path / "redis")
    samples = some_samples(4, 50)
    with application(redis, spool=str(tmp_path / "spool")) as evals:
        for sample in samples:
            evals.offer(sample)
        until(lambda: evals.stats().dropped.get("spooled", 0) >= 50, "samples on disk")
        with redis:
            until(lambda: evals.stats().shipped == 50, "the recovery")
            ids = [
                item["sample"]["sample_id"]
                for batch in waiting_batches(redis)
                for item in batch["items"]
            ]
        stats = evals.stats()
    assert ids == [sample.sample_id for sample in samples]
    assert total(stats) == stats.offered
    assert "queue_full" not in stats.dropped


@pytest.mark.parametrize("seed", seeds(1))
def test_a_broker_that_hangs_holds_up_no_request(tmp_path: Path, seed: int) -> None:
    """While the broker answers nothing samples are taken, and refused once the queue is full.

    They are shipped when it answers again, and workers that hung with it score each once.
    """
    passage, sink = Variation(seed).passage(), MemorySink()
    with (
        RedisServer(tmp_path) as redis,
        RagEval(LEXICAL, evaluator="celery", broker=redis.url, queue_size=50) as evals,
    ):

        def offer(count: int) -> None:
            for _ in range(count):
                evals.offer(Sample(question="q", answer=passage, reference=passage))

        offer(40)
        with redis.frozen():
            offer(1400)
            stats = evals.stats()
            assert stats.shipped + stats.dropped["queue_full"] < 1440
        assert evals.flush(PATIENCE)
        with working(redis, RagEval(LEXICAL, sinks=sink)):
            until(lambda: len(sink.results) > 100, "some scores")
            with redis.frozen():
                offer(20)
            assert evals.flush(PATIENCE)
            shipped = evals.stats().shipped
            until(lambda: len(sink.results) >= shipped, "all scores")
        stats = evals.stats()
        counted = FleetStore(redis.url, keep=0).books()["unknown_service"]
    assert total(stats) == stats.offered == 1460
    assert set(stats.dropped) == {"queue_full"}
    assert len({one.sample.sample_id for one in sink.results}) == len(sink.results) == shipped
    assert counted == {"shipped": shipped, "scored": shipped}


@pytest.mark.long
@pytest.mark.parametrize("has_worker", [False, True])
def test_a_lost_answer_sends_no_sample_twice(tmp_path: Path, has_worker: bool) -> None:
    """A sample that arrived, though the answer was lost, is evaluated once."""
    draw, scored = Variation(6), tmp_path / "scores.jsonl"
    passages = [draw.passage() for _ in range(60)]
    samples = [Sample(question="q", answer=text, reference=text) for text in passages]
    with (
        RedisServer(tmp_path / "redis") as redis,
        RagEval(
            LEXICAL, evaluator="celery", broker=redis.url, spool=str(tmp_path / "spool")
        ) as evals,
        ExitStack() as workers,
    ):
        worker = WorkerProcess(tmp_path, redis.url, metrics=LEXICAL, sinks=f"jsonl:{scored}")
        if has_worker:
            workers.enter_context(worker)
        for number, sample in enumerate(samples):
            if number % 20 == 10:
                before = failures(evals)
                with redis.frozen():
                    evals.offer(sample)
                    until(lambda: failures(evals) > before, "a lost answer")  # noqa: B023
            else:
                evals.offer(sample)
        until(lambda: evals.stats().shipped == 60, "the recovery")
        if not has_worker:
            workers.enter_context(worker)
        until(lambda: results(scored).total() >= 60, "the scores")
        store = FleetStore(redis.url, keep=0)
        until(lambda: store.books()["unknown_service"].get("scored", 0) >= 60, "the counts")
        counted = store.books()["unknown_service"]
    assert set(results(scored).values()) == {1}
    assert counted == {"shipped": 60, "scored": 60}


def failures(evals: RagEval) -> int:
    incidents = evals.stats().incidents
    return sum(count for kind, count in incidents.items() if kind.startswith("broker:"))


@pytest.mark.parametrize("has_spool", [False, True])
def test_a_full_redis_stops_neither_applications_nor_workers(
    tmp_path: Path, has_spool: bool
) -> None:
    """A Redis that is nearly full takes no more samples: they wait on disk, or are counted.

    Workers can still empty it, and then it takes samples again.
    """
    settings: dict[str, Any] = {"spool": str(tmp_path / "spool")} if has_spool else {}
    sink, reason = MemorySink(), "spooled" if has_spool else "broker"
    with (
        RedisServer(tmp_path / "redis", max_memory="3mb") as redis,
        small_limits({"SINK_RETRY_SECONDS": 0.2}),
        RagEval(LEXICAL, evaluator="celery", broker=redis.url, **settings) as evals,
    ):
        for _ in range(500):
            text = base64.b64encode(os.urandom(6000)).decode()
            evals.offer(Sample(question="q", answer=text, reference=text))
        until(lambda: evals.stats().dropped.get(reason), "a sample that finds no room")
        assert evals.stats().shipped > 0
        with working(redis, RagEval(LEXICAL, sinks=sink)):
            if has_spool:
                until(lambda: evals.stats().shipped == 500, "the recovery")
            assert evals.flush(PATIENCE)
            shipped = evals.stats().shipped
            until(lambda: len(sink.results) == shipped, "the scores")
            until(lambda: offered_and_shipped(evals), "room again")
        stats = evals.stats()
    assert set(stats.dropped) <= {reason}
    assert total(stats) == stats.offered


def offered_and_shipped(evals: RagEval) -> bool:
    shipped = evals.stats().shipped
    evals.offer(Sample(question="q", answer="a", reference="a"))
    return evals.flush(PATIENCE) and evals.stats().shipped > shipped


@pytest.mark.parametrize(
    "broker", [None, "localhost:6379", "http://localhost", "amqp://localhost//", "memory://"]
)
def test_a_broker_that_cannot_be_used_is_refused_at_start(broker: str | None) -> None:
    """A missing or wrong broker is an error that names the setting and repeats no password."""
    with pytest.raises(ConfigError, match="broker") as caught:
        RagEval(evaluator="celery", broker=broker and broker.replace("://", "://u:secret@"))
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match="evaluator"):
        RagEval(evaluator=object(), broker="redis://localhost")


def test_the_doctor_shows_the_fleet(redis: RedisServer, worker: WorkerProcess) -> None:
    """`doctor --fleet` shows workers, queues and counts that add up; a dead broker fails."""
    variables = {"RAG_EVAL_BROKER": redis.url}
    until(lambda: worker.is_ready, "the worker's start")
    done = run_command(worker.folder, "doctor", "--fleet", "--json", variables=variables)
    report = json.loads(done.out)
    assert done.code == 0
    assert {one["check"] for one in report["results"]} == {"fleet"}
    texts = [one["text"] for one in report["results"]]
    assert any(text.startswith("1 workers live") for text in texts)
    for figures in (one["figures"] for one in report["results"] if "waiting" in one["figures"]):
        ended = sum(n for name, n in figures.items() if name not in ("shipped", "waiting"))
        assert figures["shipped"] == ended + figures["waiting"]
    variables["RAG_EVAL_BROKER"] = f"redis://:secret@127.0.0.1:{free_port()}"
    done = run_command(worker.folder, "doctor", "--fleet", variables=variables)
    assert (done.code, "secret" in done.out) == (1, False)


def test_workers_evaluate_a_data_set_and_resume(
    redis: RedisServer, worker: WorkerProcess, tmp_path: Path
) -> None:
    """`evaluate --workers celery` gives each row one result, and leaves out rows that have one."""
    draw = Variation(11)
    rows = []
    for _ in range(60):
        passage = draw.passage()
        rows.append({"question": draw.question(), "contexts": [passage], "answer": passage})
    variables = {"RAG_EVAL_BROKER": redis.url, "RAG_EVAL_EMBEDDER": "none"}
    data, output = tmp_path / "data.jsonl", tmp_path / "out.jsonl"
    for count, found in ((25, 0), (60, 25)):
        data.write_text("".join(json.dumps(row) + "\n" for row in rows[:count]), encoding="utf-8")
        arguments = ["evaluate", "data.jsonl", "-o", "out.jsonl", "--workers", "celery"]
        done = run_command(tmp_path, *arguments, "--metrics", METRIC, variables=variables)
        assert done.code == 0, done.err
        assert f"{count - found} rows evaluated" in done.out
    assert len(lines(output)) == 60
    assert set(results(output).values()) == {1}
    assert all(METRIC in line["outcomes"] for line in lines(output))
