"""An application on LlamaIndex with another instrumentor and us; prints its spans as JSON."""

from __future__ import annotations

import asyncio
import functools
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

from tests.coexistence.shared import Application


class Store(BaseRetriever):
    """Two nodes for any question."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        text = f"A document about {query_bundle.query_str}, which is long enough to find."
        return [NodeWithScore(node=TextNode(text=text), score=0.5)]


def engine(streaming: bool = False) -> RetrieverQueryEngine:
    synthesizer = get_response_synthesizer(llm=MockLLM(max_tokens=5), streaming=streaming)
    return RetrieverQueryEngine(Store(), synthesizer)


def query() -> None:
    engine().query("cats and dogs")


def aquery() -> None:
    asyncio.run(engine().aquery("cats and dogs"))


def stream() -> None:
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


def main(wrap: bool, first: bool, ours: bool) -> dict[str, Any]:
    """The spans of every shape, with us enabled before OpenInference, after it, or not."""
    app = Application(wrap=wrap)
    module = importlib.import_module("openinference.instrumentation.llama_index")
    instrument = functools.partial(
        module.LlamaIndexInstrumentor().instrument,
        tracer_provider=app.provider,
        skip_dep_check=True,
    )
    if not first:
        instrument()
    if ours:
        importlib.import_module("rag_eval_hooks_llama_index").enable(app.evals)
    if first:
        instrument()
    spans: dict[str, Any] = {}
    for name, shape in SHAPES.items():
        app.exporter.clear()
        shape()
        spans[name] = app.finished()
    return {**spans, "incidents": dict(app.evals.stats().incidents)}


if __name__ == "__main__":
    set_global_tokenizer(str.split)
    settings = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(main(**settings), default=str) + "\n")
