"""CPU that a way of watching a request adds, against the same request unwatched.

Variants take turns, request by request, in random order, and every figure is the median of the
differences to the plain request of the same round: what else runs on the machine adds to both.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rag_eval_hooks import Sample, Score
from rag_eval_hooks.testing import Findings

__all__ = [
    "CALL_GATE",
    "EVALUATED",
    "OPENINFERENCE",
    "PLAIN",
    "SAMPLED_OUT",
    "STREAM_GATE",
    "Cost",
    "Row",
    "Tracing",
    "Variant",
    "constant",
    "flat",
    "measure",
    "summary",
]

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


def constant(_sample: Sample, _findings: Findings) -> Score:
    """Return a constant score, so that only the way to it is measured."""
    return Score(value=1.0, normalised=1.0)


@dataclass
class Variant:
    """One way of watching.

    Attributes:
        callbacks: What the request is given.
        switch: Entered around each request, outside the measured time.
        settle: Called after each request, inside the measured CPU of the process.
        clear: Called after each request, outside the measured time.
    """

    callbacks: list[Any] = field(default_factory=list)
    switch: Callable[[], AbstractContextManager[None]] = nullcontext
    settle: Callable[[], object] = bool
    clear: Callable[[], object] = bool


@dataclass(frozen=True)
class Cost:
    """Milliseconds of one request, or the median of what a variant adds to it.

    Attributes:
        process: CPU of all threads, until the background has done its part.
        thread: CPU of the thread that the request was made in.
        wall: As its caller sees it.
    """

    process: float
    thread: float
    wall: float

    def __sub__(self, other: Cost) -> Cost:
        """Return the difference of two costs."""
        return Cost(
            self.process - other.process, self.thread - other.thread, self.wall - other.wall
        )


@dataclass(frozen=True)
class Row:
    """Measurements of one request.

    Attributes:
        title: The shape, and how it is called.
        gate: What share a request that is sampled out may add.
        plain: The request unwatched.
        added: By each other variant.
    """

    title: str
    gate: float
    plain: Cost
    added: dict[str, Cost]

    def share(self, variant: str) -> float | None:
        """Added CPU of the process as a share of the plain request's; None if not measured."""
        return self.added[variant].process / self.plain.process if variant in self.added else None


def measure(
    title: str,
    request: Callable[[list[Any]], None],
    variants: dict[str, Variant],
    *,
    gate: float,
    rounds: int,
    warm_up: int = 20,
) -> Row:
    """Measure the cost of every variant for a request.

    Args:
        title: The shape, and how it is called.
        request: Makes it with some callbacks.
        variants: By name; one is `PLAIN`.
        gate: What share a request that is sampled out may add.
        rounds: Of one request a variant.
        warm_up: Rounds before.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in variants}
    for number in range(rounds + warm_up):
        for name in random.sample(list(variants), len(variants)):
            cost = _once(request, variants[name])
            if number >= warm_up:
                costs[name].append(cost)
    plain = costs.pop(PLAIN)
    added = {
        name: _median([cost - base for cost, base in zip(rows, plain, strict=True)])
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


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.process for cost in costs),
        statistics.median(cost.thread for cost in costs),
        statistics.median(cost.wall for cost in costs),
    )


def flat(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return what every variant adds to every request, in milliseconds."""
    return [
        {"request": row.title, "plain": row.plain.process, "variant": name}
        | {"CPU": cost.process, "its thread": cost.thread, "wall": cost.wall}
        | {"of plain": cost.process / row.plain.process}
        for row in rows
        for name, cost in row.added.items()
    ]


def summary(rows: Sequence[Row]) -> str:
    """Return the shares of all requests in one table, with the gates."""
    names = (SAMPLED_OUT, EVALUATED, OPENINFERENCE)
    head = "".join(f"{name:>20}" for name in names)
    lines = [
        "\nAdded CPU of the process as a share of the plain request's. The gate is for those that",
        "are sampled out; medians of few rounds, or on a busy machine, scatter around it.",
        f"{'request':<22}{'plain':>10}{head}{'gate':>16}",
    ]
    for row in rows:
        shares = "".join(f"{_written(row.share(name)):>20}" for name in names)
        met = (row.share(SAMPLED_OUT) or 0.0) <= row.gate
        verdict = f"{row.gate:.2f} {'met' if met else 'missed'}"
        lines.append(f"{row.title:<22}{row.plain.process:>7.2f} ms{shares}{verdict:>16}")
    return "\n".join(lines)


def _written(share: float | None) -> str:
    return "-" if share is None else f"{share:.2f}"
