"""Throughput of 1, 2 and 4 workers, and what a sample costs the application that ships it.

The judge answers after 200 ms and is not the limit. All samples wait in a real Redis before the
workers begin; from the first result to the last, samples a second are counted.

    python -m benchmarks.fleet_throughput [--workers 1,2,4] [--samples 240] [--concurrency 8]
    python -m benchmarks.fleet_throughput --cost
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
import zlib
from pathlib import Path
from pydoc_data.topics import topics

from rag_eval_hooks import RagEval, Sample
from rag_eval_hooks.decision import Decision, Rates, Share
from rag_eval_hooks.fleet.broker import BATCH_SAMPLES
from rag_eval_hooks.fleet.wire import Batch, Shipped
from tests.servers.brokers import RedisServer
from tests.servers.judge_server import JudgeServer
from tests.support.fleet import WorkerProcess
from tests.waiting import until

METRIC = "ragas.faithfulness"
_ENGLISH = "".join(topics.values())
"""Text as people write it, which compresses as such."""


def _sample(number: int, contexts: int = 1, chars: int = 40) -> Sample:
    begins = [(number * contexts + n) * chars % (len(_ENGLISH) - chars) for n in range(contexts)]
    passages = tuple(f"Quay {number} opened in 1931. {_ENGLISH[n : n + chars]}" for n in begins)
    return Sample(
        question=f"When was quay {number} opened?",
        contexts=passages,  # type: ignore[arg-type]
        answer=f"Quay {number} opened in 1931.",
        sample_id=uuid.uuid4().hex,
    )


def throughput(workers: int, samples: int, concurrency: int) -> tuple[float, float]:
    """Return samples a second of so many workers, and seconds of a core for each sample."""
    with (
        tempfile.TemporaryDirectory() as name,
        RedisServer(Path(name) / "redis") as redis,
        JudgeServer(latency=0.2, keep=False) as judge,
    ):
        folder = Path(name)
        with RagEval(METRIC, embedder="none", evaluator="celery", broker=redis.url) as evals:
            fleet = [
                WorkerProcess(
                    folder / str(number),
                    redis.url,
                    sinks="jsonl:results.jsonl",
                    judge="openai:test-model",
                    judge_base_url=judge.url,
                    judge_api_key="k",
                    judge_concurrency=str(concurrency),
                )
                for number in range(workers)
            ]
            for one in fleet:
                one.start()
            until(lambda: all(one.is_ready for one in fleet), "the workers' start")
            total = samples * workers
            # Batches of few samples spread over all workers; warm-up is not counted.
            for number in range(total):
                evals.offer(_sample(number))
                if number % 4 == 3:
                    time.sleep(0.001)
            evals.flush(120)

            def done() -> int:
                files = folder.glob("*/results.jsonl")
                return sum(file.read_bytes().count(b"\n") for file in files)

            until(lambda: done() >= 0.1 * total, "the first results")
            first, began = done(), time.monotonic()
            spent = -sum(one.cpu_seconds for one in fleet)
            until(lambda: done() >= 0.8 * total, "most results")
            counted = done() - first
            rate = counted / (time.monotonic() - began)
            spent += sum(one.cpu_seconds for one in fleet)
            for one in fleet:
                one.end()
        return rate, spent / counted


def cost(samples: int) -> None:
    """Print microseconds of the request and of the background, and bytes on the wire."""
    with tempfile.TemporaryDirectory() as name, RedisServer(Path(name)) as redis:
        client = redis.client()

        def memory() -> float:
            return float(client.info("memory")["used_memory_dataset"])

        made = [_sample(n, contexts=5, chars=500) for n in range(samples)]
        with RagEval(
            METRIC, embedder="none", evaluator="celery", broker=redis.url, queue_size=samples
        ) as evals:
            evals.offer(_sample(-1))
            evals.flush(60)
            empty = memory()
            cpu = time.process_time()
            thread = time.thread_time()
            for sample in made:
                evals.offer(sample)
            request = time.thread_time() - thread
            evals.flush(60)
            background = time.process_time() - cpu - request
            waiting = memory() - empty
            assert evals.stats().shipped == samples + 1
    decision = Decision(0, Rates({METRIC: Share(1.0)}))
    items = [Shipped(sample=one, decision=decision, accepted_at=time.time()) for one in made]
    text = Batch(service="shop", items=items[:BATCH_SAMPLES]).text()
    sent = len(zlib.compress(text.encode())) / BATCH_SAMPLES
    print(
        f"{samples} samples of {made[0].chars} characters: "
        f"request {request / samples * 1e6:.0f} us, "
        f"background {background / samples * 1e6:.0f} us, "
        f"{len(text) / BATCH_SAMPLES:.0f} bytes as JSON, {sent:.0f} compressed, "
        f"{waiting / samples:.0f} in Redis"
    )


def main() -> None:
    """Measure by the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--samples", type=int, default=240, help="for each worker")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--cost", action="store_true")
    given = parser.parse_args()
    if given.cost:
        cost(5000)
        return
    single = 0.0
    for workers in map(int, given.workers.split(",")):
        rate, cpu = throughput(workers, given.samples, given.concurrency)
        single = single or rate / workers
        print(
            f"{workers} workers: {rate:.1f} samples/s, {rate / (single * workers):.2f} of linear, "
            f"{cpu * 1000:.1f} ms of a core for each sample"
        )


if __name__ == "__main__":
    main()
