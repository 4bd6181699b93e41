"""Application whose spans, log events and metrics are looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import TraceBasedExemplarFilter
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from rag_eval_hooks import Field, Metric, RagEval, RagEvalConfig, Score
from rag_eval_hooks.findings import Findings, Support
from rag_eval_hooks.score import Outcome
from rag_eval_hooks.testing import ScriptedJudge
from tests.support.evaluation import record_request
from tests.support.limits import small_limits
from tests.support.otel import Metrics, Spans

SECRET = "Cats can fly, says the handbook."
HALF = Findings(
    answer_claims=(SECRET, "b"), answer_support=(Support((True,)), Support((False,), reason="no"))
)


class World:
    def __init__(
        self,
        sampler: Sampler = ALWAYS_ON,
        limits: SpanLimits | None = None,
        metrics: Any = "ragas.faithfulness",
        judge: ScriptedJudge | str | None = None,
        sinks: Any = None,
        redact: Any = None,
        **config: Any,
    ) -> None:
        self.spans = Spans(sampler=sampler, span_limits=limits)
        self.logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
        self.loggers = LoggerProvider()
        self.loggers.add_log_record_processor(SimpleLogRecordProcessor(self.logs))
        self.metrics = Metrics(exemplar_filter=TraceBasedExemplarFilter())
        with small_limits(config):
            self.evals = RagEval(
                metrics=metrics,
                judge=judge or ScriptedJudge(HALF),
                sinks=sinks,
                redact=redact,
                config=RagEvalConfig(**config),
                tracer_provider=self.spans.provider,
                meter_provider=self.metrics.provider,
                logger_provider=self.loggers,
            )
        self._runs = 0

    def ask(self, flush: bool = True) -> None:
        self._runs += 1
        record_request(self.evals, f"{self._runs}", {"session_id": "s1"}, "help")
        if flush:
            assert self.evals.flush(60)

    def events(self) -> list[Any]:
        return [data.log_record for data in self.logs.get_finished_logs()]


OpenWorld = Callable[..., World]


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def many(count: int) -> list[Metric]:
    def score(*_: object) -> Outcome:
        return Score(value=0.5, normalized=0.5, label="half", explanation={"n": 1})

    return [
        Metric(id=f"own.m{number:03}", score=score, needs=frozenset({Field.QUESTION}))
        for number in range(count)
    ]
