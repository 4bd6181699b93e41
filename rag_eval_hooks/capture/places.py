"""The line of execution in which the application made a call."""

from __future__ import annotations

import asyncio
import threading
import weakref
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context as OtelContext

__all__ = ["Nearness", "Place", "current_task", "place_of_caller"]


class Nearness(IntEnum):
    """Strength of the evidence that two calls belong to one request."""

    APART = -1
    """In two traces: of two requests."""
    UNKNOWN = 0
    TRACE = 1
    """Below one span, or on one thread."""
    LINE = 2
    """In one task, or on one thread below one span."""


@dataclass(frozen=True, slots=True)
class Place:
    """Span, task and thread around a call.

    Attributes:
        span: The current span of OpenTelemetry, possibly an invalid one.
        task: The running task of asyncio, or None.
        thread: The thread's ident.
    """

    span: trace.Span
    task: weakref.ref[Any] | None
    thread: int

    def nearness(self, other: Place) -> Nearness:
        """Return how surely two calls belong together, before their texts are compared."""
        one, two = self.span.get_span_context(), other.span.get_span_context()
        if one.is_valid and two.is_valid and one.trace_id != two.trace_id:
            return Nearness.APART
        below_one = one.is_valid and one.span_id == two.span_id
        if self.task is not None and self.task is other.task:
            return Nearness.LINE
        if self.task is other.task and self.thread == other.thread:
            return Nearness.LINE if below_one else Nearness.TRACE
        return Nearness.TRACE if below_one else Nearness.UNKNOWN

    @property
    def is_over(self) -> bool:
        """True once the request's own span has ended, or without one its task."""
        if self.span.get_span_context().is_valid:
            parent = getattr(self.span, "parent", None)
            is_outermost = parent is None or parent.is_remote
            return is_outermost and getattr(self.span, "end_time", None) is not None
        task = None if self.task is None else self.task()
        return self.task is not None and (task is None or task.done())


def current_task() -> asyncio.Task[Any] | None:
    """Return the task of the caller, or None outside of any."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def place_of_caller(otel: OtelContext) -> Place:
    """Return the place of the caller, in a context of OpenTelemetry."""
    task = current_task()
    reference = None if task is None else weakref.ref(task)
    return Place(trace.get_current_span(otel), reference, threading.get_ident())
