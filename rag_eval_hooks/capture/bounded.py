"""Stores the runs of open and interrupted requests, and the ids of finished runs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.trace import format_trace_id

from rag_eval_hooks.capture.options import thread_of
from rag_eval_hooks.capture.records import Interaction, Run, RunKind, status_after
from rag_eval_hooks.config import limits
from rag_eval_hooks.request import id_of
from rag_eval_hooks.sample import Status

Fits: TypeAlias = Callable[[Interaction], bool]
LeavesOut: TypeAlias = Callable[[str, Sequence[str], Mapping[str, Any]], bool]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_REMEMBERED_S = 60.0
"""Minimum number of seconds for which the recorder remembers the id of a finished run."""
_MOST_IDS = 100_000
"""The recorder may forget an id after this many finished runs. Their ids take tens of megabytes."""
_MOST_RUNS = 10_000
"""Maximum number of run ids per sampled-out request."""


def remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    known[key] = value
    while len(known) > most:
        with contextlib.suppress(RuntimeError):
            known.pop(next(iter(known)), None)


def oldest(known: Mapping[Any, V]) -> V | None:
    try:
        return next(iter(known.values()), None)
    except RuntimeError:
        return None


@dataclass(slots=True, eq=False)
class LeftOut:
    """A request that sampling excluded at the request's start."""

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


class RunTable:
    # Needs no lock, because single operations on dictionaries are atomic.

    def __init__(self) -> None:
        self._leaves_out: LeavesOut | None = None
        self._on_left_out: Callable[[LeftOut], None] = lambda _: None
        self._forget_runs()

    def _forget_runs(self) -> None:
        self._runs: dict[Hashable, Run | LeftOut] = {}
        # sampled-out requests by the id of their root
        self.left_out: dict[Hashable, LeftOut] = {}
        # for the id of each finished run, whether the run was a root
        self._ended: dict[Hashable, bool] = {}
        self._ended_before: dict[Hashable, bool] = {}
        self._aged = time.monotonic()

    def get(self, run_id: Hashable) -> Run | None:
        run = self._runs.get(run_id)
        return run if type(run) is Run and run.end is None else None

    def of_open_request(self, run_id: Hashable) -> Run | None:
        run = self._runs.get(run_id)
        return run if type(run) is Run else None

    def knows(self, run_id: Hashable) -> bool:
        return run_id in self._runs

    def is_unknown(self, run_id: Hashable) -> bool:
        return run_id not in self._runs and not self._has_ended(run_id)

    def _has_ended(self, run_id: Hashable) -> bool:
        return run_id in self._ended or run_id in self._ended_before

    def _remember(self, *run_ids: Hashable, root_id: Hashable = None) -> None:
        # A late event of a finished run must not start a new request.
        ended, runs = self._ended, self._runs
        for run_id in run_ids:
            ended[run_id] = run_id == root_id
            runs.pop(run_id, None)
        if len(ended) > _MOST_IDS:
            self._age()

    def _age(self) -> None:
        self._ended_before, self._ended, self._aged = self._ended, {}, time.monotonic()

    def decide_by(self, leaves_out: LeavesOut, on_left_out: Callable[[LeftOut], None]) -> None:
        self._leaves_out, self._on_left_out = leaves_out, on_left_out

    def key_of(
        self, run_id: Hashable, kind: RunKind, trace_id: str | None, metadata: Mapping[str, Any]
    ) -> str | None:
        # None means that the sampler decides at the end of the run.
        if self._leaves_out is None:
            return None
        # Separate calls of a retriever and a model need the same decision, so prefer a shared id.
        thread = metadata.get("thread_id")
        key = str(thread) if thread is not None else trace_id
        return id_of(run_id) if key is None and kind in (RunKind.CHAIN, RunKind.TOOL) else key

    def _is_left_out(self, root: LeftOut) -> bool:
        if self._leaves_out is None or not self._leaves_out(root.key, root.tags, root.metadata):
            return False
        if len(self.left_out) >= limits.OPEN_INTERACTIONS and (first := oldest(self.left_out)):
            self._drop(first)
        self.left_out[root.id] = self._runs[root.id] = root
        return True

    def skips(self, run_id: Hashable, parent_id: Hashable | None, kind: RunKind) -> bool:
        runs = self._runs
        left = runs.get(run_id if parent_id is None else parent_id)
        if type(left) is not LeftOut:
            return False
        if kind is RunKind.RETRIEVER:
            left.attempted = True
        if run_id not in runs and len(left.runs) < _MOST_RUNS:
            runs[run_id] = left
            left.runs.append(run_id)
        return True

    def leave(self, run_id: Hashable, error: BaseException | None = None) -> bool:
        left = self._runs.get(run_id)
        if type(left) is not LeftOut:
            return False
        if left.id == run_id:
            left.status = Status.OK if error is None else status_after(type(error))
            self._drop(left)
            if left.attempted:
                self._on_left_out(left)
        return True

    def _drop(self, left: LeftOut) -> None:
        self.left_out.pop(left.id, None)
        self._remember(*left.runs, root_id=left.id)

    def _sweep_runs(self, oldest_allowed: int) -> None:
        while (first := oldest(self.left_out)) is not None and first.opened <= oldest_allowed:
            self._drop(first)
        if time.monotonic() - self._aged > _REMEMBERED_S:
            self._age()


class Suspensions:
    def __init__(self, report: Callable[[Interaction], None], most: int) -> None:
        self._report = report
        self._most = most
        # Conversation and request by root id. The caller that removes an entry owns the request.
        self._waiting: dict[Hashable, tuple[str, Interaction]] = {}

    def add(self, interaction: Interaction) -> None:
        root = interaction.root
        conversation = thread_of(root.name, interaction.metadata)
        if conversation is not None:
            interaction.opened = time.time_ns()
            self._waiting[root.id] = conversation, interaction
            if len(self._waiting) > self._most and (first := oldest(self._waiting)) is not None:
                self._give_up(first[1])
        else:
            self._report(interaction)

    def resume(self, run: Run, conversation: str, fits: Fits) -> bool:
        fitting = self._fitting(conversation, fits)
        if len(fitting) != 1 or not self._remove(fitting[0]):
            return False
        earlier, interaction = fitting[0], run.interaction
        run.start, interaction.otel = earlier.root.start, earlier.otel
        interaction.metadata = {**earlier.metadata, **interaction.metadata}
        interaction.pending.appendleft(partial(interaction.absorb, earlier))
        return True

    def renew(self, conversation: str, fits: Fits) -> None:
        for interaction in self._fitting(conversation, fits):
            self._give_up(interaction)

    def sweep(self, oldest_allowed: float) -> None:
        while (first := oldest(self._waiting)) and first[1].opened <= oldest_allowed:
            self._give_up(first[1])

    def close(self) -> None:
        self._most = 0
        self.sweep(float("inf"))

    def waiting(self) -> list[Interaction]:
        return [one for _, one in list(self._waiting.values())]

    def _fitting(self, conversation: str, fits: Fits) -> list[Interaction]:
        waiting = [one for name, one in list(self._waiting.values()) if name == conversation]
        return list(filter(fits, waiting))

    def _give_up(self, interaction: Interaction) -> None:
        if self._remove(interaction):
            self._report(interaction)

    def _remove(self, interaction: Interaction) -> bool:
        return self._waiting.pop(interaction.root.id, None) is not None


def trace_id_of(otel: OtelContext) -> str | None:
    span = trace.get_current_span(otel).get_span_context()
    return format_trace_id(span.trace_id) if span.is_valid else None


def current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def is_cancelled(interaction: Interaction) -> bool:
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
