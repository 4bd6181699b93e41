"""CPU and time that a callback handler adds to one request of a RAG pipeline.

Five variants of the same pipeline take turns, request by request: no handler, a handler that does
nothing, ours with the request sampled out, ours with the request evaluated, and OpenInference's
instrumentor. Each retrieves five contexts of 1 kB and answers, with spans to an in-memory
exporter: a chain that rewrites the question first, an agent with a retriever tool, and a graph of
nodes to retrieve, grade and generate. The figures are medians of the differences to the plain
request of the same round:

- CPU: of all threads of the process, after the background threads have finished their part (the
  one metric costs next to nothing, so this is the cost of capture, spans, queue and delivery),
- on its thread: CPU of the thread that made the request (the chain runs its parallel steps in
  other threads when it is invoked, so this is compared with nothing),
- wall: of the request as its caller sees it.

A table at the end puts the CPU of each beside the gates: how much a request may add that is
sampled out.

    python -m benchmarks.handler_overhead [--rounds 200] [--shape NAME] [--json FILE]
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
)
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnableLambda,
    RunnablePassthrough,
    RunnableSequence,
)
from langchain_core.tools import create_retriever_tool

from benchmarks.added_cpu import (
    CALL_GATE,
    EVALUATED,
    OPENINFERENCE,
    PLAIN,
    SAMPLED_OUT,
    STREAM_GATE,
    Row,
    Tracing,
    Variant,
    constant,
    flat,
    measure,
    summary,
)
from benchmarks.table import parser_of, written
from rag_eval_hooks import Metric, RagEval
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
    """Return a chain of eleven runs that rewrites, retrieves and answers."""
    rewritten = Model(tokens=["ferry leaves?"]) | StrOutputParser()
    context = rewritten | Retriever() | (lambda ds: "\n\n".join(d.page_content for d in ds))
    prompt = ChatPromptTemplate.from_template("Use:\n{context}\n\nQuestion: {question}")
    inputs: Any = {"context": context, "question": RunnablePassthrough()}
    chain: Runnable[Any, str] = inputs | prompt | Model(tokens=TOKENS) | StrOutputParser()
    return chain


class Agent(Model):
    """Picks the tool, then answers."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Return the model itself, which knows its tool."""
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
    """Return an agent that searches once, with a retriever as its tool."""
    tools = [create_retriever_tool(Retriever(), "search", "Searches the handbook.")]
    try:
        from langchain.agents import create_agent
    except ImportError:
        from langgraph.prebuilt import create_react_agent as create_agent
    return create_agent(Agent(tokens=TOKENS), tools)


class State(TypedDict, total=False):
    """State of the graph."""

    question: str
    documents: list[Any]
    answer: str


def build_graph() -> Any:
    """Return a graph of nodes that retrieve, grade and generate."""
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


def ours(sample_rate: float) -> Variant:
    """Return our handler, with every request sampled out or every request evaluated."""
    tracing = Tracing()
    evals = RagEval(
        metrics=[Metric(id="bench.constant", score=constant, needs=frozenset())],
        judge="local",
        sample_rate=sample_rate,
        tracer_provider=tracing.provider,
    )
    return Variant(
        [RagEvalCallbackHandler(evals)], settle=evals.flush, clear=tracing.exporter.clear
    )


def openinference(instrumentor: Any) -> Variant:
    """Return OpenInference's instrumentor, switched on for one request at a time."""
    tracing = Tracing()

    @contextmanager
    def switch() -> Iterator[None]:
        instrumentor.instrument(tracer_provider=tracing.provider)
        yield
        instrumentor.uninstrument()

    return Variant(switch=switch, clear=tracing.exporter.clear)


def invoke(chain: Any, inputs: Any, callbacks: list[Any]) -> None:
    """Make one sync request."""
    chain.invoke(inputs, {"callbacks": callbacks})


def ainvoke(chain: Any, inputs: Any, callbacks: list[Any]) -> None:
    """Make one async request."""
    LOOP.run_until_complete(chain.ainvoke(inputs, {"callbacks": callbacks}))


def astream(chain: Any, inputs: Any, callbacks: list[Any]) -> None:
    """Make one async request, read token by token where the shape streams tokens."""
    mode = {} if isinstance(chain, RunnableSequence) else {"stream_mode": "messages"}

    async def request() -> None:
        async for _ in chain.astream(inputs, {"callbacks": callbacks}, **mode):
            pass

    LOOP.run_until_complete(request())


LOOP = asyncio.new_event_loop()
WAYS = (
    ("invoke", invoke, CALL_GATE),
    ("ainvoke", ainvoke, CALL_GATE),
    ("astream 300", astream, STREAM_GATE),
)


def measured(
    shapes: Mapping[str, Shape], variants: dict[str, Variant], rounds: int
) -> Iterator[Row]:
    """Measure each shape in three ways of calling it."""
    for name, shape in shapes.items():
        chain = shape.build()
        for title, way, gate in WAYS:
            request = functools.partial(way, chain, shape.inputs)
            yield measure(f"{name}, {title}", request, variants, gate=gate, rounds=rounds)


def compare_handlers(shapes: Mapping[str, Shape], rounds: int, file: Path | None) -> None:
    """Print the cost of each variant for each request, then the gates."""
    variants = {
        PLAIN: Variant(),
        "empty handler": Variant([Empty()]),
        SAMPLED_OUT: ours(0.0),
        EVALUATED: ours(1.0),
    }
    if LangChainInstrumentor is not None:
        variants[OPENINFERENCE] = openinference(LangChainInstrumentor())
    rows = list(measured(shapes, variants, rounds))
    written(flat(rows), file)
    print(summary(rows))


def main() -> None:
    """Compare handlers."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--shape", choices=[*SHAPES, "all"], default="all")
    options = parser.parse_args()
    # OpenInference meets a deprecation in langchain-core once per span; printing it costs more
    # than its own work.
    warnings.simplefilter("ignore")
    all_shapes = options.shape == "all"
    shapes = SHAPES if all_shapes else {options.shape: SHAPES[options.shape]}
    compare_handlers(shapes, options.rounds, options.json)


if __name__ == "__main__":
    main()
