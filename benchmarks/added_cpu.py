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
UNRECORDED = "ours, sampled out, spans='sampled'"
EMPTY, SPANS = "empty handler", "only spans"
WARM_UP = 20
# A variant's CPU, the other variant's CPU, and the maximum ratio of the two.
GOALS = (
    (UNRECORDED, "thread", EMPTY, "thread", 1.5),
    (SAMPLED_OUT, "thread", SPANS, "thread", 1.5),
    (EVALUATED, "thread", OPENINFERENCE, "process", 0.05),
    (EVALUATED, "thread", PLAIN, "process", 0.10),
    (EVALUATED, "process", OPENINFERENCE, "process", 0.25),
)


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


def ours(
    callbacks: Callable[[RagEval], list[Any]],
    enable: Callable[[RagEval], Any] | None,
    **settings: Any,
) -> Variant:
    tracing = Tracing()
    constant = Metric(id="bench.constant", score=lambda *_: UNIT.score(1.0), needs=frozenset())
    evals = RagEval([constant], judge="heuristic", tracer_provider=tracing.provider, **settings)

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
    return {
        PLAIN: Variant(),
        UNRECORDED: ours(callbacks, enable, sample_rate=0.0, spans="sampled"),
        SAMPLED_OUT: ours(callbacks, enable, sample_rate=0.0),
        EVALUATED: ours(callbacks, enable, sample_rate=1.0),
    }


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
) -> dict[str, Cost]:
    """Return the cost that each variant adds. For `PLAIN`, return the cost of the request."""
    costs: dict[str, list[Cost]] = {name: [] for name in variants}
    for _ in range(rounds + WARM_UP):
        for name in random.sample(list(variants), len(variants)):
            costs[name].append(_once(request, variants[name]))
    plain = costs.pop(PLAIN)[WARM_UP:]
    return {PLAIN: _median(plain)} | {
        name: _median(Cost(*map(sub, *pair)) for pair in zip(rows[WARM_UP:], plain, strict=True))
        for name, rows in costs.items()
    }


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


def _median(costs: Iterable[Cost]) -> Cost:
    return Cost(*map(statistics.median, zip(*costs, strict=True)))


def overhead_parser(description: str | None) -> ArgumentParser:
    parser = parser_of(description)
    parser.add_argument("--rounds", type=int, default=200)
    return parser


Request = tuple[str, Callable[[list[Any]], object]]


def compared(
    framework: str,
    requests: Sequence[Request],
    variants: dict[str, Variant],
    rounds: int,
    file: Path | None,
) -> None:
    # OpenInference warns of a deprecation at each span. Printing costs more CPU than the span.
    warnings.simplefilter("ignore")
    variants = {**variants, OPENINFERENCE: openinference(framework, Tracing())}
    rows = [(name, measure(way, variants, rounds)) for name, way in requests]
    flat: list[dict[str, object]] = [
        {"request": title, "plain": costs[PLAIN].process, "variant": name}
        | {"CPU": cost.process, "its thread": cost.thread, "wall": cost.wall}
        | {"of plain": cost.process / costs[PLAIN].process}
        for title, costs in rows
        for name, cost in costs.items()
        if name != PLAIN
    ]
    written(flat, file)
    for title, costs in rows:
        for name, kind, base, base_kind, most in GOALS:
            if base in costs:
                share = getattr(costs[name], kind) / getattr(costs[base], base_kind)
                told = f"{share:.2f} of {base} (goal {most}{'' if share <= most else ', missed'})"
                print(f"{title}: {name}, {kind}: {told}")
