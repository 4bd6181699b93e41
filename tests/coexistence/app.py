"""An application with another instrumentor and us; prints its spans as JSON.

Instrumentors patch LangChain for the whole process, and not all of them can take it back: each
gets a process of its own.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks_langchain import RagEvalCallbackHandler, enable
from tests.coexistence.shared import Application, Spans
from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import classic
from tests.matrix.langchain.graphs import direct
from tests.matrix.langchain.lcel import plain


def retrieval_qa() -> Any:
    chain = classic("chains.RetrievalQA")
    return chain.from_chain_type(kit.reader(kit.QUESTION), retriever=kit.base(1))


def graph() -> Any:
    return direct(lambda state: {kit.FOUND: kit.base(1).invoke(state[kit.ASKED])})


SHAPES: dict[str, tuple[Callable[[], Any], Any]] = {
    "lcel": (lambda: plain(1), kit.QUESTION),
    "classic": (retrieval_qa, {"query": kit.QUESTION}),
    "graph": (graph, {kit.ASKED: kit.QUESTION}),
}
"""Pipelines, each with its question."""
Instrument = Callable[[TracerProvider], BaseCallbackHandler | None]


def by_instrumentor(module: str, name: str) -> Instrument:
    def instrument(provider: TracerProvider) -> None:
        instrumentor = getattr(importlib.import_module(module), name)()
        instrumentor.instrument(tracer_provider=provider, skip_dep_check=True)

    return instrument


def langfuse(provider: TracerProvider) -> BaseCallbackHandler:
    importlib.import_module("langfuse").Langfuse(
        public_key="pk-test",
        secret_key="sk-test",
        base_url="http://127.0.0.1:9",
        tracer_provider=provider,
        span_exporter=InMemorySpanExporter(),
    )
    module = importlib.import_module("langfuse.langchain")
    handler: BaseCallbackHandler = module.CallbackHandler(public_key="pk-test")
    return handler


INSTRUMENTORS: dict[str, Instrument] = {
    "openinference": by_instrumentor(
        "openinference.instrumentation.langchain", "LangChainInstrumentor"
    ),
    "traceloop": by_instrumentor(
        "opentelemetry.instrumentation.langchain", "LangchainInstrumentor"
    ),
    "official": by_instrumentor(
        "opentelemetry.instrumentation.genai.langchain", "LangChainInstrumentor"
    ),
    "langfuse": langfuse,
}


class World(Application):
    """Another instrumentor, and us, enabled before it, after it, or not."""

    def __init__(self, name: str, *, wrap: bool, enabled: str = "", **config: Any) -> None:
        super().__init__(wrap=wrap, **config)
        if enabled == "before":
            enable(self.evals)
        self.theirs = INSTRUMENTORS[name](self.provider)
        if enabled == "after":
            enable(self.evals)

    def call(self, shape: str, *, ours: bool, first: bool = True) -> Spans:
        self.exporter.clear()
        handlers: list[BaseCallbackHandler] = [self.theirs] if self.theirs else []
        if ours:
            handlers.insert(0 if first else len(handlers), RagEvalCallbackHandler(self.evals))
        build, given = SHAPES[shape]
        build().invoke(given, {"callbacks": handlers})
        return self.finished()


def main(name: str, wrap: bool, enabled: str, config: dict[str, Any]) -> dict[str, Any]:
    world = World(name, wrap=wrap, enabled=enabled, **config)
    found: dict[str, Any] = {}
    for shape in SHAPES:
        if enabled:
            found[shape] = {enabled: world.call(shape, ours=False)}
        else:
            found[shape] = {
                "alone": world.call(shape, ours=False),
                "again": world.call(shape, ours=False),
                "first": world.call(shape, ours=True),
                "last": world.call(shape, ours=True, first=False),
            }
        found[shape]["incidents"] = dict(world.evals.stats().incidents)
    return found


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(main(**settings), default=str) + "\n")
