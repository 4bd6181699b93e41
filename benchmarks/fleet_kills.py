"""`kill -9` of workers and restarts of the broker: is each sample scored, and scored once?

An application ships samples at a steady rate; workers on a shared results file and a judge server
on loopback are killed at random moments and started again, and so is the broker, by turns killed
and ended. From Redis messages are taken as by a worker that dies before it has noted them. At the
end the file, the application's statistics and the counts in Redis are compared.

    python -m benchmarks.fleet_kills [--samples 20000] [--kills 50] [--restarts 10] [--thefts 10]
        [--broker redis|rabbitmq] [--workers 3] [--seed 1]
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_eval_hooks import RagEval, Sample, Stats
from rag_eval_hooks.fleet.broker import LANES
from rag_eval_hooks.fleet.store import FleetStore
from tests.servers.brokers import RabbitServer, RedisServer
from tests.servers.judge_server import JudgeServer
from tests.support.fleet import WorkerProcess, results, scores

__all__ = ["Report", "run"]

_SETTINGS: Mapping[str, Any] = {
    "sample_timeout": 2.0,
    "judge_concurrency": 8,
}
"""Short, so that what a killed worker had comes again soon."""
_IDLE_S = 300.0
"""Seconds without a further result after which nothing more is waited for: a slow machine's too."""
_THEFT_S = 120.0
"""Seconds for which a thief waits for a message."""


@dataclass(slots=True)
class Report:
    """Result of a run.

    Attributes:
        samples: Samples offered.
        kills: Workers killed.
        restarts: Restarts of the broker.
        thefts: Messages taken out of Redis.
        lost: Samples without a result that no statistics know as dropped.
        twice: Samples with more than one score in the file.
        lines_twice: Samples with more than one line, such as one of a time-out and one of a score.
        stats: Statistics of the application.
        books: Counts of the fleet.
        seconds: Duration.
    """

    samples: int
    kills: int = 0
    restarts: int = 0
    thefts: int = 0
    lost: int = 0
    twice: int = 0
    lines_twice: int = 0
    stats: Stats = field(default_factory=Stats)
    books: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def adds_up(self) -> bool:
        """True if the workers counted exactly what the application shipped."""
        ended = {name: n for name, n in self.books.items() if name != "shipped"}
        return self.books.get("shipped") == sum(ended.values()) == self.stats.shipped


def run(
    folder: Path,
    *,
    samples: int,
    kills: int,
    restarts: int,
    thefts: int = 0,
    broker: str = "redis",
    workers: int = 2,
    seed: int = 1,
    rate: float = 200.0,
) -> Report:
    """Ship samples while workers are killed and the broker restarts, and compare."""
    report, chance = Report(samples), random.Random(seed)
    redis = RedisServer(folder / "redis")
    with redis, JudgeServer(latency=0.02, keep=False) as judge:
        server = redis if broker == "redis" else RabbitServer(folder / "rabbit", redis)
        if server is not redis:
            server.start()
        fleet = [_worker(folder, server.url, judge.url) for _ in range(workers)]
        began = time.monotonic()
        try:
            stop = threading.Event()
            deeds = ["kill"] * kills + ["restart"] * restarts + ["theft"] * thefts
            seconds = samples / rate
            moments = sorted((chance.uniform(0.05, 1.0) * seconds, deed) for deed in deeds)
            chaos = threading.Thread(
                target=_chaos,
                args=(report, fleet, server, chance, moments, stop),
            )
            chaos.start()
            report.stats = _application(server.url, samples, rate, chaos)
            chaos.join()
            _compare(report, folder / "results.jsonl", redis)
        finally:
            report.seconds = time.monotonic() - began
            for one in fleet:
                one.kill()
            if server is not redis:
                server.stop(signal.SIGKILL)
    return report


def _worker(folder: Path, broker: str, judge: str) -> WorkerProcess:
    worker = WorkerProcess(
        folder,
        broker,
        sinks="jsonl:results.jsonl",
        judge="openai:test-model",
        judge_base_url=judge,
        judge_api_key="k",
        **_SETTINGS,
    )
    worker.start()
    return worker


def _application(broker: str, samples: int, rate: float, chaos: threading.Thread) -> Stats:
    """Offer so many samples, and more for as long as there is trouble."""
    with RagEval(
        "ragas.faithfulness",
        embedder="none",
        evaluator="celery",
        broker=broker,
        queue_size=100_000,
    ) as evals:
        began = time.monotonic()
        for number in itertools.count():
            if number >= samples and not chaos.is_alive():
                break
            evals.offer(
                Sample(
                    question=f"When was quay {number} opened?",
                    contexts=(f"Quay {number} opened in 1931. It has two berths.",),  # type: ignore[arg-type]
                    answer=f"Quay {number} opened in 1931.",
                    sample_id=f"s{number}",
                )
            )
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
        evals.flush(600)
        return evals.stats()


def _chaos(
    report: Report,
    fleet: list[WorkerProcess],
    server: RedisServer | RabbitServer,
    chance: random.Random,
    moments: list[tuple[float, str]],
    stop: threading.Event,
) -> None:
    began = time.monotonic()
    for at, what in moments:
        if stop.wait(max(0.0, began + at - time.monotonic())):
            return
        if what == "kill":
            victim = chance.choice(fleet)
            victim.kill()
            victim.start()
            report.kills += 1
        elif what == "theft":
            report.thefts += _steal(server)
        else:
            sign = signal.SIGKILL if report.restarts % 2 else signal.SIGTERM
            server.stop(sign)
            server.start()
            report.restarts += 1


def _steal(server: RedisServer | RabbitServer) -> bool:
    """Take a message as Redis gives it to a worker; return whether one came."""
    assert isinstance(server, RedisServer), "RabbitMQ keeps a message until its confirmation"
    # Kombu's list of a queue for the priority of what is not urgent.
    queues = [f"{lane}\x06\x166" for lane in LANES]
    client, end = server.client(), time.monotonic() + _THEFT_S
    while time.monotonic() < end:
        # Workers compete for each message.
        if client.brpop(queues, 1) is not None:
            return True
    return False


def _compare(report: Report, path: Path, redis: RedisServer) -> None:
    expected = report.stats.shipped
    counts: Counter[str] = Counter()
    store = FleetStore(redis.url, keep=0)
    changed = time.monotonic()
    while time.monotonic() < changed + _IDLE_S:
        now = results(path)
        books = store.books().get("unknown_service", {})
        if now != counts or books != report.books:
            changed, counts, report.books = time.monotonic(), now, books
        ended = sum(n for name, n in books.items() if name != "shipped")
        if len(counts) >= expected and ended >= books.get("shipped", 0) >= expected:
            break
        time.sleep(0.5)
    report.lost = expected - len(counts)
    report.twice = sum(n > 1 for n in scores(path).values())
    report.lines_twice = sum(n > 1 for n in counts.values())


def main() -> int:
    """Run it by the arguments of the command line, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--thefts", type=int, default=0)
    parser.add_argument("--broker", choices=("redis", "rabbitmq"), default="redis")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run(
            Path(folder),
            samples=given.samples,
            kills=given.kills,
            restarts=given.restarts,
            thefts=given.thefts,
            broker=given.broker,
            workers=given.workers,
            seed=given.seed,
            rate=given.rate,
        )
    print(
        f"{report.samples} samples, {report.kills} kills, {report.restarts} restarts, "
        f"{report.thefts} thefts of {given.broker} in {report.seconds:.0f} s: "
        f"shipped {report.stats.shipped}, dropped "
        f"{dict(report.stats.dropped)}, lost {report.lost}, twice {report.twice} "
        f"(lines: {report.lines_twice}), "
        f"counts {dict(report.books)}, add up: {report.adds_up}"
    )
    return int(report.lost > 0 or report.twice > 0 or not report.adds_up)


if __name__ == "__main__":
    sys.exit(main())
