"""What the applications and the tests of both frameworks share."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks import RagEval, RagEvalConfig
from rag_eval_hooks.span_processor import RagEvalSpanProcessor
from rag_eval_hooks.testing import Findings, ScriptedJudge, Support
from tests.support.variation import run_seed

SCORE = "rag.eval.ragas.faithfulness.score"
Spans: TypeAlias = list[dict[str, Any]]


class Application:
    """One tracer provider, and us; `wrap` lets spans wait for scores."""

    def __init__(self, *, wrap: bool, **config: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        half = (Support((True,)), Support((False,)))
        judge = ScriptedJudge(Findings(answer_claims=("a", "b"), answer_support=half), latency=0.03)
        self.evals = RagEval(
            metrics=["ragas.faithfulness"],
            judge=judge,
            config=RagEvalConfig(**config),
            tracer_provider=self.provider,
        )
        plain = BatchSpanProcessor(self.exporter) if wrap else SimpleSpanProcessor(self.exporter)
        self.provider.add_span_processor(RagEvalSpanProcessor(plain, self.evals) if wrap else plain)

    def finished(self) -> Spans:
        self.evals.flush(300)
        self.provider.force_flush()
        return [_described(span) for span in self.exporter.get_finished_spans()]


def _described(span: ReadableSpan) -> dict[str, Any]:
    return {
        "name": span.name,
        "scope": span.instrumentation_scope.name if span.instrumentation_scope else "",
        "id": span.context.span_id,
        "links": [link.context.span_id for link in span.links],
        "attributes": dict(span.attributes or {}),
    }


@functools.cache
def spans_of(app: str, settings: str) -> dict[str, Any]:
    """Run an application in a process of its own; return the spans of every shape.

    Args:
        app: Name of its file here.
        settings: Its arguments as JSON.
    """
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(app)), settings],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            "PYTHONPATH": ":".join(sys.path),
            "HOME": "/nonexistent",
            "RAGEVAL_RUN_SEED": str(run_seed()),
        },
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def names(spans: Spans, *, ours: bool) -> Counter[str]:
    return Counter(s["name"] for s in spans if (s["scope"] == "rag_eval_hooks") == ours)


def evaluation_of(spans: Spans) -> dict[str, Any]:
    (evaluation,) = [span for span in spans if span["name"].startswith("evaluation")]
    return evaluation
