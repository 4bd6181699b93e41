"""An application with another instrumentor and us; prints its spans as JSON.

Instrumentors patch LangChain for the whole process, and not all of them can take it back: each
gets a process of its own.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any, TypedDict

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseCallbackHandler,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks_langchain import RagEvalCallbackHandler, enable
from tests.coexistence.shared import Application, Spans


class State(TypedDict, total=False):
    question: str
    context: list[Document]
    answer: str


class Store(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [Document(f"A document about {query}, which is long enough to find.")]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        await asyncio.sleep(0)
        return self._get_relevant_documents(query, run_manager=None)  # type: ignore[arg-type]


def model() -> FakeListChatModel:
    return FakeListChatModel(responses=["the answer"])


def lcel() -> Any:
    prompt = ChatPromptTemplate.from_template("Use {context}\nQuestion: {question}")
    text = Store() | (lambda documents: documents[0].page_content)
    inputs = {"context": text, "question": RunnablePassthrough()}
    return inputs | prompt | model() | StrOutputParser()


def classic() -> Any:
    chains = importlib.import_module("langchain_classic.chains")
    return chains.RetrievalQA.from_chain_type(model(), retriever=Store())


def graph() -> Any:
    langgraph = importlib.import_module("langgraph.graph")

    def retrieve(state: dict[str, Any]) -> dict[str, Any]:
        return {"context": Store().invoke(state["question"])}

    def generate(state: dict[str, Any]) -> dict[str, Any]:
        prompt = f"{state['context'][0].page_content} {state['question']}"
        return {"answer": model().invoke(prompt).content}

    built = langgraph.StateGraph(State)
    built.add_node("retrieve", retrieve)
    built.add_node("generate", generate)
    built.add_edge(langgraph.START, "retrieve")
    built.add_edge("retrieve", "generate")
    return built.compile()


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
SHAPES: dict[str, Callable[[], Any]] = {"lcel": lcel, "classic": classic, "graph": graph}


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
        value = "cats and dogs"
        given = value if shape == "lcel" else {"query" if shape == "classic" else "question": value}
        SHAPES[shape]().invoke(given, {"callbacks": handlers})
        return self.finished()


def main(name: str, wrap: bool, enabled: str, config: dict[str, Any]) -> dict[str, Any]:
    world = World(name, wrap=wrap, enabled=enabled, **config)
    if enabled:
        return {
            shape: {
                enabled: world.call(shape, ours=False),
                "incidents": dict(world.evals.stats().incidents),
            }
            for shape in SHAPES
        }
    return {
        shape: {
            "alone": world.call(shape, ours=False),
            "again": world.call(shape, ours=False),
            "first": world.call(shape, ours=True),
            "last": world.call(shape, ours=True, first=False),
            "incidents": dict(world.evals.stats().incidents),
        }
        for shape in SHAPES
    }


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(main(**settings), default=str) + "\n")
