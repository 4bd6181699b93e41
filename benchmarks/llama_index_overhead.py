"""Cost of capture for one request of a LlamaIndex query engine, beside OpenInference's.

Variants take turns, request by request, in random order: nothing, ours with the request sampled
out, ours with it evaluated, OpenInference's instrumentor. Figures are medians of the differences
to the plain request of the same round. CPU is of all threads, after the evaluator has finished; on
its thread, of the one that made the request. A table at the end puts it beside the gates: how much
a request may add that is sampled out.

    python -m benchmarks.llama_index_overhead [--rounds 200] [--json FILE]
"""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from benchmarks.added_cpu import (
    CALL_GATE,
    EVALUATED,
    OPENINFERENCE,
    PLAIN,
    SAMPLED_OUT,
    STREAM_GATE,
    Tracing,
    Variant,
    constant,
    flat,
    measure,
    summary,
)
from benchmarks.table import parser_of, written
from rag_eval_hooks import Metric, RagEval
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index.kit import QUESTION, Scripted, index

try:
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
except ImportError:  # the comparison is left out
    LlamaIndexInstrumentor = None

TOKENS = "token " * 300
LOOP = asyncio.new_event_loop()


def engine(streaming: bool) -> Any:
    """Return an engine that retrieves two passages and answers with 300 tokens."""
    llm = Scripted(reply=lambda _: TOKENS)
    return index().as_query_engine(llm=llm, similarity_top_k=2, streaming=streaming)


def ours(rate: float) -> Variant:
    """Return our handlers as a variant."""
    tracing = Tracing()
    metric = Metric(id="bench.constant", score=constant, needs=frozenset())
    evals = RagEval(
        metrics=[metric], judge="local", sample_rate=rate, tracer_provider=tracing.provider
    )

    @contextmanager
    def switch() -> Any:
        registration = enable(evals)
        yield
        registration.disable()

    return Variant(switch=switch, settle=evals.flush, clear=tracing.exporter.clear)


def openinference() -> Variant:
    """Return OpenInference's instrumentor as a variant."""
    tracing = Tracing()
    instrumentor = LlamaIndexInstrumentor()

    @contextmanager
    def switch() -> Any:
        instrumentor.instrument(tracer_provider=tracing.provider)
        yield
        instrumentor.uninstrument()

    return Variant(switch=switch, clear=tracing.exporter.clear)


def query(made: Any) -> None:
    """Make one sync request."""
    made.query(QUESTION)


def aquery(made: Any) -> None:
    """Make one async request."""
    LOOP.run_until_complete(made.aquery(QUESTION))


def stream(made: Any) -> None:
    """Make one sync request, read token by token."""
    for _ in made.query(QUESTION).response_gen:
        pass


def request_by(way: Callable[[Any], None], made: Any, _callbacks: list[Any]) -> None:
    """Make one request with LlamaIndex's handlers switched on around it."""
    way(made)


WAYS = (
    ("query", query, CALL_GATE),
    ("aquery", aquery, CALL_GATE),
    ("stream 300", stream, STREAM_GATE),
)


def main() -> None:
    """Measure all three ways of calling."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    variants = {PLAIN: Variant(), SAMPLED_OUT: ours(0.0), EVALUATED: ours(1.0)}
    if LlamaIndexInstrumentor is not None:
        variants[OPENINFERENCE] = openinference()
    rows = []
    for title, way, gate in WAYS:
        request = functools.partial(request_by, way, engine(way is stream))
        row = measure(f"LlamaIndex, {title}", request, variants, gate=gate, rounds=options.rounds)
        rows.append(row)
    written(flat(rows), options.json)
    print(summary(rows))


if __name__ == "__main__":
    main()
