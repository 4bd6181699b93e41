"""Measure the CPU that each instrumentation adds to a request, in milliseconds.

In each round, every variant makes one request, in random order. A figure is the median over all
rounds of this difference: the variant's cost minus the cost without instrumentation in the same
round. The difference cancels other load on the machine.
`CPU` is the CPU time of all threads until the background threads are idle. `its thread` is the CPU
time of the calling thread.
"""

from __future__ import annotations

import importlib
import random
import statistics
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from operator import sub
from pathlib import Path
from typing import Any, NamedTuple

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks.table import parser_of, written
from rag_eval_hooks import Metric, RagEval
from rag_eval_hooks.score import UNIT

PLAIN, OPENINFERENCE = "none", "OpenInference"
SAMPLED_OUT, EVALUATED = "ours, sampled out", "ours, evaluated"
WARM_UP = 20
# Maximum CPU that a sampled-out request may add, as a share of the plain request's CPU.
CALL_GATE, STREAM_GATE = 0.25, 0.15


class Tracing:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))


@dataclass
class Variant:
    callbacks: list[Any] = field(default_factory=list)  # the request receives these callbacks
    switch: Callable[[], AbstractContextManager[None]] = nullcontext  # entered, not measured
    settle: Callable[[], object] = bool  # called after each request, measured
    clear: Callable[[], object] = bool  # called after each request, not measured


class Cost(NamedTuple):
    process: float
    thread: float
    wall: float


class Row(NamedTuple):
    plain: Cost
    added: dict[str, Cost]

    def share(self, variant: str) -> float:
        return self.added[variant].process / self.plain.process


def ours(
    sample_rate: float,
    callbacks: Callable[[RagEval], list[Any]],
    enable: Callable[[RagEval], Any] | None,
) -> Variant:
    tracing = Tracing()
    constant = Metric(id="bench.constant", score=lambda *_: UNIT.score(1.0), needs=frozenset())
    evals = RagEval(
        [constant], judge="heuristic", sample_rate=sample_rate, tracer_provider=tracing.provider
    )

    @contextmanager
    def switch() -> Iterator[None]:
        registration = enable(evals) if enable else None
        yield
        if registration is not None:
            registration.disable()

    return Variant(callbacks(evals), switch, evals.flush, tracing.exporter.clear)


def both(
    callbacks: Callable[[RagEval], list[Any]] = lambda _: [],
    enable: Callable[[RagEval], Any] | None = None,
) -> dict[str, Variant]:
    rates = {SAMPLED_OUT: 0.0, EVALUATED: 1.0}
    return {PLAIN: Variant()} | {name: ours(r, callbacks, enable) for name, r in rates.items()}


def openinference(framework: str, tracing: Tracing) -> Variant:
    # OpenInference's instrumentor is global, so enable it only during a request of its variant.
    module = importlib.import_module(f"openinference.instrumentation.{framework}")
    names = {"langchain": "LangChainInstrumentor", "llama_index": "LlamaIndexInstrumentor"}
    instrumentor = getattr(module, names[framework])()

    @contextmanager
    def switch() -> Iterator[None]:
        instrumentor.instrument(tracer_provider=tracing.provider)
        yield
        instrumentor.uninstrument()

    return Variant(switch=switch, clear=tracing.exporter.clear)


def measure(
    request: Callable[[list[Any]], object], variants: dict[str, Variant], rounds: int
) -> Row:
    costs: dict[str, list[Cost]] = {name: [] for name in variants}
    for _ in range(rounds + WARM_UP):
        for name in random.sample(list(variants), len(variants)):
            costs[name].append(_once(request, variants[name]))
    plain = costs.pop(PLAIN)[WARM_UP:]
    added = {name: map(_difference, rows[WARM_UP:], plain) for name, rows in costs.items()}
    return Row(_median(plain), {name: _median(rows) for name, rows in added.items()})


def _once(request: Callable[[list[Any]], object], variant: Variant) -> Cost:
    with variant.switch():
        process, thread, wall = time.process_time(), time.thread_time(), time.perf_counter()
        request(variant.callbacks)
        wall = time.perf_counter() - wall
        thread = time.thread_time() - thread
        variant.settle()
        process = time.process_time() - process
    variant.clear()
    return Cost(process * 1e3, thread * 1e3, wall * 1e3)


def _difference(cost: Cost, base: Cost) -> Cost:
    return Cost(*map(sub, cost, base))


def _median(costs: Iterable[Cost]) -> Cost:
    return Cost(*map(statistics.median, zip(*costs, strict=True)))


def overhead_parser(description: str | None) -> ArgumentParser:
    parser = parser_of(description)
    parser.add_argument("--rounds", type=int, default=200)
    return parser


# Title, function that makes a request with callbacks, and gate.
Request = tuple[str, Callable[[list[Any]], object], float]


def compared(
    framework: str,
    requests: Sequence[Request],
    variants: dict[str, Variant],
    rounds: int,
    file: Path | None,
) -> None:
    # OpenInference warns of a deprecation at each span. Printing costs more CPU than the span.
    warnings.simplefilter("ignore")
    try:
        variants = {**variants, OPENINFERENCE: openinference(framework, Tracing())}
    except ImportError:
        print("OpenInference is not measured, because it is not installed")
    rows = [(name, gate, measure(way, variants, rounds)) for name, way, gate in requests]
    flat: list[dict[str, object]] = [
        {"request": title, "plain": row.plain.process, "variant": name}
        | {"CPU": cost.process, "its thread": cost.thread, "wall": cost.wall}
        | {"of plain": row.share(name)}
        for title, _, row in rows
        for name, cost in row.added.items()
    ]
    written(flat, file)
    for title, gate, row in rows:
        share = row.share(SAMPLED_OUT)
        print(f"{title}: gate {'met' if share <= gate else 'missed'}, {share:.2f}, limit {gate}")
