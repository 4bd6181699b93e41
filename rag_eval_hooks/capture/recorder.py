"""Receives run events from integrations, and reports finished requests."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from opentelemetry import context as otel_context

from rag_eval_hooks.capture.bounded import (
    LeftOut,
    RunTable,
    Suspensions,
    current_task,
    is_cancelled,
    oldest,
    trace_id_of,
)
from rag_eval_hooks.capture.endings import Endings
from rag_eval_hooks.capture.interaction import enclosing_run
from rag_eval_hooks.capture.manual_calls import ManualCalls
from rag_eval_hooks.capture.notes import Notes
from rag_eval_hooks.capture.options import Unmatched
from rag_eval_hooks.capture.records import Interaction, Run, RunKind, status_after
from rag_eval_hooks.config import limits
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.own_requests import is_suppressed
from rag_eval_hooks.sample import Status

_NO_MODEL = (
    "A retriever ran with the handler, but no model ran with the handler. "
    "Pass the handler to a chain that contains the retriever and the model"
)
_MAX_RUNS = 10_000
"""Maximum number of runs per request. A request with more runs is abandoned."""
_MAX_CHARS = 400_000_000
"""Maximum number of characters that all open requests contain together."""


class Recorder(RunTable, Notes):
    """Any thread may report events. The events of one run must arrive in order.

    After the first call of `on_wait`, the recorder's creator must call `sweep` regularly.
    """

    def __init__(
        self,
        on_end: Callable[[Interaction], None],
        *,
        max_text_chars: int = 20_000,
        on_wait: Callable[[], object] = lambda: None,
        incidents: Incidents | None = None,
    ) -> None:
        incidents = incidents or Incidents()
        Notes.__init__(self, limits.INTERACTION_CHARS, max_text_chars, incidents)
        RunTable.__init__(self)
        self._on_end = on_end
        self._on_wait = on_wait
        self._ttl_ns = int(limits.INTERACTION_SECONDS * 1e9)
        self._max_open = limits.OPEN_INTERACTIONS
        # Each function returns the id of the framework's current run.
        self.locators: set[Callable[[], Hashable | None]] = set()
        self.forked()

    def forked(self) -> None:
        self.unmatched = Unmatched(self._incidents)
        self._forget_runs()
        self._open: dict[Hashable, Interaction] = {}
        self._waiting: dict[Hashable, Interaction] = {}
        self.suspensions = Suspensions(self._on_end, self._max_open)
        self.by_hand = ManualCalls(self._on_end)
        self.ended = Endings(self._incidents, self.by_hand)

    def report_unmet(self) -> None:
        self.unmatched.report()
        if self.ended.lacks_model:
            self._incidents.count(_NO_MODEL, detail="or use evals.interaction()")

    def opened(self) -> tuple[int, int]:
        held = [*self._open.values(), *self.suspensions.waiting()]
        return len(held), sum(interaction.chars for interaction in held)

    def __len__(self) -> int:
        return len(self._open)

    def around(self, parent_id: Hashable | None) -> Run | None:
        if parent_id is not None and (run := self.get(parent_id)) is not None:
            return run
        for locate in tuple(self.locators):
            if (run_id := locate()) is not None and (run := self.get(run_id)) is not None:
                return run
        run = enclosing_run(self)
        # A forked child inherits the context, but its recorder has no runs.
        return run if run is not None and self.get(run.id) is run else None

    def start(
        self,
        run_id: Hashable,
        parent_id: Hashable | None,
        kind: RunKind,
        name: str,
        metadata: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
        *,
        apart: bool = False,
    ) -> Run | None:
        """Return the new run, or None if the recorder ignores the run.

        If `apart` is true, a run inside an open `interaction()` block starts a new request.
        """
        if self.skips(run_id, parent_id, kind) or run_id in self._runs:
            return None
        # Applications may reuse the id of a finished root for a new root.
        was_root = self._ended.get(run_id) or self._ended_before.get(run_id)
        if self._has_ended(run_id) and not (was_root and parent_id is None):
            return None
        parent = self.of_open_request(parent_id)
        # `_remember` adds an id to the ended runs before it removes the id from `_runs`. If we
        # check `_runs` first, we cannot miss the id.
        if self._has_ended(parent_id):
            # Remember this run, so that its children are ignored, too.
            self._remember(run_id)
            return None
        if parent is None:
            if is_suppressed():
                return None
            parent = self.around(None)
            is_inside = parent is None and self.left_out
            located = [locate() for locate in tuple(self.locators)] if is_inside else ()
            if any(one is not None and self.skips(run_id, one, kind) for one in located):
                return None
        self._ended.pop(run_id, None)
        self._ended_before.pop(run_id, None)
        if parent is None or (apart and parent.by_hand):
            return self._start_root(run_id, kind, name, metadata or {}, tuple(tags or ()))
        return self.start_child(run_id, kind, name, parent)

    def start_child(self, run_id: Hashable, kind: RunKind, name: str, parent: Run) -> Run | None:
        if run_id in self._runs or run_id in self._ended or run_id in self._ended_before:
            return None
        interaction = parent.interaction
        runs = interaction.runs
        if len(runs) >= _MAX_RUNS:
            self._finish(runs[0], Status.ABANDONED)
            return None
        is_outermost = parent.kind is RunKind.MANUAL
        run = Run(run_id, kind, name, parent, interaction, time.time_ns(), is_outermost)
        runs.append(run)
        if kind is RunKind.RETRIEVER:
            interaction.attempted = True
        self._runs[run_id] = run
        if runs[0].id not in self._open:
            # Another thread has ended the request, so no other code would remove the run.
            self._remember(run_id)
            return None
        return run

    def _start_root(
        self,
        run_id: Hashable,
        kind: RunKind,
        name: str,
        metadata: Mapping[str, Any],
        tags: tuple[str, ...],
    ) -> Run | None:
        otel = otel_context.get_current()
        trace_id, now = trace_id_of(otel), time.time_ns()
        key = self.key_of(run_id, kind, trace_id, metadata)
        # Runs in a manual block have no thread id, so sampling decides at the block's end.
        if key is not None and kind is not RunKind.MANUAL:
            root = LeftOut(run_id, key, trace_id, tags, metadata, now, [run_id])
            if self._is_left_out(root):
                return None
        # Without a background thread, no sweep runs.
        while (first := oldest(self._open)) is not None and (
            len(self._open) >= self._max_open or first.opened <= now - self._ttl_ns
        ):
            self._finish(first.root, Status.ABANDONED)
        interaction = Interaction(otel, tags=tags, sampling_key=key, opened=now)
        interaction.task = task = current_task()
        interaction.line = threading.get_ident() if task is None else weakref.ref(task)
        interaction.metadata = self._cut_metadata(interaction, metadata)
        run = Run(run_id, kind, name, None, interaction, now, outermost=True)
        interaction.runs.append(run)
        self._runs[run_id] = run
        self._open[run_id] = interaction
        return run

    def end(self, run: Run) -> None:
        if run.parent is None:
            run.interaction.returned = True
            self.settle(run)
        elif run.end is None:
            run.end = time.time_ns()

    def settle(self, run: Run) -> None:
        interaction = run.interaction
        root = interaction.root
        if root.end is not None:
            # Two threads may see the end of the stream at the same time.
            self._waiting.pop(root.id, None)
        elif interaction.returned:
            endings = [over() for over in interaction.streams]
            if None in endings:
                self._waiting[root.id] = interaction
                self._on_wait()
            else:
                unwell = (way for way in endings if way is not None and way is not Status.OK)
                self._finish(root, next(unwell, Status.OK))

    def fail(self, run: Run, error: BaseException | type[BaseException]) -> None:
        kind = error if isinstance(error, type) else type(error)
        run.error_type = kind.__qualname__
        self._finish(run, status_after(kind))

    def lost(self, run_id: Hashable, parent_id: Hashable | None = None) -> None:
        """Mark a lost event's request as incomplete. For an unknown run, mark all open requests."""
        known = self.of_open_request(run_id) or self.of_open_request(parent_id)
        if (run := known or self.around(None)) is not None:
            run.interaction.misses_event(of_root=run.outermost and run.id == run_id)
        elif not (self._has_ended(run_id) or self._has_ended(parent_id)):
            self._on_end(Interaction(otel_context.get_current(), is_readable=False))
            for open_one in list(self._open.values()):
                open_one.misses_event()
        names = (name for name in (run_id, parent_id) if name not in self._runs)
        self._remember(*(name for name in names if name is not None))

    def _finish(self, run: Run, status: Status) -> None:
        if run.end is not None:
            return
        run.end = time.time_ns()
        if run.parent is None:
            if run.id in self._waiting and status is not Status.ABANDONED:
                # Capture notices the end of a stream late, so use the time of the last event.
                ends = (one.end or 0 for one in run.interaction.runs[1:])
                run.end = max((run.interaction.read_until, *ends)) or run.end
            # A root's end and a sweep may race. The thread that removes the request reports it.
            if self._open.pop(run.id, None) is not None:
                self._waiting.pop(run.id, None)
                run.interaction.task, run.interaction.status = None, status
                self._report(run.interaction)

    def _report(self, interaction: Interaction) -> None:
        runs = interaction.runs
        self._remember(*[run.id for run in runs], root_id=runs[0].id)
        for run in runs:
            if run.end is None:
                run.end, run.unfinished = runs[0].end, True
                if run.checkpoint is not None:
                    interaction.stops.add(run.checkpoint)
        if interaction.interrupted and interaction.status is Status.OK:
            interaction.status = Status.INTERRUPTED
            self._on_wait()
            self.suspensions.add(interaction)
        else:
            self._on_end(interaction)

    def sweep(self) -> None:
        for interaction in list(self._waiting.values()):
            self.settle(interaction.root)
        oldest_allowed = time.time_ns() - self._ttl_ns
        self._sweep_runs(oldest_allowed)
        self.suspensions.sweep(oldest_allowed)
        self._sweep_open(oldest_allowed)

    def join(self, *, at_once: bool) -> None:
        self.by_hand.sweep(list(self._open.values()), at_once=at_once)

    def _sweep_open(self, oldest_allowed: int) -> None:
        sizes = [(one, one.chars) for one in list(self._open.values())]
        excess = sum(chars for _, chars in sizes) - _MAX_CHARS
        for interaction, chars in sizes:
            if interaction.opened <= oldest_allowed or excess > 0:
                excess -= chars
                self._finish(interaction.root, Status.ABANDONED)
            elif is_cancelled(interaction):
                # First check the streams, because a stream may finish without an event.
                self.settle(interaction.root)
                self._finish(interaction.root, Status.CANCELLED)

    def abandon_open(self) -> None:
        for interaction in (opened := list(self._open.values())):
            self._finish(interaction.root, Status.ABANDONED)
        advice = "The request is not evaluated. Read streams to the end before evals.shutdown()"
        self._incidents.count("A request was open at shutdown", len(opened), detail=advice)
