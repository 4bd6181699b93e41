"""Measure how many samples per second a sink delivers to a slow and faulty platform.

    python -m benchmarks.sink_throughput [--samples 600] [--latency 0.1] [--failures 0.08]

A local server replaces the platform. The server answers a fraction `--failures` of the requests
with 500 or 429. For half of these requests, the server stores the scores before the error.
`times one request` divides the samples per second by the rate of a sink that sends one request at a
time. Each row also counts the scores that were lost or stored twice.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.table import parser_of, written
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery.codec import from_text
from rag_eval_hooks.delivery.dispatch import AnySink, Dispatch
from rag_eval_hooks.delivery.outbox import Outbox
from rag_eval_hooks.delivery.platforms.langfuse import LangfuseSink
from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink
from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Score
from tests.support.servers.platform_server import Answer, PlatformServer, Request

METRICS = ("ragas.faithfulness", "lexical.exact_match", "whitepaper.completeness")
SINKS: dict[str, Callable[[str], PlatformSink]] = {
    "phoenix": PhoenixSink,
    "mlflow": MlflowSink,
    "langfuse": lambda url: LangfuseSink(url, public_key="pk", secret_key="sk"),
}


class Platform:
    def __init__(self, latency: float, failures: float) -> None:
        self._latency, self._failures = latency, failures
        self._random = random.Random(1)
        self._lock = threading.Lock()
        self.stored: Counter[str] = Counter()
        self.requests = 0

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests += 1
            fate = self._random.random() / self._failures if self._failures else 1.0
            if fate >= 0.5:
                answer = self._store(request)
        if fate < 1.0:
            answer = Answer(429 if self.requests % 2 else 500, {"error": "busy"})
        return Answer(answer.status, answer.body, after=self._latency)

    def _store(self, request: Request) -> Answer:
        if request.path.startswith("/v1/span_annotations"):
            for one in request.body["data"]:
                self.stored[f"{one['span_id']}/{one['name']}"] = 1
            return Answer(body={"data": []})
        if request.path.startswith("/api/public/scores"):
            for one in request.body:
                self.stored[one["id"]] = 1
            return Answer(202, {"message": "Accepted"})
        trace = request.path.split("/traces/")[1].split("/")[0]
        if request.method == "GET":
            return Answer(body={"trace": {"trace_info": {"assessments": self._assessed(trace)}}})
        if request.method == "POST":
            # Like MLflow, this platform keeps every added assessment.
            self.stored[f"{trace}/{request.body['assessment']['assessment_name']}"] += 1
        return Answer(body={"assessment": {"assessment_id": "as"}})

    def _assessed(self, trace: str) -> list[dict[str, Any]]:
        ours: dict[str, Any] = {"source": {"source_id": "rag_eval_hooks"}}
        ours["metadata"] = {"rag_eval.span_id": trace[-16:]}
        kept = [name for name in METRICS if self.stored[f"{trace}/{name}"]]
        return [{"assessment_name": name, "assessment_id": name, **ours} for name in kept]


def evaluation(number: int, scores: int) -> Evaluation:
    score = Score(value=0.5, normalized=0.5, explanation={"why": "x" * 300})
    outcomes = dict.fromkeys(METRICS[:scores], score)
    texts = {"question": "How long do cats sleep?", "answer": "Sixteen hours."}
    ids = {"trace_id": f"{number + 1:032x}", "span_id": f"{number + 1:016x}"}
    contexts = [f"Cats sleep {n} hours." for n in range(5)]
    sample = Sample.from_dict({**texts, **ids, "contexts": contexts})
    return Evaluation(sample=sample, outcomes=outcomes, probability=1.0, start=1, end=2)


def delivered(sink: AnySink, evaluations: Sequence[Evaluation]) -> float:
    incidents = Incidents()
    outbox = Outbox(None, max_bytes=0, incidents=incidents)
    delivery = Dispatch([sink], RagEvalConfig(), incidents, outbox, revive=from_text)
    began = time.monotonic()
    for one in evaluations:
        delivery.put(one, delivery.sinks_of(one), None)
    delivery.flush(300)
    took = time.monotonic() - began
    delivery.close()
    return took


def throughput(name: str, scores: int, args: argparse.Namespace) -> dict[str, object]:
    platform = Platform(args.latency, args.failures)
    evaluations = [evaluation(number, scores) for number in range(args.samples)]
    with PlatformServer(platform.answer) as server:
        took = delivered(SINKS[name](server.url), evaluations)
    requests_of_one = 1 + scores if name == "mlflow" else 1
    rate, expected = args.samples / took, args.samples * scores
    row = {"sink": name, "scores": scores, "samples/s": rate}
    row |= {"times one request": rate * args.latency * requests_of_one, "results": expected}
    lost, twice = expected - len(platform.stored), sum(n > 1 for n in platform.stored.values())
    return {**row, "lost": lost, "twice": twice}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--samples", type=int, default=600)
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--failures", type=float, default=0.08)
    args = parser.parse_args()
    rows = [throughput(name, scores, args) for name in SINKS for scores in (1, 3)]
    written(rows, args.json)


if __name__ == "__main__":
    main()
