"""Measure the CPU and time that a callback handler adds to a LangChain request.

    python -m benchmarks.handler_overhead [--rounds 200] [--shape NAME] [--json FILE]

The requests are a chain that rewrites the question, an agent, and a graph. Each request retrieves
five contexts of 1 kB. The variants are no handler, an empty handler, a handler that only writes a
span per run, our handler, and OpenInference. `benchmarks.added_cpu` describes the method.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypedDict

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough, RunnableSequence
from langchain_core.tools import create_retriever_tool
from opentelemetry.trace import Span, set_span_in_context

from benchmarks.added_cpu import EMPTY, SPANS, Tracing, Variant, both, compared, overhead_parser
from rag_eval_hooks import RagEval
from rag_eval_hooks_langchain import RagEvalCallbackHandler

QUESTION = "When does the ferry leave?"
SENTENCE = "The ferry leaves the quay at twenty to eight on every working day of the year. "
CONTEXTS = [f"Passage {n}. " + (SENTENCE * 13)[:1012] for n in range(5)]
TOKENS = ["token "] * 300


class Retriever(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [
            Document(page_content=text, id=str(n), metadata={"source": "handbook", "page": n})
            for n, text in enumerate(CONTEXTS)
        ]


class Model(BaseChatModel):
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
    run_inline = True


class Spans(Empty):
    def __init__(self) -> None:
        self.tracing = Tracing()
        self._tracer = self.tracing.provider.get_tracer("bench")
        self._open: dict[Any, Span] = {}

    def _start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        parent = self._open.get(parent_run_id)
        context = None if parent is None else set_span_in_context(parent)
        self._open[run_id] = self._tracer.start_span("run", context)

    def _end(self, *_: Any, run_id: Any, **__: Any) -> None:
        self._open.pop(run_id).end()

    on_chain_start = on_chat_model_start = on_retriever_start = on_tool_start = _start
    on_chain_end = on_llm_end = on_retriever_end = on_tool_end = _end


def build_chain() -> Runnable[Any, str]:
    rewritten = Model(tokens=["ferry leaves?"]) | StrOutputParser()
    context = rewritten | Retriever() | (lambda ds: "\n\n".join(d.page_content for d in ds))
    prompt = ChatPromptTemplate.from_template("Use:\n{context}\n\nQuestion: {question}")
    inputs: Any = {"context": context, "question": RunnablePassthrough()}
    chain: Runnable[Any, str] = inputs | prompt | Model(tokens=TOKENS) | StrOutputParser()
    return chain


class Agent(Model):
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if messages[-1].type == "tool":
            return super()._generate(messages)
        call: Any = {"name": "search", "args": {"query": "ferry"}, "id": "c", "type": "tool_call"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        if messages[-1].type == "tool":
            async for chunk in super()._astream(messages):
                yield chunk
            return
        call: Any = {"name": "search", "args": '{"query": "ferry"}', "id": "c", "index": 0}
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[call]))


def build_agent() -> Any:
    from langchain.agents import create_agent

    tools = [create_retriever_tool(Retriever(), "search", "Searches the handbook.")]
    return create_agent(Agent(tokens=TOKENS), tools)


class State(TypedDict, total=False):
    question: str
    documents: list[Any]
    answer: str


def build_graph() -> Any:
    from langgraph.graph import StateGraph

    prompt = ChatPromptTemplate.from_template("Use:\n{context}\n\nQuestion: {question}")
    answer, retriever = prompt | Model(tokens=TOKENS), Retriever()

    def given(state: State) -> dict[str, Any]:
        context = "\n\n".join(document.page_content for document in state["documents"])
        return {"context": context, "question": state["question"]}

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


SHAPES: dict[str, tuple[Callable[[], Any], Any]] = {
    "lcel": (build_chain, QUESTION),
    "agent": (build_agent, {"messages": [("user", QUESTION)]}),
    "graph": (build_graph, {"question": QUESTION}),
}


def handler(evals: RagEval) -> list[Any]:
    return [RagEvalCallbackHandler(evals)]


def invoke(chain: Any, inputs: Any, callbacks: list[Any]) -> None:
    chain.invoke(inputs, {"callbacks": callbacks})


def ainvoke(chain: Any, inputs: Any, callbacks: list[Any]) -> None:
    LOOP.run_until_complete(chain.ainvoke(inputs, {"callbacks": callbacks}))


def astream(chain: Any, inputs: Any, callbacks: list[Any]) -> None:
    mode = {} if isinstance(chain, RunnableSequence) else {"stream_mode": "messages"}

    async def request() -> None:
        async for _ in chain.astream(inputs, {"callbacks": callbacks}, **mode):
            pass

    LOOP.run_until_complete(request())


LOOP = asyncio.new_event_loop()
WAYS = (("invoke", invoke), ("ainvoke", ainvoke), ("astream 300", astream))


def main() -> None:
    parser = overhead_parser(__doc__)
    parser.add_argument("--shape", choices=[*SHAPES, "all"], default="all")
    options = parser.parse_args()
    spans = Spans()
    only_spans = Variant([spans], clear=spans.tracing.exporter.clear)
    variants = {EMPTY: Variant([Empty()]), SPANS: only_spans, **both(handler)}
    requests = []
    for name in SHAPES if options.shape == "all" else (options.shape,):
        build, inputs = SHAPES[name]
        chain = build()
        for title, way in WAYS:
            requests.append((f"{name}, {title}", functools.partial(way, chain, inputs)))
    compared("langchain", requests, variants, options.rounds, options.json)


if __name__ == "__main__":
    main()
