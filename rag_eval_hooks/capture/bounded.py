"""Bounded maps of open, finished and sampled-out requests."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.trace import format_trace_id

from rag_eval_hooks.capture.records import Interaction, RunKind
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.sample import Status

LeavesOut: TypeAlias = Callable[[str, Sequence[str], Mapping[str, Any]], bool]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_REMEMBERED_S = 60.0
"""Seconds for which the recorder remembers the id of a finished run."""
_MOST_IDS = 200_000
"""Maximum number of remembered ids of finished runs. The ids take tens of megabytes."""
_MOST_RUNS = 10_000
"""Maximum number of run ids per sampled-out request."""
_MAX_CHARS = 400_000_000
"""Maximum number of characters that all open requests contain together."""


def remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    known[key] = value
    while len(known) > most and (first := _first(known)) is not None:
        known.pop(first[0], None)


def oldest(known: Mapping[K, V]) -> V | None:
    first = _first(known)
    return None if first is None else first[1]


def _first(known: Mapping[K, V]) -> tuple[K, V] | None:
    try:
        return next(iter(known.items()), None)
    except RuntimeError:
        return None


class EndedIds:
    """Remembers ids of recently finished runs, to recognize late events. Lock-free."""

    def __init__(self) -> None:
        self._times: dict[Hashable, tuple[float, bool]] = {}

    def add(self, run_id: Hashable, *, is_root: bool = False) -> None:
        now = time.monotonic()
        remember(self._times, run_id, (now, is_root), _MOST_IDS)
        # Each call removes up to two expired entries, so that no entry stays forever.
        for _ in range(2):
            first = _first(self._times)
            if first is not None and now - first[1][0] >= _REMEMBERED_S:
                self._times.pop(first[0], None)

    def forget(self, run_id: Hashable) -> None:
        self._times.pop(run_id, None)

    def is_root(self, run_id: Hashable) -> bool:
        return self._times.get(run_id, (0.0, False))[1]

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._times


class OpenInteractions(dict[Hashable, Interaction]):
    def old(self, oldest_allowed: int) -> Iterator[Interaction]:
        while (first := oldest(self)) is not None and first.opened <= oldest_allowed:
            yield first

    def beyond(self, most: int) -> Iterator[Interaction]:
        while len(self) >= most and (first := oldest(self)) is not None:
            yield first

    def large(self) -> Iterator[Interaction]:
        held = [(one, one.chars) for one in list(self.values())]
        excess = sum(chars for _, chars in held) - _MAX_CHARS
        for interaction, chars in held:
            if excess <= 0:
                return
            excess -= chars
            yield interaction

    def left(self, most: int | None = None) -> Iterator[Interaction]:
        opened: list[Interaction] = []
        with contextlib.suppress(RuntimeError):
            opened = list(islice(self.values(), most))
        yield from filter(_is_left, opened)


def _is_left(interaction: Interaction) -> bool:
    held = interaction.task
    if held is None:
        return False
    if not isinstance(held, asyncio.AbstractEventLoop):
        if not held.done():
            return False
        if held.cancelled() or interaction.root.kind is RunKind.MODEL:
            return True
        # Keep only the loop, because the task may hold the object that reports the end.
        interaction.task = held = held.get_loop()
    return held.is_closed() or (interaction.id is not None and interaction.id() is None)


@dataclass(slots=True, eq=False)
class LeftOut:
    id: Hashable
    key: str
    trace_id: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    opened: int
    # ids of the request's runs
    runs: list[Hashable]
    attempted: bool = False
    status: Status = Status.OK


class LeftOutRequests:
    """Remembers requests that were sampled out at their start. Lock-free.

    A retriever and a model that the application calls separately need the same sampling decision.
    If they share no trace and no thread, sampling decides only at the end of each run.
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
        """Return a root's sampling key, or None to postpone sampling to the end of the root."""
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
        # The manual block decides for its runs, because they have no thread id.
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
        left = self._runs.get(parent_id) if parent_id is not None else self._runs.get(run_id)
        if left is None:
            return False
        left.attempted |= kind is RunKind.RETRIEVER
        if run_id not in self._runs and len(left.runs) < _MOST_RUNS:
            self._runs[run_id] = left
            left.runs.append(run_id)
        return True

    def ends(self, run_id: Hashable, status: Status) -> Sequence[Hashable] | None:
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
