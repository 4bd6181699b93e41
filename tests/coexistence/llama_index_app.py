"""An application on LlamaIndex with another instrumentor and us; prints its spans as JSON."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from llama_index.core import set_global_tokenizer
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import StreamingResponse
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks import RagEval, RagEvalConfig
from rag_eval_hooks.span_processor import RagEvalSpanProcessor
from rag_eval_hooks.testing import Findings, ScriptedJudge, Support


class Store(BaseRetriever):
    """Two nodes for any question."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        text = f"A document about {query_bundle.query_str}, which is long enough to find."
        return [NodeWithScore(node=TextNode(text=text), score=0.5)]


def engine(streaming: bool = False) -> RetrieverQueryEngine:
    """A real query engine with LlamaIndex's own mock model."""
    synthesizer = get_response_synthesizer(llm=MockLLM(max_tokens=5), streaming=streaming)
    return RetrieverQueryEngine(Store(), synthesizer)


def query() -> None:
    """One sync query."""
    engine().query("cats and dogs")


def aquery() -> None:
    """One async query."""
    asyncio.run(engine().aquery("cats and dogs"))


def stream() -> None:
    """One streamed query, read to its end."""
    response: Any = engine(streaming=True).query("cats and dogs")
    assert "".join(response.response_gen)


class Own(CustomQueryEngine):
    """An engine that changes what the model says while it is read."""

    def custom_query(self, query_str: str) -> StreamingResponse:
        answer: Any = engine(streaming=True).query(query_str)
        return StreamingResponse(word.upper() for word in answer.response_gen)


def own_stream() -> None:
    """A stream of the application's own, read to its end."""
    response: Any = Own().query("cats and dogs")
    assert "".join(response.response_gen).isupper()


SHAPES: dict[str, Callable[[], None]] = {
    "query": query,
    "aquery": aquery,
    "stream": stream,
    "own_stream": own_stream,
}


class World:
    """One tracer provider, OpenInference, and us."""

    def __init__(self, *, wrap: bool, first: bool) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        half = (Support((True,)), Support((False,)))
        judge = ScriptedJudge(Findings(answer_claims=("a", "b"), answer_support=half), latency=0.05)
        self.evals = RagEval(
            metrics=["ragas.faithfulness"],
            judge=judge,
            config=RagEvalConfig(),
            tracer_provider=self.provider,
        )
        plain = BatchSpanProcessor(self.exporter) if wrap else SimpleSpanProcessor(self.exporter)
        self.provider.add_span_processor(RagEvalSpanProcessor(plain, self.evals) if wrap else plain)
        self.first = first
        if not first:
            self.instrument()

    def instrument(self) -> None:
        """Turns on OpenInference."""
        module = importlib.import_module("openinference.instrumentation.llama_index")
        module.LlamaIndexInstrumentor().instrument(
            tracer_provider=self.provider, skip_dep_check=True
        )

    def enable(self) -> None:
        """Turns us on."""
        importlib.import_module("rag_eval_hooks_llama_index").enable(self.evals)

    def call(self, shape: str) -> list[dict[str, Any]]:
        """Every span of one call."""
        self.exporter.clear()
        SHAPES[shape]()
        self.evals.flush(300)
        self.provider.force_flush()
        return [described(span) for span in self.exporter.get_finished_spans()]


def described(span: ReadableSpan) -> dict[str, Any]:
    """Return the parts of a span that the test compares."""
    return {
        "name": span.name,
        "scope": span.instrumentation_scope.name if span.instrumentation_scope else "",
        "id": span.context.span_id,
        "links": [link.context.span_id for link in span.links],
        "attributes": dict(span.attributes or {}),
    }


def main(wrap: bool, first: bool, ours: bool) -> dict[str, Any]:
    """The spans of every shape."""
    world = World(wrap=wrap, first=first)
    if ours:
        world.enable()
    if first:
        world.instrument()
    spans: dict[str, Any] = {shape: world.call(shape) for shape in SHAPES}
    return {**spans, "incidents": dict(world.evals.stats().incidents)}


if __name__ == "__main__":
    set_global_tokenizer(str.split)
    settings = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(main(**settings), default=str) + "\n")
