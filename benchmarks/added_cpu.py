"""CPU that a way of watching a request adds, against the same request unwatched.

Variants take turns, request by request, in random order, and every figure is the median of the
differences to the plain request of the same round: what else runs on the machine adds to both.

- CPU: of all threads of the process, after the background threads have finished their part (the
  one metric costs next to nothing, so this is the cost of capture, spans, queue and delivery),
- its thread: CPU of the thread that made the request,
- wall: of the request as its caller sees it.

A table at the end puts the CPU of each beside the gates: how much a request may add that is
sampled out.
"""

from __future__ import annotations

import importlib
import random
import statistics
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks.table import parser_of, written
from rag_eval_hooks import Metric, RagEval, Sample, Score
from rag_eval_hooks.testing import Findings

PLAIN = "none"
SAMPLED_OUT = "ours, sampled out"
EVALUATED = "ours, evaluated"
OPENINFERENCE = "OpenInference"
CALL_GATE = 0.25
STREAM_GATE = 0.15
"""Shares of the plain request's CPU that one which is sampled out may add: called, streamed."""


class Tracing:
    """A provider with an in-memory exporter."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))


@dataclass
class Variant:
    """One way of watching."""

    callbacks: list[Any] = field(default_factory=list)  # what the request is given
    switch: Callable[[], AbstractContextManager[None]] = nullcontext  # entered, not measured
    settle: Callable[[], object] = bool  # called after each request, measured
    clear: Callable[[], object] = bool  # called after each request, not measured


class Cost(NamedTuple):
    """Milliseconds of one request, or the median of what a variant adds to it."""

    process: float
    thread: float
    wall: float


class Row(NamedTuple):
    """Measurements of one request."""

    title: str
    gate: float
    plain: Cost
    added: dict[str, Cost]

    def share(self, variant: str) -> float | None:
        """Return the added CPU as a share of the plain request's, or None if not measured."""
        return self.added[variant].process / self.plain.process if variant in self.added else None


def ours(
    sample_rate: float,
    callbacks: Callable[[RagEval], list[Any]] = lambda _: [],
    enable: Callable[[RagEval], Any] | None = None,
) -> Variant:
    """Return our variant: a callback in each request, or capture enabled around it."""

    def constant(_sample: Sample, _findings: Findings) -> Score:
        return Score(value=1.0, normalized=1.0)

    tracing = Tracing()
    evals = RagEval(
        metrics=[Metric(id="bench.constant", score=constant, needs=frozenset())],
        judge="heuristic",
        sample_rate=sample_rate,
        tracer_provider=tracing.provider,
    )

    @contextmanager
    def switch() -> Iterator[None]:
        registration = enable(evals) if enable else None
        yield
        if registration is not None:
            registration.disable()

    return Variant(callbacks(evals), switch, evals.flush, tracing.exporter.clear)


def openinference(framework: str, tracing: Tracing) -> Variant:
    """Return OpenInference's instrumentor, switched on for one request at a time."""
    module = importlib.import_module(f"openinference.instrumentation.{framework}")
    names = {"langchain": "LangChainInstrumentor", "llama_index": "LlamaIndexInstrumentor"}
    instrumentor = getattr(module, names[framework])()

    @contextmanager
    def switch() -> Iterator[None]:
        instrumentor.instrument(tracer_provider=tracing.provider)
        yield
        instrumentor.uninstrument()

    return Variant(switch=switch, clear=tracing.exporter.clear)


def with_openinference(variants: dict[str, Variant], framework: str) -> dict[str, Variant]:
    """Return the variants and OpenInference's, where it is installed."""
    try:
        return {**variants, OPENINFERENCE: openinference(framework, Tracing())}
    except ImportError:
        return variants


def measure(
    title: str,
    request: Callable[[list[Any]], None],
    variants: dict[str, Variant],
    *,
    gate: float,
    rounds: int,
    warm_up: int = 20,
) -> Row:
    """Measure the cost of every variant, one of them `PLAIN`, for a request with callbacks."""
    costs: dict[str, list[Cost]] = {name: [] for name in variants}
    for number in range(rounds + warm_up):
        for name in random.sample(list(variants), len(variants)):
            cost = _once(request, variants[name])
            if number >= warm_up:
                costs[name].append(cost)
    plain = costs.pop(PLAIN)
    added = {
        name: _median([_difference(*pair) for pair in zip(rows, plain, strict=True)])
        for name, rows in costs.items()
    }
    return Row(title, gate, _median(plain), added)


def _once(request: Callable[[list[Any]], None], variant: Variant) -> Cost:
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
    return Cost(*(one - other for one, other in zip(cost, base, strict=True)))


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(*map(statistics.median, zip(*costs, strict=True)))


def overhead_parser(description: str | None) -> ArgumentParser:
    """Return a parser with the options of both benchmarks, and keep warnings quiet.

    OpenInference meets a deprecation in langchain-core once per span; printing it costs more than
    its own work.
    """
    warnings.simplefilter("ignore")
    parser = parser_of(description)
    parser.add_argument("--rounds", type=int, default=200)
    return parser


def report(rows: Sequence[Row], file: Path | None) -> None:
    """Print what every variant adds to every request in milliseconds, then the gates."""
    flat: list[dict[str, object]] = [
        {"request": row.title, "plain": row.plain.process, "variant": name}
        | {"CPU": cost.process, "its thread": cost.thread, "wall": cost.wall}
        | {"of plain": row.share(name)}
        for row in rows
        for name, cost in row.added.items()
    ]
    written(flat, file)
    print(
        "\nAdded CPU of the process as a share of the plain request's. The gate is for those that"
    )
    print("are sampled out; medians of few rounds, or on a busy machine, scatter around it.")
    names = (SAMPLED_OUT, EVALUATED, OPENINFERENCE)
    gates: list[dict[str, object]] = [
        {"request": row.title, "plain ms": row.plain.process}
        | {name: row.share(name) for name in names}
        | {"gate": row.gate, "": "met" if (row.share(SAMPLED_OUT) or 0) <= row.gate else "missed"}
        for row in rows
    ]
    written(gates, None)
