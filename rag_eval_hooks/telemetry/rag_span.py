"""Holds RAG spans until their scores exist, and limits their attributes."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags

from rag_eval_hooks import semconv
from rag_eval_hooks.config import limits
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import Attributes, HeldSpan
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.semconv import EvalStatus

V = TypeVar("V")
# Maximum number of our attributes per span. By default, the SDK keeps 128 and drops the oldest.
_MAX_OURS: Final = 100


class SpanHolder:
    """Holds each span for at most `hold_timeout` seconds. Thread-safe."""

    def __init__(self, hold_timeout: float, incidents: Incidents) -> None:
        self._hold_timeout = hold_timeout
        self._max_held = limits.HELD_SPANS
        self._incidents = incidents
        self._closed = False
        self.forked()

    def forked(self) -> None:
        self._lock = threading.Lock()
        # Insertion order is deadline order, because all spans have the same timeout.
        self._held: dict[HeldSpan, None] = {}

    def hold(self, held: HeldSpan) -> None:
        with self._lock:
            if held in self._held:
                return
            held.deadline = time.monotonic() + self._hold_timeout
            room = len(self._held) < self._max_held and not self._closed
            if room:
                self._held[held] = None
        if not room:
            status = EvalStatus.SHUTDOWN if self._closed else EvalStatus.OVERFLOW
            self.end(held, {semconv.EVAL_STATUS: status.value})

    def finish(
        self, held: HeldSpan, attributes: Attributes, links: Sequence[SpanContext] = ()
    ) -> bool:
        with self._lock:
            if held not in self._held:
                return False
            del self._held[held]
        was_recording = held.span.is_recording()
        self.end(held, attributes, links)
        return was_recording

    def release_all(self, status: EvalStatus, until: float = math.inf) -> None:
        with self._lock:
            late = list(itertools.takewhile(lambda held: held.deadline <= until, self._held))
            for held in late:
                del self._held[held]
        for held in late:
            self.end(held, {semconv.EVAL_STATUS: status.value})

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.release_all(EvalStatus.SHUTDOWN)

    def __len__(self) -> int:
        return len(self._held)

    def end(
        self, held: HeldSpan, attributes: Attributes, links: Sequence[SpanContext] = ()
    ) -> None:
        try:
            held.span.set_attributes(attributes)
            for link in links:
                held.span.add_link(link)
            held.span.end(held.end_time)
        except Exception as error:  # noqa: BLE001 - a user's processor may raise anything
            self._incidents.report("span end", error)


def recorded_span(trace_id: str | None, span_id: str | None) -> SpanContext | None:
    try:
        ids = int(trace_id or "", 16), int(span_id or "", 16)
    except ValueError:
        return None
    context = SpanContext(*ids, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return context if context.is_valid else None


def around(span: SpanContext | None) -> Context:
    if span is None:
        return Context()
    return trace.set_span_in_context(NonRecordingSpan(span), Context())


def context_of(sample: Sample) -> Context:
    return around(recorded_span(sample.trace_id, sample.span_id))


def present(attributes: Mapping[str, V | None]) -> dict[str, V]:
    return {
        key: value.value if isinstance(value, Enum) else value
        for key, value in attributes.items()
        if value is not None
    }


def _room(span: object, limit: str, used: str) -> int | None:
    most = getattr(getattr(span, "_limits", None), limit, None)
    return None if most is None else max(0, int(most) - len(getattr(span, used, None) or ()))


def attribute_room(span: object) -> int | None:
    return _room(span, "max_span_attributes", "attributes")


def longest_text(span: object) -> int | None:
    limit = getattr(getattr(span, "_limits", None), "max_span_attribute_length", None)
    return None if limit is None else int(limit)


def fitting(span: object, attributes: Attributes) -> Attributes:
    room = attribute_room(span)
    left = _MAX_OURS if room is None else min(room, _MAX_OURS)
    old = getattr(span, "attributes", None) or {}
    new = [key for key in attributes if key not in old]
    if len(new) <= left:
        return attributes
    omitted = set(new[max(0, left - 1) :])
    chosen = {key: value for key, value in attributes.items() if key not in omitted}
    # On a full span, the count would push out one of the application's attributes.
    if left:
        chosen[semconv.EVAL_OMITTED] = len(omitted)
    return chosen


def complete(span: Span, attributes: Attributes, links: Sequence[SpanContext] = ()) -> None:
    span.set_attributes(fitting(span, attributes))
    for link in links[: _room(span, "max_links", "links")]:
        span.add_link(link)
