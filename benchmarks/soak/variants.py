"""The ways to evaluate that are compared, each with its evaluator, books and figures."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from benchmarks.placement import packaged
from rag_eval_hooks import RagEval, RagEvalConfig

__all__ = ["Spans", "Variant", "variants"]

QUEUE = 10
"""Samples that may wait: few, so that what a block left is soon evaluated."""
_COMMON: dict[str, Any] = {
    "sample_rate": 0.8,
    "queue_size": QUEUE,
    "judge_concurrency": 8,
    "judge_timeout": 3.0,
    "sample_timeout": 20.0,
    "hold_timeout": 5.0,
    # Longer than any request takes on a machine without a processor to spare.
    "interaction_ttl": 300.0,
    # Full after the first minutes, so that memory is flat from then on where it ever will be.
    "feedback_samples": 100,
}


class Spans(SpanProcessor):
    """Counts spans and keeps none."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        """Counts a beginning."""
        self.counts["started"] += 1

    def on_end(self, span: ReadableSpan) -> None:
        """Counts an end."""
        self.counts["ended"] += 1


@dataclass
class Variant:
    """One way to evaluate, and its figures.

    Attributes:
        name: What it is.
        folder: Its spool, results and budget.
        evals: The evaluator, or None.
        spans: Those of its provider.
        sent: Requests by how their interaction is to end.
        feedback: Feedback that was given.
        latencies: Milliseconds of each request, by block.
        scored: Samples scored when their block was over.
    """

    name: str
    folder: Path
    evals: RagEval | None = None
    spans: Spans = field(default_factory=Spans)
    sent: Counter[str] = field(default_factory=Counter)
    feedback: int = 0
    latencies: list[array[float]] = field(default_factory=list)
    scored: int = 0

    @property
    def results(self) -> Path:
        """What its file sink writes."""
        return self.folder / "results.jsonl"


def variants(folder: Path, url: str, calls_per_hour: float, model: bool) -> Iterator[Variant]:
    """No handler; a judge over HTTP; MiniLM in a thread and in a process."""
    yield _made(folder, "no handler")
    judged = _made(folder, "judge")
    _evaluated(
        judged,
        metrics=("ragas.faithfulness",),
        judge="openai:soak",
        judge_base_url=url,
        judge_api_key="soak",
        embedder="none",
        budget={
            "calls_per_hour": calls_per_hour,
            "path": str(judged.folder / "budget.sqlite"),
        },
    )
    yield judged
    for where in ("thread", "process") if model else ():
        local = _made(folder, f"MiniLM, {where}")
        _evaluated(local, judge="local", embedder=packaged(), model_process=where == "process")
        yield local


def _made(folder: Path, name: str) -> Variant:
    own = folder / name.replace(", ", "-").replace(" ", "-")
    own.mkdir()
    return Variant(name, own)


def _evaluated(variant: Variant, **settings: Any) -> None:
    tracer = TracerProvider()
    tracer.add_span_processor(variant.spans)
    config = RagEvalConfig(
        **_COMMON,
        spool=str(variant.folder / "spool"),
        sinks=(f"jsonl:{variant.results}",),
        **settings,
    )
    variant.evals = RagEval(
        config=config,
        tracer_provider=tracer,
        meter_provider=MeterProvider([InMemoryMetricReader()]),
    )
