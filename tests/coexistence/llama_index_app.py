"""An application on LlamaIndex with another instrumentor and us; prints its spans as JSON."""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from llama_index.core.base.response.schema import StreamingResponse
from llama_index.core.query_engine import CustomQueryEngine

from tests.coexistence.shared import Application
from tests.matrix.llama_index.kit import index_of, says
from tests.support.variation import Variation, run_seed

DRAW = Variation(run_seed())
TEXTS, QUESTION, ANSWER = tuple(DRAW.passages(2)), DRAW.question(), DRAW.sentence()


def engine(streaming: bool = False) -> Any:
    return index_of(TEXTS).as_query_engine(
        llm=says(ANSWER), similarity_top_k=1, streaming=streaming
    )


def query() -> None:
    engine().query(QUESTION)


def aquery() -> None:
    asyncio.run(engine().aquery(QUESTION))


def stream() -> None:
    response: Any = engine(streaming=True).query(QUESTION)
    assert "".join(response.response_gen)


class Own(CustomQueryEngine):
    """An engine that changes what the model says while it is read."""

    def custom_query(self, query_str: str) -> StreamingResponse:
        answer: Any = engine(streaming=True).query(query_str)
        return StreamingResponse(word.upper() for word in answer.response_gen)


def own_stream() -> None:
    """A stream of the application's own, read to its end."""
    response: Any = Own().query(QUESTION)
    assert "".join(response.response_gen)


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
    settings = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(main(**settings), default=str) + "\n")
