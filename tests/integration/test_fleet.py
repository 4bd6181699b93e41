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

from rag_eval_hooks import MemorySink, RagEval, RagEvalConfig, Sample
from rag_eval_hooks.score import outcome_from_dict, score_id
from tests.support.command_line import run_command
from tests.support.evaluation import total
from tests.support.fleet import WorkerProcess, lines, results
from tests.support.limits import small_limits
from tests.support.scripts import run_script
from tests.support.servers.brokers import RABBITMQ, REDIS, RabbitServer, RedisServer
from tests.support.servers.judge_server import JudgeServer
from tests.support.servers.otlp_collector import OtlpCollector
from tests.support.size import size
from tests.support.variation import Variation, seeds
from tests.waiting import PATIENCE, until

Celery = pytest.importorskip("celery").Celery
pytestmark = pytest.mark.skipif(REDIS is None, reason="needs Debian's redis-server")

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
    given: dict[str, Any] = {"run_on": "celery", "broker": redis.url, "embedder": "none"} | settings
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


@pytest.mark.parametrize("seed", seeds(1))
def test_workers_give_the_scores_of_the_application(
    redis: RedisServer, judge: JudgeServer, worker: WorkerProcess, seed: int
) -> None:
    """A sample has the same score in the worker, in the application and inline."""
    path, samples = worker.folder / "scores.jsonl", some_samples(seed, 20)
    app = Celery(broker=redis.url, backend=redis.url, set_as_current=False)
    givens: list[dict[str, Any]] = [{"run_on": app}, {"run_on": "celery", "broker": redis.url}]
    returned = MemorySink()
    for number, given in enumerate(givens):
        with RagEval(METRIC, embedder="none", sinks=returned, **given) as evals:
            assert all(map(evals.submit, samples[10 * number : 10 * number + 10]))
            assert evals.flush(PATIENCE)
            stats = evals.stats()
        assert (stats.scored, total(stats)) == (10, stats.offered)
    ids = {sample.sample_id for sample in samples}
    assert {results(path)[one] for one in ids} == {1}
    endpoint = {"judge_base_url": judge.url, "judge_api_key": "k"}
    with RagEval(METRIC, "openai:test-model", **endpoint) as inline:  # type: ignore[arg-type]
        own = {sample.sample_id: inline.evaluate(sample)[METRIC] for sample in samples}
    assert {one.sample.sample_id: one.outcomes[METRIC] for one in returned.results} == own
    for line in lines(path):
        if (name := line["sample"]["sample_id"]) in own:
            got = outcome_from_dict(line["outcomes"][METRIC])
            assert score_id(name, METRIC, got) == score_id(name, METRIC, own[name])


def test_the_worker_writes_below_the_rag_span(
    redis: RedisServer, worker: WorkerProcess, collector: OtlpCollector
) -> None:
    (sample,) = some_samples(7, 1)
    with application(redis) as evals:
        evals.submit(sample)
        assert evals.flush(PATIENCE)

    def below() -> list[Any]:
        return [span for span in collector.received if span.trace_id.hex() == sample.trace_id]

    until(below, "the evaluation span")
    assert [span.parent_span_id.hex() for span in below()] == [sample.span_id]
    until(
        lambda: [log for log in collector.log_records if log.span_id.hex() == sample.span_id],
        "the evaluation event",
    )
    assert "rag-eval-worker" in collector.services
    until(lambda: "rag.eval.score" in collector.metrics, "the metrics")


def waiting(redis: RedisServer) -> list[dict[str, Any]]:
    client = redis.client()
    queues = [client.lrange(key, 0, -1) for key in client.scan_iter("rag_eval*")]
    messages = [json.loads(message) for queue in queues for message in reversed(queue)]
    assert {message["content-type"] for message in messages} <= {"application/json"}
    bodies = [zlib.decompress(base64.b64decode(message["body"])) for message in messages]
    return [json.loads(json.loads(body)[0][0]) for body in bodies]


def test_message_is_compressed_json_without_redacted_text(tmp_path: Path) -> None:
    draw = Variation(1)
    secrets = [f"{draw.name()}@{draw.name()}.example" for _ in range(20)]
    with (
        RedisServer(tmp_path) as redis,
        application(redis, redact="email", exit_timeout=0.1) as evals,
    ):
        for secret in secrets:
            text = f"{draw.question()} {secret}"
            evals.submit({"question": text, "contexts": [secret], "answer": secret})
        until(lambda: len(waiting(redis)) == 20)
        samples = waiting(redis)
        assert {one["schema"] for one in samples} == {1}
        assert all("<EMAIL_1>" in json.dumps(one) for one in samples)
        told = [path.read_bytes() for path in tmp_path.rglob("*.aof")]
        told.append(json.dumps(samples, ensure_ascii=False).encode())
        assert len(told) > 1
        assert not any(secret.encode() in one for secret in secrets for one in told)
        assert not evals.shutdown(0.1)
        # Workers evaluate them, and nobody waits for the results.
        assert evals.stats().shipped == 20


def test_the_application_goes_on_without_a_broker(tmp_path: Path) -> None:
    redis = RedisServer(tmp_path)
    with application(redis, SINK_RETRY_SECONDS=0.5, queue_size=100, exit_timeout=1.0) as evals:
        for sample in some_samples(3, 60):
            evals.submit(sample)
        until(lambda: evals.stats().dropped.get("broker") == 60, "the drops")
        stats = evals.stats()
        assert total(stats) == stats.offered == 60
        assert any(kind.startswith("fleet: ") for kind in stats.incidents)


def test_the_spool_keeps_samples_while_the_broker_is_down(tmp_path: Path) -> None:
    redis, passage = RedisServer(tmp_path / "redis"), Variation(6).passage()
    given: Any = {"run_on": "celery", "broker": redis.url, "spool": str(tmp_path / "spool")}
    with RagEval(LEXICAL, **given) as evals:
        for _ in range(5):
            evals.submit(Sample(question="q", answer=passage, reference=passage))
        until(lambda: any(kind.startswith("fleet: ") for kind in evals.stats().incidents))
        assert evals.spooled()["pending"] == 5
        with redis, WorkerProcess(tmp_path, redis.url, metrics=LEXICAL):
            until(lambda: evals.stats().scored == 5)


@pytest.mark.parametrize(
    "kind", [pytest.param("redis", marks=pytest.mark.long), pytest.param("rabbitmq")]
)
def test_no_sample_is_lost_to_killed_workers(tmp_path: Path, kind: str) -> None:
    if kind == "rabbitmq" and not RABBITMQ.exists():
        pytest.skip("needs Debian's rabbitmq-server")
    samples, sink = some_samples(5, 30), MemorySink()
    with ExitStack() as servers, JudgeServer(latency=0.2) as slow:
        redis = servers.enter_context(RedisServer(tmp_path / "redis"))
        broker = redis.url
        if kind == "rabbitmq":
            broker = servers.enter_context(RabbitServer(tmp_path / "rabbit", redis)).url
        given = {"judge": "openai:m", "judge_base_url": slow.url, "judge_api_key": "k"}
        given |= {"sample_timeout": "5", "judge_concurrency": "2"}
        worker = WorkerProcess(tmp_path, broker, **given)
        config = RagEvalConfig(run_on="celery", broker=broker, sample_timeout=5.0)
        with RagEval(METRIC, sinks=sink, embedder="none", config=config) as evals:
            for sample in samples:
                evals.submit(sample)
            for number in size((8,), (6, 14)):
                with worker:
                    until(lambda: len(sink.results) >= number, "some results")  # noqa: B023
            with worker:
                assert evals.flush(PATIENCE)
            assert evals.stats().scored == 30
    assert {one.sample.sample_id for one in sink.results} == {one.sample_id for one in samples}


@pytest.mark.long
def test_next_process_gets_the_results_of_a_killed_application(tmp_path: Path) -> None:
    script = """
    import os, redis, signal, time
    from rag_eval_hooks import RagEval, Sample
    broker, text = os.environ["BROKER"], os.environ["PASSAGE"]
    evals = RagEval("lexical.keyword_coverage", run_on="celery", broker=broker, spool="spool")
    for n in range(20):
        evals.submit(Sample(question="q", answer=text, reference=text))
    client = redis.Redis.from_url(broker)
    while sum(map(client.llen, client.scan_iter("rag_eval*"))) < 20: time.sleep(0.01)
    assert evals.spooled().get("pending") == 20
    os.kill(os.getpid(), signal.SIGKILL)
    """
    sink, passage = MemorySink(), Variation(3).passage()
    with RedisServer(tmp_path / "redis") as redis:
        run_script(tmp_path, script, end=-9, BROKER=redis.url, PASSAGE=passage)
        scored = tmp_path / "scores.jsonl"
        with WorkerProcess(tmp_path, redis.url, metrics=LEXICAL, sinks=f"jsonl:{scored}"):
            until(lambda: len(results(scored)) == 20, "the worker's results")
            spool = str(tmp_path / "spool")
            with application(redis, spool=spool, sinks=sink) as evals:
                until(lambda: evals.stats().scored == 20)
        assert evals.spooled() == {"pending": 0, "undelivered": 0}
    assert len(sink.results) == 20
    assert set(results(scored).values()) == {1}


@pytest.mark.long
def test_sample_that_ends_its_workers_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(
        "import os, signal\n"
        "import rag_eval_hooks.metrics.lexical as lexical\n"
        "from rag_eval_hooks.request import Request\n"
        "of = Request.of\n"
        "def deadly(sample, build=None):\n"
        "    if sample.question == 'deadly': os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return of(sample, build)\n"
        "Request.of = deadly\n"
        "from rag_eval_hooks_celery.tasks import app\n"
    )
    arguments, passage = "celery -A deadly worker -l INFO", Variation(4).passage()
    with ExitStack() as servers:
        redis = servers.enter_context(RedisServer(tmp_path / "redis"))
        broker = servers.enter_context(RabbitServer(tmp_path / "rabbit", redis)).url
        worker = WorkerProcess(tmp_path, broker, metrics=LEXICAL, arguments=arguments)
        with RagEval(LEXICAL, run_on="celery", broker=broker) as evals:
            for number in range(10):
                question = "deadly" if number == 5 else "q"
                evals.submit(Sample(question=question, answer=passage, reference=passage))
            for _ in range(3):
                worker.start()
                worker.wait()
            with worker:
                assert evals.flush(PATIENCE)
            stats = evals.stats()
    assert (stats.dropped, stats.scored) == ({"gave_up": 1}, 9)


def test_workers_evaluate_a_data_set_and_resume(
    redis: RedisServer, worker: WorkerProcess, tmp_path: Path
) -> None:
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
        assert f"{count - found} rows were evaluated" in done.out
    assert len(lines(output)) == 60
    assert set(results(output).values()) == {1}
    assert all(METRIC in line["outcomes"] for line in lines(output))
