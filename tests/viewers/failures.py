"""Fate of scores when a back end fails: `python -m tests.viewers.failures`.

Each cell is a run: an evaluator with one sink, a real failing server on loopback, small limits.
"""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from rag_eval_hooks import RagEval, RagEvalConfig
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery.platforms.base import PlatformSink
from rag_eval_hooks.delivery.platforms.langfuse import LangfuseSink
from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink
from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from rag_eval_hooks.sample import Context
from tests.viewers.backend import FAULTS, Backend
from tests.waiting import PATIENCE

__all__ = ["SINKS", "Cell", "alone", "run"]

SAMPLES = 120
QUEUE = 64
CHARS = 30_000
TIMEOUT = 0.5
PAUSE = 0.01


@dataclass(frozen=True)
class Cell:
    """Counts of the samples of one run.

    Attributes:
        offered: Samples.
        scored: Of these, evaluated.
        arrived: Of these, whose scores the back end took.
        lost: Of these, whose scores it did not.
        kept: Most that waited in memory at once.
        limit: Most that may wait.
        told: Where losses are told, with a count.
    """

    offered: int
    scored: int
    arrived: int
    lost: int
    kept: int
    limit: int
    told: dict[str, int]


class Parts:
    """Parts of one run; `waits` says how many samples wait in memory.

    Args:
        timeout: Seconds for one request to the back end.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.tracers = TracerProvider()
        self.loggers = LoggerProvider()
        self.meters = MeterProvider()
        self.sinks: list[Any] = []
        self.waits: Callable[[], int] = lambda: 0
        self.limit = 0
        self.close: Callable[[], None] = lambda: None


def _spans(parts: Parts, url: str) -> None:
    exporter = OTLPSpanExporter(f"{url}/v1/traces", timeout=parts.timeout)
    processor = BatchSpanProcessor(exporter, max_queue_size=QUEUE, max_export_batch_size=16)
    parts.tracers.add_span_processor(processor)
    parts.waits, parts.limit = lambda: len(processor._batch_processor._queue), QUEUE


def _logs(parts: Parts, url: str) -> None:
    exporter = OTLPLogExporter(f"{url}/v1/logs", timeout=parts.timeout)
    processor = BatchLogRecordProcessor(exporter, max_queue_size=QUEUE, max_export_batch_size=16)
    parts.loggers.add_log_record_processor(processor)
    parts.waits, parts.limit = lambda: len(processor._batch_processor._queue), QUEUE


def _metrics(parts: Parts, url: str) -> None:
    exporter = OTLPMetricExporter(f"{url}/v1/metrics", timeout=parts.timeout)
    parts.meters = MeterProvider([PeriodicExportingMetricReader(exporter, 200)])


def _platform(make: Callable[[str], PlatformSink]) -> Callable[[Parts, str], None]:
    def build(parts: Parts, url: str) -> None:
        sink = make(url)
        parts.sinks = [sink]
        # A report counts at least 500 characters.
        parts.waits, parts.limit = lambda: sink.books()["waiting"], CHARS // 500

    return build


def _own(parts: Parts, url: str) -> None:
    import httpx

    client = httpx.Client(base_url=url, timeout=60)

    def send(_: Any, outcomes: Any) -> None:
        scores = [outcome.value for outcome in outcomes.values()]
        client.post("/own", json=scores).raise_for_status()

    parts.sinks, parts.close = [send], client.close


SINKS: dict[str, Callable[[Parts, str], None]] = {
    "spans by OTLP": _spans,
    "log events by OTLP": _logs,
    "metrics by OTLP": _metrics,
    "Phoenix": _platform(PhoenixSink),
    "MLflow": _platform(MlflowSink),
    "Langfuse": _platform(lambda url: LangfuseSink(url, public_key="pk", secret_key="sk")),
    "a function of yours": _own,
}


def run(sink: str, fault: str, samples: int = SAMPLES) -> Cell:
    """Evaluates samples with one sink whose back end has a fault."""
    # Who is well answers, however busy the machine is; a request that is sent again counts twice.
    parts = Parts(PATIENCE if fault == "well" else TIMEOUT)
    small = pytest.MonkeyPatch.context()
    with Backend(fault) as backend, _sdk_logs() as told, small as patch:
        patch.setattr(limits, "SINK_QUEUE_CHARS", CHARS)
        patch.setattr(limits, "SINK_SECONDS", parts.timeout)
        patch.setattr(limits, "SINK_RETRY_SECONDS", 1.0)
        SINKS[sink](parts, backend.url)
        evals = RagEval(
            "lexical.source_citation",
            sinks=parts.sinks,
            config=RagEvalConfig(evaluation_span="off", exit_timeout=2.0),
            tracer_provider=parts.tracers,
            logger_provider=parts.loggers,
            meter_provider=parts.meters,
        )
        # Clients are made with the first sample; who is well has caught up then.
        first = 1 if fault == "well" else 0
        _offer(evals, range(first), parts.waits)
        kept = _offer(evals, range(first, samples), parts.waits)
        stats = evals.stats()
        for provider in (parts.tracers, parts.loggers, parts.meters):
            provider.shutdown()
        evals.shutdown()
        incidents = evals.stats().incidents
        arrived = backend.samples
    parts.close()
    # Neither a try that is made again nor the end of a sink is a sample.
    lost = {
        name: count
        for name, count in incidents.items()
        if not name.endswith(": Retry") and " close:" not in name
    }
    return Cell(
        offered=stats.offered,
        scored=stats.scored,
        arrived=arrived,
        lost=stats.scored - arrived,
        kept=kept,
        limit=parts.limit,
        told={**lost, **told},
    )


def alone(sink: str, fault: str, samples: int = SAMPLES) -> Cell:
    """The same in a process of its own: the SDK logs a failure of one kind once a while."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(run, sink, fault, samples).result(300)


def _offer(evals: RagEval, numbers: range, waits: Callable[[], int]) -> int:
    """Captures requests as an application does; the most that waited in a sink meanwhile."""
    kept = 0
    for number in numbers:
        time.sleep(PAUSE)
        root = evals.recorder.start(2 * number, None, RunKind.CHAIN, "help")
        assert root is not None
        root.query, root.text = "q", "a, see page 1"
        run = evals.recorder.start(2 * number + 1, 2 * number, RunKind.RETRIEVER, "store")
        assert run is not None
        evals.recorder.documents(run, [Context(text="a chunk")])
        evals.recorder.end(run)
        evals.recorder.end(root)
        kept = max(kept, waits())
    deadline = time.monotonic() + 120
    while evals.stats().pending and time.monotonic() < deadline:
        kept = max(kept, waits())
        time.sleep(0.01)
    kept = max(kept, waits())
    if numbers:
        evals.flush(10)
    return kept


@contextmanager
def _sdk_logs() -> Iterator[dict[str, int]]:
    """Count the losses that OpenTelemetry's SDK logs."""
    counted: dict[str, int] = {}

    class Counting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            key = f"log of {record.name.partition('.exporter')[0].partition('.sdk')[0]}"
            counted[key] = counted.get(key, 0) + 1

    handler, logger = Counting(logging.WARNING), logging.getLogger("opentelemetry")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield counted
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


def main() -> None:
    """Prints the table."""
    print("| sink | back end | offered | scored | arrived | lost | waited at most | told |")
    print("|---|---|---|---|---|---|---|---|")
    for sink in SINKS:
        for fault in FAULTS:
            cell = alone(sink, fault)
            kept = f"{cell.kept} of {cell.limit}" if cell.limit else "-"
            told = ", ".join(f"{name}: {count}" for name, count in cell.told.items()) or "-"
            numbers = f"{cell.offered} | {cell.scored} | {cell.arrived} | {cell.lost}"
            print(f"| {sink} | {fault} | {numbers} | {kept} | {told} |", flush=True)


if __name__ == "__main__":
    main()
