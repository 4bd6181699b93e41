"""What capture adds to one request of a LlamaIndex query engine, and what OpenInference's adds.

Variants take turns, request by request, in random order: nothing, ours with the request sampled
out, ours with it evaluated, OpenInference's instrumentor. Figures are medians; CPU is of all
threads, after the evaluator has finished.

    python benchmarks/llama_index_overhead.py [--rounds 100]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks import Metric, RagEval, Sample, Score
from rag_eval_hooks.testing import Findings
from rag_eval_hooks_llama_index import enable

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.matrix.llama_index.kit import QUESTION, Scripted, index

try:
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
except ImportError:  # the comparison is left out
    LlamaIndexInstrumentor = None

TOKENS = "token " * 300
LOOP = asyncio.new_event_loop()
WARM_UP = 10
Variant = tuple[Callable[[], AbstractContextManager[None]], Callable[[], object]]


def engine(streaming: bool) -> Any:
    """Retrieves two passages, answers with 300 tokens."""
    llm = Scripted(reply=lambda _: TOKENS)
    return index().as_query_engine(llm=llm, similarity_top_k=2, streaming=streaming)


def constant(_sample: Sample, _findings: Findings) -> Score:
    """A metric that costs nothing."""
    return Score(value=1.0, normalised=1.0)


def provider() -> tuple[TracerProvider, InMemorySpanExporter]:
    """A provider with an in-memory exporter."""
    made, exporter = TracerProvider(), InMemorySpanExporter()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made, exporter


def ours(rate: float) -> Variant:
    """Our handlers."""
    traces, exporter = provider()
    metric = Metric(id="bench.constant", score=constant, needs=frozenset())
    evals = RagEval(metrics=[metric], judge="local", sample_rate=rate, tracer_provider=traces)

    @contextmanager
    def switch() -> Any:
        registration = enable(evals)
        yield
        registration.disable()
        exporter.clear()

    return switch, evals.flush


def openinference() -> Variant:
    """OpenInference's instrumentor."""
    traces, exporter = provider()
    instrumentor = LlamaIndexInstrumentor()

    @contextmanager
    def switch() -> Any:
        instrumentor.instrument(tracer_provider=traces)
        yield
        instrumentor.uninstrument()
        exporter.clear()

    return switch, bool


def query(made: Any) -> None:
    """One sync request."""
    made.query(QUESTION)


def aquery(made: Any) -> None:
    """One async request."""
    LOOP.run_until_complete(made.aquery(QUESTION))


def stream(made: Any) -> None:
    """One sync request, read token by token."""
    for _ in made.query(QUESTION).response_gen:
        pass


def once(way: Callable[[Any], None], made: Any, variant: Variant) -> tuple[float, float]:
    """Milliseconds (CPU, wall) of one request."""
    switch, settle = variant
    with switch():
        cpu, wall = time.process_time(), time.perf_counter()
        way(made)
        wall = time.perf_counter() - wall
        settle()
        cpu = time.process_time() - cpu
    return cpu * 1e3, wall * 1e3


def report(title: str, figures: dict[str, list[tuple[float, float]]]) -> None:
    """Prints each variant as a ratio to the plain request."""
    plain = [statistics.median(column) for column in zip(*figures.pop("none"), strict=True)]
    print(f"\n{title}: the plain request takes {plain[0]:.2f} ms CPU, {plain[1]:.2f} ms wall")
    for name, rows in figures.items():
        cpu, wall = (statistics.median(column) for column in zip(*rows, strict=True))
        added = f"{cpu / plain[0] - 1:+.2f} of plain CPU, {wall / plain[1] - 1:+.2f} of plain wall"
        print(f"{name:<20} {added}")


def main() -> None:
    """Runs all three ways of calling."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    warnings.simplefilter("ignore")
    variants: dict[str, Variant] = {
        "none": (nullcontext, bool),
        "ours, sampled out": ours(0.0),
        "ours, evaluated": ours(1.0),
    }
    if LlamaIndexInstrumentor is not None:
        variants["OpenInference"] = openinference()
    for title, way in (("query", query), ("aquery", aquery), ("stream 300", stream)):
        made = engine(way is stream)
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
        for number in range(rounds + WARM_UP):
            for name in random.sample(list(variants), len(variants)):
                figure = once(way, made, variants[name])
                if number >= WARM_UP:
                    figures[name].append(figure)
        report(title, figures)


if __name__ == "__main__":
    main()
