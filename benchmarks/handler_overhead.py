"""What a callback handler adds to one request of a RAG pipeline.

Five variants of the same pipeline take turns, request by request: no handler, a handler that does
nothing, ours with the request sampled out, ours with the request evaluated, and OpenInference's
instrumentor. Each retrieves five contexts of 1 kB and answers, with spans to an in-memory
exporter: a chain that rewrites the question first, an agent with a retriever tool, and a graph of
nodes to retrieve, grade and generate. The figures are medians of the differences to the plain
request of the same round:

- CPU: of all threads of the process, after the background evaluator has finished its part (its
  one metric costs next to nothing, so this is the cost of capture, spans, queue and delivery),
- wall: of the request as its caller sees it.

    python benchmarks/handler_overhead.py [--rounds 200] [--shape lcel|agent|graph]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypedDict

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnableLambda,
    RunnablePassthrough,
    RunnableSequence,
)
from langchain_core.tools import create_retriever_tool
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks import Metric, RagEval, Sample, Score
from rag_eval_hooks.testing import Findings
from rag_eval_hooks_langchain import RagEvalCallbackHandler

try:
    from openinference.instrumentation.langchain import LangChainInstrumentor
except ImportError:  # the comparison is left out
    LangChainInstrumentor = None

QUESTION = "When does the ferry leave?"
SENTENCE = "The ferry leaves the quay at twenty to eight on every working day of the year. "
CONTEXTS = [f"Passage {n}. " + (SENTENCE * 13)[:1012] for n in range(5)]
TOKENS = ["token "] * 300


class Retriever(BaseRetriever):
    """Five documents of 1 kB."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [
            Document(page_content=text, id=str(n), metadata={"source": "handbook", "page": n})
            for n, text in enumerate(CONTEXTS)
        ]


class Model(BaseChatModel):
    """Answers at once, or streams the tokens it is given."""

    tokens: list[str]

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        text = "".join(self.tokens)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text))])

    async def _agenerate(self, messages: list[BaseMessage], *a: Any, **k: Any) -> ChatResult:
        return self._generate(messages)

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for token in self.tokens:
            yield ChatGenerationChunk(message=AIMessageChunk(content=token))


class Empty(BaseCallbackHandler):
    """Does nothing."""

    run_inline = True


def build_chain() -> Runnable[Any, str]:
    """Rewrite, retrieve, answer."""
    rewritten = Model(tokens=["ferry leaves?"]) | (lambda message: message.content)
    context = rewritten | Retriever() | (lambda ds: "\n\n".join(d.page_content for d in ds))
    prompt = ChatPromptTemplate.from_template("Use:\n{context}\n\nQuestion: {question}")
    inputs: Any = {"context": context, "question": RunnablePassthrough()}
    chain: Runnable[Any, str] = inputs | prompt | Model(tokens=TOKENS) | StrOutputParser()
    return chain


class Agent(Model):
    """Picks the tool, then answers."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Knows its tool without being told."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if messages[-1].type == "tool":
            return super()._generate(messages)
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage(content="", tool_calls=[PICK]))]
        )

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        tokens = self.tokens if messages[-1].type == "tool" else [""]
        for token in tokens:
            yield ChatGenerationChunk(message=AIMessageChunk(content=token))
        if tokens != self.tokens:
            calls: Any = [{"name": "search", "args": '{"query": "ferry"}', "id": "c", "index": 0}]
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=calls))


PICK: Any = {"name": "search", "args": {"query": "ferry"}, "id": "c", "type": "tool_call"}


def build_agent() -> Any:
    """An agent that searches once, with a retriever as its tool."""
    tools = [create_retriever_tool(Retriever(), "search", "Searches the handbook.")]
    try:
        from langchain.agents import create_agent
    except ImportError:
        from langgraph.prebuilt import create_react_agent as create_agent
    return create_agent(Agent(tokens=TOKENS), tools)


class State(TypedDict, total=False):
    """What the graph keeps."""

    question: str
    documents: list[Any]
    answer: str


def build_graph() -> Any:
    """Nodes that retrieve, grade and generate."""
    from langgraph.graph import StateGraph

    answer = ChatPromptTemplate.from_template("Use:\n{context}\n\nQuestion: {question}") | Model(
        tokens=TOKENS
    )
    retriever = Retriever()

    def given(state: State) -> dict[str, Any]:
        texts = [document.page_content for document in state["documents"]]
        return {"context": "\n\n".join(texts), "question": state["question"]}

    def generate(state: State) -> dict[str, Any]:
        return {"answer": answer.invoke(given(state)).content}

    async def agenerate(state: State) -> dict[str, Any]:
        return {"answer": (await answer.ainvoke(given(state))).content}

    graph: Any = StateGraph(State)
    graph.add_node("retrieve", lambda state: {"documents": retriever.invoke(state["question"])})
    graph.add_node("grade", lambda state: {"documents": state["documents"][:4]})
    graph.add_node("generate", RunnableLambda(generate, agenerate))
    path = ["__start__", "retrieve", "grade", "generate", "__end__"]
    for one, other in itertools.pairwise(path):
        graph.add_edge(one, other)
    return graph.compile()


@dataclass(frozen=True)
class Shape:
    """A pipeline.

    Attributes:
        build: Makes it.
        inputs: What it is asked.
    """

    build: Callable[[], Any]
    inputs: Any


SHAPES = {
    "lcel": Shape(build_chain, QUESTION),
    "agent": Shape(build_agent, {"messages": [("user", QUESTION)]}),
    "graph": Shape(build_graph, {"question": QUESTION}),
}


class Tracing:
    """A provider with an in-memory exporter."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))


@dataclass
class Variant:
    """One way of running the chain.

    Attributes:
        callbacks: What the request is given.
        switch: Entered around each request, outside the measured time.
        settle: Called after each request, inside the measured CPU time.
        clear: Called after each request, outside the measured time.
    """

    callbacks: list[Any] = field(default_factory=list)
    switch: Callable[[], AbstractContextManager[None]] = nullcontext
    settle: Callable[[], object] = bool
    clear: Callable[[], object] = bool


def constant(_sample: Sample, _findings: Findings) -> Score:
    """A metric that costs nothing, so that only the way to it is measured."""
    return Score(value=1.0, normalised=1.0)


def ours(sample_rate: float) -> Variant:
    """Our handler, with every request sampled out or every request evaluated."""
    tracing = Tracing()
    evals = RagEval(
        metrics=[Metric(id="bench.constant", score=constant, needs=frozenset())],
        judge="local",
        sample_rate=sample_rate,
        tracer_provider=tracing.provider,
    )
    handler = RagEvalCallbackHandler(evals)
    return Variant([handler], settle=evals.flush, clear=tracing.exporter.clear)


def openinference(instrumentor: Any) -> Variant:
    """OpenInference's instrumentor, switched on for one request at a time."""
    tracing = Tracing()

    @contextmanager
    def switch() -> Iterator[None]:
        instrumentor.instrument(tracer_provider=tracing.provider)
        yield
        instrumentor.uninstrument()

    return Variant(switch=switch, clear=tracing.exporter.clear)


def invoke(chain: Any, inputs: Any, callbacks: list[Any]) -> None:
    """One sync request."""
    chain.invoke(inputs, {"callbacks": callbacks})


def ainvoke(chain: Any, inputs: Any, callbacks: list[Any]) -> None:
    """One async request."""
    LOOP.run_until_complete(chain.ainvoke(inputs, {"callbacks": callbacks}))


def astream(chain: Any, inputs: Any, callbacks: list[Any]) -> None:
    """One async request, read token by token where the shape streams tokens."""
    mode = {} if isinstance(chain, RunnableSequence) else {"stream_mode": "messages"}

    async def request() -> None:
        async for _ in chain.astream(inputs, {"callbacks": callbacks}, **mode):
            pass

    LOOP.run_until_complete(request())


LOOP = asyncio.new_event_loop()
WARM_UP = 20

Figures = dict[str, list[tuple[float, float]]]


def measure(
    way: Callable[..., None], shape: Shape, variants: dict[str, Variant], rounds: int
) -> Figures:
    """Milliseconds (CPU, wall) of every round, by variant."""
    chain = shape.build()
    figures: Figures = {name: [] for name in variants}
    for number in range(rounds + WARM_UP):
        for name in random.sample(list(variants), len(variants)):
            figure = once(lambda callbacks: way(chain, shape.inputs, callbacks), variants[name])
            if number >= WARM_UP:
                figures[name].append(figure)
    return figures


def once(request: Callable[[list[Any]], None], variant: Variant) -> tuple[float, float]:
    """Milliseconds (CPU, wall) of one request."""
    with variant.switch():
        cpu, wall = time.process_time(), time.perf_counter()
        request(variant.callbacks)
        wall = time.perf_counter() - wall
        variant.settle()
        cpu = time.process_time() - cpu
    variant.clear()
    return cpu * 1e3, wall * 1e3


def report(title: str, figures: Figures) -> None:
    """Prints what each variant adds, and what OpenInference adds in multiples of ours."""
    plain = figures.pop("none")
    base = statistics.median(cpu for cpu, _ in plain)
    print(f"\n{title}: the plain request takes {base:.2f} ms CPU")
    print(f"{'added by':<20}{'CPU':>11}{'wall':>12}{'of plain CPU':>15}{'OpenInference':>16}")
    added = {
        name: [
            statistics.median(
                row[column] - zero[column] for row, zero in zip(rows, plain, strict=True)
            )
            for column in (0, 1)
        ]
        for name, rows in figures.items()
    }
    foreign = added.get("OpenInference", [0.0])[0]
    for name, (cpu, wall) in added.items():
        print(f"{name:<20}{cpu:>8.3f} ms{wall:>9.3f} ms{cpu / base:>15.2f}{foreign / cpu:>14.1f} x")


def main() -> None:
    """Runs the shapes in three ways of calling each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--shape", choices=[*SHAPES, "all"], default="all")
    told = parser.parse_args()
    # OpenInference meets a deprecation in langchain-core once per span; printing it costs more
    # than its own work.
    warnings.simplefilter("ignore")
    variants = {
        "none": Variant(),
        "empty handler": Variant([Empty()]),
        "ours, sampled out": ours(0.0),
        "ours, evaluated": ours(1.0),
    }
    if LangChainInstrumentor is not None:
        variants["OpenInference"] = openinference(LangChainInstrumentor())
    for name in SHAPES if told.shape == "all" else [told.shape]:
        for title, way in (("invoke", invoke), ("ainvoke", ainvoke), ("astream 300", astream)):
            figures = measure(way, SHAPES[name], variants, told.rounds)
            report(f"{name}, {title}", figures)


if __name__ == "__main__":
    main()
