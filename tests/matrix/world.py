"""An evaluator of which everything can be seen: samples, spans, books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from rag_eval_hooks import Metric, RagEval, RagEvalConfig, Sample, Score
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.request import Request
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from tests.support.limits import small_limits
from tests.viewers.genai_tab import problems

SERVER_SPAN = "GET /ask"
"""Name of a span of the application, which is none of ours."""


class Seen(NamedTuple):
    sample: Sample
    spans: tuple[str, ...]


class World:
    """An evaluator with one cheap metric, and an in-memory exporter of the spans."""

    def __init__(
        self, sampler: Sampler = ALWAYS_ON, *, captures: bool = True, **config: Any
    ) -> None:
        self.captures = captures
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.memory = MemorySink()
        with small_limits(config):
            self.evals = _Watched(
                metrics=[Metric(id="matrix.constant", score=_constant, needs=frozenset())],
                judge=ScriptedJudge(),
                sinks=[self.memory],
                # Counted here are the spans of requests.
                config=RagEvalConfig(evaluation_span="off", **{"capture_content": True, **config}),
                tracer_provider=self.provider,
            )

    def seen(self) -> list[Seen]:
        assert self.evals.flush(300), "the evaluator did not finish"
        spans = self.exporter.get_finished_spans()
        found = [Seen(sample, _below(spans, sample.span_id)) for sample in self.evals.samples()]
        return sorted(found, key=lambda seen: (seen.sample.question, seen.sample.answer or ""))

    def traces(self) -> int:
        return len({span.context.trace_id for span in self.exporter.get_finished_spans()})

    def disorder(self, incidents: Mapping[str, int]) -> str:
        """Return what is open, was leaked, or does not add up; empty when all is well."""
        stats = self.evals.stats()
        samples = self.evals.samples()
        wrong = {
            "open interactions": (len(self.evals.recorder), 0),
            "offered": (stats.offered, len(samples)),
            "scored": (stats.scored, sum(s.status == "ok" for s in samples)),
            "traces": (self.traces(), len(samples)),
            "incidents": (stats.incidents, dict(incidents)),
            "GenAI tab": (self.problems(), []),
            "current span": (trace.get_current_span(), trace.INVALID_SPAN),
        }
        return "; ".join(f"{k}: {got}, not {due}" for k, (got, due) in wrong.items() if got != due)

    def problems(self) -> list[str]:
        """Return what Jaeger's GenAI tab could not show of any span."""
        spans = [one for one in self.exporter.get_finished_spans() if one.name != SERVER_SPAN]
        return [text for span in spans for text in problems(span.name, span.attributes or {})]

    def close(self) -> None:
        self.evals.shutdown()


class _Watched(RagEval):
    """Keeps the samples that it is offered, whatever their status."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._samples: list[Sample] = []
        pipeline = self._pipeline
        submit = pipeline.submit

        def watched(request: Request) -> bool:
            # A request that is dropped releases its sample.
            self._samples.append(request.sample())
            return submit(request)

        pipeline.submit = watched  # type: ignore[method-assign]

    def samples(self) -> list[Sample]:
        return list(self._samples)


def _constant(_sample: Sample, _findings: Findings) -> Score:
    return Score(value=1.0, normalized=1.0)


def _below(spans: Sequence[ReadableSpan], span_id: str | None, depth: int = 0) -> tuple[str, ...]:
    children = [span for span in spans if span.parent and f"{span.parent.span_id:016x}" == span_id]
    blocks = []
    for child in children:
        lines = _below(spans, f"{child.context.span_id:016x}", depth + 1)
        blocks.append(("  " * depth + child.name, *lines))
    return tuple(line for block in sorted(blocks) for line in block)
