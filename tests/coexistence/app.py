"""An application with our handler and another instrumentor. It prints its spans as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks import RagEval, RagEvalConfig
from rag_eval_hooks.findings import Findings, Support
from rag_eval_hooks.span_processor import RagEvalSpanProcessor
from rag_eval_hooks.testing import ScriptedJudge

LANGCHAIN = {
    "openinference": ("openinference.instrumentation.langchain", "LangChainInstrumentor"),
    "traceloop": ("opentelemetry.instrumentation.langchain", "LangchainInstrumentor"),
    "official": ("opentelemetry.instrumentation.genai.langchain", "LangChainInstrumentor"),
}
LLAMA_INDEX = ("openinference.instrumentation.llama_index", "LlamaIndexInstrumentor")


def instrument(provider: TracerProvider, module: str, name: str) -> None:
    instrumentor = getattr(import_module(module), name)()
    instrumentor.instrument(tracer_provider=provider, skip_dep_check=True)


def langfuse(provider: TracerProvider) -> Any:
    keys = {"public_key": "pk-test", "secret_key": "sk-test", "base_url": "http://127.0.0.1:9"}
    kept = {"tracer_provider": provider, "span_exporter": InMemorySpanExporter()}
    import_module("langfuse").Langfuse(**keys, **kept)
    return import_module("langfuse.langchain").CallbackHandler(public_key="pk-test")


def langchain_shapes() -> dict[str, Callable[[Any], object]]:
    from tests.matrix.langchain import kit
    from tests.matrix.langchain.compat import classic
    from tests.matrix.langchain.graphs import direct
    from tests.matrix.langchain.lcel import plain

    def retrieval_qa(config: Any) -> object:
        chain = classic("chains.RetrievalQA")
        made = chain.from_chain_type(kit.reader(kit.QUESTION), retriever=kit.base(1))
        return made.invoke({"query": kit.QUESTION}, config)

    def graph(config: Any) -> object:
        made = direct(lambda state: {kit.FOUND: kit.base(1).invoke(state[kit.ASKED])})
        return made.invoke({kit.ASKED: kit.QUESTION}, config)

    return {
        "lcel": lambda config: plain(1).invoke(kit.QUESTION, config),
        "classic": retrieval_qa,
        "graph": graph,
    }


def llama_index_shapes() -> dict[str, Callable[[Any], object]]:
    from llama_index.core.base.response.schema import StreamingResponse
    from llama_index.core.query_engine import CustomQueryEngine

    from tests.matrix.llama_index.kit import index_of, says
    from tests.support.variation import Variation, run_seed

    draw = Variation(run_seed())
    index, question, said = index_of(tuple(draw.passages(2))), draw.question(), draw.sentence()

    def engine(streaming: bool = False) -> Any:
        return index.as_query_engine(llm=says(said), similarity_top_k=1, streaming=streaming)

    class Own(CustomQueryEngine):
        def custom_query(self, query_str: str) -> StreamingResponse:
            answer: Any = engine(streaming=True).query(query_str)
            return StreamingResponse(word.upper() for word in answer.response_gen)

    return {
        "query": lambda _: engine().query(question),
        "aquery": lambda _: asyncio.run(engine().aquery(question)),
        "stream": lambda _: "".join(engine(streaming=True).query(question).response_gen),
        "own_stream": lambda _: "".join(Own().query(question).response_gen),  # type: ignore[union-attr, arg-type]
    }


class World:
    def __init__(self, name: str, *, wrap: bool, order: str, **config: Any) -> None:
        self.order, self.exporter, self.provider = order, InMemorySpanExporter(), TracerProvider()
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
        self.handlers: list[Any] = []
        self.framework = "llama_index" if name == "llama_index" else "langchain"
        ours = import_module(f"rag_eval_hooks_{self.framework}")
        if order == "before":
            ours.enable(self.evals)
        if name == "langfuse":
            self.handlers = [langfuse(self.provider)]
        else:
            instrument(self.provider, *({**LANGCHAIN, "llama_index": LLAMA_INDEX}[name]))
        if order == "after":
            ours.enable(self.evals)
        if order in ("first", "last"):
            place = 0 if order == "first" else len(self.handlers)
            self.handlers.insert(place, ours.RagEvalCallbackHandler(self.evals))

    def spans(self) -> dict[str, Any]:
        makers = {"langchain": langchain_shapes, "llama_index": llama_index_shapes}
        found: dict[str, Any] = {}
        for shape, call in makers[self.framework]().items():
            self.exporter.clear()
            call({"callbacks": self.handlers})
            self.evals.flush(300)
            self.provider.force_flush()
            found[shape] = [described(span) for span in self.exporter.get_finished_spans()]
        return {**found, "incidents": dict(self.evals.stats().incidents)}


def described(span: ReadableSpan) -> dict[str, Any]:
    return {
        "name": span.name,
        "is_ours": getattr(span.instrumentation_scope, "name", "") == "rag_eval_hooks",
        "id": span.context.span_id,
        "links": [link.context.span_id for link in span.links],
        "attributes": dict(span.attributes or {}),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(World(**json.loads(sys.argv[1])).spans(), default=str) + "\n")
