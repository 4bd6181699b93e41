"""Cost of telemetry on the evaluator's thread per sample: spans, log events, metrics.

Everything goes to the real SDK with batch processors, whose exporters throw away what they get.
Each row adds one signal to the row before; the last column compares with the CPU time of the
evaluation itself by the embedded judge, in the same run. Nothing of this is on a request's path.

The rows of the platforms follow, against servers on loopback that take everything: what it costs
the evaluator to hand over a sample's scores, and all threads, the server's included, to send them.

    python -m benchmarks.sinks_cost [--samples 400] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    LogRecordExporter,
    LogRecordExportResult,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import format_span_id, format_trace_id

from benchmarks.table import parser_of, written
from rag_eval_hooks import Context, RagEval, RagEvalConfig, Sample
from rag_eval_hooks.delivery.delivery import Delivery
from rag_eval_hooks.delivery.destination import Limits
from rag_eval_hooks.delivery.platforms.langfuse import LangfuseSink
from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink
from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.pipeline.wiring import Providers, telemetry_of
from rag_eval_hooks.request import HeldSpan
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.telemetry.rag_span import SpanHolder
from rag_eval_hooks.telemetry.thresholds import Thresholds
from rag_eval_hooks.testing import ScriptedJudge
from tests.servers.platform_server import Answer, PlatformServer, Request

SAMPLE = Sample(
    question="How long do cats sleep, and when are they awake?",
    contexts=tuple(
        Context(text=f"Passage {n}: cats sleep {n} hours a day.") for n in range(12, 17)
    ),
    answer="Cats sleep 16 hours a day. They are awake at dusk and dawn. They like fish.",
    reference="Cats sleep 12 to 16 hours a day and are awake at dusk and dawn.",
    workflow="help",
)


class NoSpans(SpanExporter):
    """Throws spans away."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Always well."""
        return SpanExportResult.SUCCESS


class NoLogs(LogRecordExporter):
    """Throws log records away."""

    def export(self, batch: Sequence[Any]) -> LogRecordExportResult:
        """Always well."""
        return LogRecordExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 0) -> bool:
        """Always well."""
        return True

    def shutdown(self) -> None:
        """Does nothing."""


def evaluated(metrics: str, rounds: int) -> tuple[Outcomes, float]:
    """Outcomes of the sample, and the CPU seconds that one evaluation takes."""
    with RagEval(metrics=metrics) as evals:
        outcomes = evals.evaluate(SAMPLE)
        began = time.process_time()
        for number in range(rounds):
            # Another answer each time: findings of equal texts are remembered.
            evals.evaluate(Sample(**{**SAMPLE.to_dict(), "answer": f"{SAMPLE.answer} {number}"}))
        return outcomes, (time.process_time() - began) / rounds


class Bench:
    """Providers with batch processors, and outcomes to publish."""

    def __init__(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(BatchSpanProcessor(NoSpans(), max_queue_size=100_000))
        self.loggers = LoggerProvider()
        self.loggers.add_log_record_processor(
            BatchLogRecordProcessor(NoLogs(), max_queue_size=100_000)
        )
        self.meters = MeterProvider([InMemoryMetricReader()])

    def seconds(self, samples: int, *, evaluation_span: Any, events: bool, metrics: bool) -> float:
        """CPU seconds of this thread for one sample, without the making of its RAG span."""
        incidents = Incidents()
        telemetry = telemetry_of(
            RagEvalConfig(evaluation_span=evaluation_span),
            Providers(
                tracer=self.tracers,
                logger=self.loggers if events else NoOpLoggerProvider(),
                meter=self.meters if metrics else NoOpMeterProvider(),
            ),
            Thresholds({}, ()),
            ScriptedJudge(),
            incidents,
        )
        holder = SpanHolder(hold_timeout=60, max_held=samples, incidents=incidents)
        tracer = self.tracers.get_tracer("bench")
        held = [HeldSpan(tracer.start_span("rag"), time.time_ns()) for _ in range(samples)]
        for waiting in held:
            holder.hold(waiting)
        began = time.thread_time()
        for waiting in held:
            self._publish(telemetry, waiting, holder)
        spent = time.thread_time() - began
        assert incidents.counts() == {}
        return spent / samples

    def _publish(self, telemetry: Any, held: HeldSpan, holder: SpanHolder) -> None:
        context = held.span.get_span_context()  # type: ignore[attr-defined]
        sample = Sample(
            question="q",
            workflow="help",
            trace_id=format_trace_id(context.trace_id),
            span_id=format_span_id(context.span_id),
        )
        now = time.time_ns()
        evaluation = telemetry.evaluated(
            sample, self.outcomes, probability=1.0, reason="ratio", start=now, end=now
        )
        telemetry.publish(evaluation, lambda *told: holder.finish(held, *told))


def platform_seconds(make: Any, outcomes: Outcomes, samples: int) -> tuple[float, float]:
    """Return CPU seconds of the evaluator to hand a sample over, and of all threads to send it."""
    with PlatformServer(well) as server:
        incidents = Incidents()
        limits = Limits(timeout=30.0, queue_chars=1_000_000_000)
        sink = make(server.url)
        delivery = Delivery([sink], RagEvalConfig(), incidents, limits=limits)
        sample = Sample(question="q", trace_id="a" * 32, span_id="b" * 16)
        evaluation = Evaluation(sample=sample, outcomes=outcomes, probability=None, start=0, end=0)
        began, all_began = time.thread_time(), time.process_time()
        for _ in range(samples):
            delivery.put(evaluation, delivery.lacking(evaluation))
        taken = time.thread_time() - began
        assert delivery.flush(300)
        spent = time.process_time() - all_began - taken
        delivery.close()
        assert incidents.counts() == {}
        return taken / samples, spent / samples


def well(request: Request) -> Answer:
    """What each platform says when all is well."""
    if "scores" in request.path:
        return Answer(202, {"message": "Accepted"})
    return Answer(body={"trace": {"trace_info": {}}})


PLATFORMS: dict[str, Any] = {
    "phoenix": PhoenixSink,
    "mlflow": MlflowSink,
    "langfuse": lambda url: LangfuseSink(url, public_key="pk", secret_key="sk"),
}
STEPS: dict[str, dict[str, Any]] = {
    "span": {"evaluation_span": "off", "events": False, "metrics": False},
    "+ evaluation span": {"evaluation_span": "trace", "events": False, "metrics": False},
    "+ log events": {"evaluation_span": "trace", "events": True, "metrics": False},
    "+ metrics": {"evaluation_span": "trace", "events": True, "metrics": True},
}


def main() -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = [row for metrics in ("ragas", "all") for row in costs(metrics, options)]
    written(rows, options.json)


def costs(metrics: str, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield a row for each signal, and one for each platform."""
    outcomes, evaluation = evaluated(metrics, options.rounds * 10)
    bench = Bench(outcomes)
    rounds = [
        {step: bench.seconds(options.samples, **how) for step, how in STEPS.items()}
        for _ in range(options.rounds)
    ]

    def row(what: str, taken: float, sent: float | None = None) -> dict[str, object]:
        share = (taken + (sent or 0.0)) / evaluation
        named = {"metrics": metrics, "what": what, "us": taken * 1e6}
        return named | {"us to send": sent and sent * 1e6, "of the evaluation": share}

    for step in STEPS:
        yield row(step, statistics.median(each[step] for each in rounds))
    for name, make in PLATFORMS.items():
        yield row(name, *platform_seconds(make, outcomes, min(options.samples, 50)))


if __name__ == "__main__":
    main()
