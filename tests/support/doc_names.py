"""Names that the documents' examples use and do not define: an application as its reader has one.

Each is made when it is first imported, so that a page imports only the frameworks that it shows.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import AsyncIterator, Callable
from typing import Any

QUESTION = "When does the ferry leave?"
TEXTS = ["The ferry leaves the north quay at 07:40.", "A single ticket costs 4 crowns."]
MODULES = ("asyncio", "contextlib")
IMPORTED = {
    "BatchSpanProcessor": "opentelemetry.sdk.trace.export",
    "RagEval": "rag_eval_hooks",
    "RagEvalCallbackHandler": "rag_eval_hooks_langchain",
    "Response": "starlette.responses",
    "StreamingResponse": "starlette.responses",
    "record_contexts": "rag_eval_hooks_langchain",
    "setup_tracing": "rag_eval_hooks",
}


def _evals() -> Any:
    from rag_eval_hooks import RagEval

    return RagEval("lexical")


def _documents() -> Any:
    from langchain_core.documents import Document

    return [Document(page_content=text) for text in TEXTS]


def _llm() -> Any:
    from langchain_core.language_models import FakeListChatModel

    return FakeListChatModel(responses=["At 07:40."])


def _chain() -> Any:
    from langchain_core.runnables import RunnableLambda

    def prompt(asked: str) -> str:
        return "\n".join([*TEXTS, asked])

    return RunnableLambda(prompt) | _llm()


def _nodes() -> Any:
    from llama_index.core import MockEmbedding
    from llama_index.core.schema import TextNode
    from llama_index.core.settings import Settings

    Settings.embed_model = MockEmbedding(embed_dim=8)
    return [TextNode(text=text) for text in TEXTS]


def _search_tool() -> Any:
    from langchain_core.tools import tool

    @tool
    def search(query: str) -> str:
        """Search the handbook."""
        return "\n".join(TEXTS)

    return search


def _engine() -> Any:
    from llama_index.core import Document, MockEmbedding, SummaryIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.settings import Settings

    Settings.embed_model, Settings.llm = MockEmbedding(embed_dim=8), MockLLM()
    return SummaryIndex.from_documents([Document(text=text) for text in TEXTS]).as_query_engine()


def _web() -> Any:
    from starlette.applications import Starlette

    return Starlette


def _provider() -> Any:
    from opentelemetry.sdk.trace import TracerProvider

    return TracerProvider()


def _exporter() -> Any:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    return InMemorySpanExporter()


class _Client:
    def search(self, _question: str) -> Any:
        return _documents()


class _Sink:
    def __call__(self, evaluation: Any) -> None: ...


class _Route:
    """Stands for a web application: what it serves is called by nobody here."""

    def get(self, _path: str) -> Callable[[Any], Any]:
        return lambda view: view


async def _words(*_: Any) -> AsyncIterator[str]:
    yield "At 07:40."


MADE: dict[str, Callable[[], Any]] = {
    "FastAPI": _web,
    "MySink": lambda: _Sink,
    "app": _Route,
    "ask": lambda: lambda _question: "At 07:40.",
    "callback": lambda: _callback(),
    "chain": _chain,
    "client": _Client,
    "documents": _documents,
    "engine": _engine,
    "evals": _evals,
    "exporter": _exporter,
    "llm": _llm,
    "mlflow": lambda: types.SimpleNamespace(search_traces=lambda **_: []),
    "model": lambda: _words,
    "my_function": lambda: str.lower,
    "prompt": lambda: str,
    "provider": _provider,
    "question": lambda: QUESTION,
    "nodes": _nodes,
    "request": lambda: None,
    "retriever": lambda: _retriever(),
    "search_tool": _search_tool,
    "sample": lambda: {"question": QUESTION, "contexts": TEXTS, "answer": "Early, by the quay."},
    "sample_id": lambda: "s-1",
    "search": lambda: lambda _question: TEXTS,
    "stream_with_context": lambda: lambda function: function,
    "text": lambda: "At 07:40.",
    "trace_id": lambda: "ab" * 16,
    "url": lambda: "http://127.0.0.1:9",
}


def _retriever() -> Any:
    from langchain_core.runnables import RunnableLambda

    return RunnableLambda(lambda _question: _documents())


def _callback() -> Any:
    from rag_eval_hooks_langchain import RagEvalCallbackHandler

    return RagEvalCallbackHandler(__getattr__("evals"))


@functools.cache
def __getattr__(name: str) -> Any:
    if name in MODULES:
        return importlib.import_module(name)
    if name in IMPORTED:
        return getattr(importlib.import_module(IMPORTED[name]), name)
    if name not in MADE:
        raise AttributeError(name)
    return MADE[name]()
