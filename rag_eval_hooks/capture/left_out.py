"""Requests that were sampled out at their start. Only their ids are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.trace import format_trace_id

from rag_eval_hooks.capture.bounded import oldest
from rag_eval_hooks.capture.records import RunKind
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.sample import Status

LeavesOut: TypeAlias = Callable[[str, Sequence[str], Mapping[str, Any]], bool]
"""Returns whether a request is sampled out, given its sampling key, tags and metadata."""

_MOST_RUNS = 10_000
"""Maximum number of run ids to keep per request."""


@dataclass(slots=True, eq=False)
class LeftOut:
    id: Hashable
    key: str
    trace_id: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    opened: int
    # Ids of the request's runs.
    runs: list[Hashable]
    attempted: bool = False
    status: Status = Status.OK


class LeftOutRequests:
    """Requests that were sampled out at their start. Lock-free.

    A retriever and a model that are called separately need the same decision. Without a common
    trace or thread, neither is sampled at its start.
    """

    def __init__(self, ttl_ns: int, most: int) -> None:
        self._ttl_ns = ttl_ns
        self._most = most
        self._decide: LeavesOut | None = None
        self._on_end: Callable[[LeftOut], None] = lambda _: None
        self.forked()

    def forked(self) -> None:
        self._runs: dict[Hashable, LeftOut] = {}
        self._roots: dict[Hashable, LeftOut] = {}

    def decide_by(self, decide: LeavesOut, on_end: Callable[[LeftOut], None]) -> None:
        self._decide, self._on_end = decide, on_end

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._runs

    def key_of(
        self, run_id: Hashable, kind: RunKind, otel: OtelContext, metadata: Mapping[str, Any]
    ) -> str | None:
        """Return the sampling key of a starting root, or None to sample the root at its end."""
        if self._decide is None:
            return None
        if (thread := metadata.get("thread_id")) is not None:
            return str(thread)
        if (trace_id := _trace_id(otel)) is not None:
            return trace_id
        return id_of(run_id) if kind in (RunKind.CHAIN, RunKind.TOOL) else None

    def leaves_out(
        self,
        run_id: Hashable,
        key: str | None,
        kind: RunKind,
        otel: OtelContext,
        tags: tuple[str, ...],
        metadata: Mapping[str, Any],
    ) -> bool:
        # Runs inside a manual block have no thread and are sampled with it.
        if self._decide is None or key is None or kind is RunKind.MANUAL:
            return False
        if not self._decide(key, tags, metadata):
            return False
        left = LeftOut(run_id, key, _trace_id(otel), tags, metadata, time.time_ns(), [run_id])
        if len(self._roots) >= self._most and (first := oldest(self._roots)) is not None:
            self._forget(first)
        self._roots[run_id] = self._runs[run_id] = left
        return True

    def starts(self, run_id: Hashable, parent_id: Hashable | None, kind: RunKind) -> bool:
        """Record a starting run. Return whether the run belongs to a sampled-out request."""
        left = self._runs.get(parent_id) if parent_id is not None else self._runs.get(run_id)
        if left is None:
            return False
        left.attempted |= kind is RunKind.RETRIEVER
        if run_id not in self._runs and len(left.runs) < _MOST_RUNS:
            self._runs[run_id] = left
            left.runs.append(run_id)
        return True

    def ends(self, run_id: Hashable, status: Status) -> Sequence[Hashable] | None:
        """Record a finished run. If sampled out, return the ids that end with the run."""
        left = self._runs.get(run_id)
        if left is None:
            return None
        if left.id != run_id:
            return ()
        left.status = status
        self._forget(left)
        if left.attempted:
            self._on_end(left)
        return left.runs

    def sweep(self) -> None:
        before = time.time_ns() - self._ttl_ns
        while (first := oldest(self._roots)) is not None and first.opened <= before:
            self._forget(first)

    def _forget(self, left: LeftOut) -> None:
        self._roots.pop(left.id, None)
        for run_id in left.runs:
            self._runs.pop(run_id, None)


def _trace_id(otel: OtelContext) -> str | None:
    span = trace.get_current_span(otel).get_span_context()
    return format_trace_id(span.trace_id) if span.is_valid else None
