"""Framework-free bookkeeping: run events in, ended interactions out."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from opentelemetry import context as otel_context

from rag_eval_hooks.capture.bounded import EndedIds, oldest
from rag_eval_hooks.capture.endings import Endings, is_left
from rag_eval_hooks.capture.interaction import enclosing_run
from rag_eval_hooks.capture.left_out import LeftOutRequests
from rag_eval_hooks.capture.manual_calls import ManualCalls
from rag_eval_hooks.capture.notes import Notes
from rag_eval_hooks.capture.records import Interaction, Place, Run, RunKind, current_task
from rag_eval_hooks.capture.resume import Suspensions
from rag_eval_hooks.config import limits
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Status
from rag_eval_hooks.suppress import is_suppressed

__all__ = ["Recorder", "status_after"]

_OF_EVENTS = ("contexts", "prompt")
"""Parts of a sample that may be wrong where an event of any of its runs is missing."""
_OF_ROOT = ("question", "answer")
"""Parts of a sample that may be wrong where an event of its root is missing."""
_LOOKED_AT = 20
"""Open interactions whose tasks are looked at when one more starts."""
_PATIENCE_S = 2.0
"""Seconds for which one thread waits for another that sweeps."""
_POLL_S = 0.001
_MAX_RUNS = 10_000
"""Runs of one interaction; one more, and it is abandoned as one that never ends."""
_MAX_OPEN_CHARS = 400_000_000
"""Characters of text that all open interactions may hold together."""


class Recorder(Notes):
    """Follows runs by their ids and reports each interaction once, after its root has ended.

    Methods for events are O(1), take no lock and may be called from any thread. Events of one run
    come in order, events of different runs in any. Late and repeated events are ignored. What an
    event means is found out later, by `sweep`: see `defer`.

    Args:
        on_end: Called with every ended interaction, off the request's thread.
        max_text_chars: Characters of one text that are of use later.
        on_wait: Called when `sweep` is needed. Returns whether somebody will call it; if not,
            ended interactions are reported by the thread that ends them.
        incidents: Counts failures, and calls by hand that are no interaction.

    Attributes:
        locators: Functions of integrations that return the id of the framework's run around the
            caller, or None.
    """

    def __init__(
        self,
        on_end: Callable[[Interaction], None],
        *,
        max_text_chars: int = 20_000,
        on_wait: Callable[[], bool] = lambda: False,
        incidents: Incidents | None = None,
    ) -> None:
        self._on_end = on_end
        self._on_wait = on_wait
        self._ttl_ns = int(limits.INTERACTION_SECONDS * 1e9)
        self._max_open = limits.OPEN_INTERACTIONS
        Notes.__init__(self, limits.INTERACTION_CHARS, max_text_chars)
        self._incidents = incidents or Incidents()
        self.by_hand = ManualCalls(on_end, self._incidents)
        self.locators: set[Callable[[], Hashable | None]] = set()
        self.left_out = LeftOutRequests(self._ttl_ns, self._max_open)
        self.forked()

    def forked(self) -> None:
        """Forget everything open: the parent of a forked process reports it."""
        self._sweeping = threading.RLock()
        self._sweeper: int | None = None
        self._runs: dict[Hashable, Run] = {}
        self._ended = EndedIds()
        self.left_out.forked()
        self._open: dict[Hashable, Interaction] = {}
        self._waiting: dict[Hashable, Interaction] = {}
        self.by_hand.forked()
        self.suspensions = Suspensions(self.report, self._max_open)
        self.ended = Endings(self._on_end, self.by_hand, self.suspensions, self._incidents)

    def opened(self) -> tuple[int, int]:
        """Return how many interactions are open or interrupted, and the characters they hold."""
        held = [*self._open.values(), *self.suspensions.interrupted()]
        return len(held), sum(interaction.chars for interaction in held)

    def __len__(self) -> int:
        """Return the number of open interactions; interrupted ones do not count."""
        return len(self._open)

    # Look-ups. Single operations of dictionaries are atomic.

    def get(self, run_id: Hashable) -> Run | None:
        """Return an open run, or None for an unseen or ended run."""
        run = self._runs.get(run_id)
        return run if run is not None and run.end is None else None

    def knows(self, run_id: Hashable) -> bool:
        """Return whether a run, ended or not, belongs to an open or left out request."""
        return run_id in self._runs or run_id in self.left_out

    def is_unknown(self, run_id: Hashable) -> bool:
        """Return whether a run was never seen, or is forgotten."""
        return not self.knows(run_id) and run_id not in self._ended

    def shared(self, run_id: Hashable, other: Run) -> bool:
        """Return whether a known run belongs to the same interaction as another."""
        run = self._runs.get(run_id)
        return run is not None and run.interaction is other.interaction

    def around(self, parent_id: Hashable | None) -> Run | None:
        """Return the open run that a run with this parent would be a part of, or None.

        Frameworks lose parents: a fallback names none, nor does a call that is given callbacks of
        its own. What their context says counts, then an interaction opened by hand.
        """
        if parent_id is not None and (run := self.get(parent_id)) is not None:
            return run
        for locate in tuple(self.locators):
            if (run_id := locate()) is not None and (run := self.get(run_id)) is not None:
                return run
        run = enclosing_run(self)
        # A forked child inherits the scope, but its recorder starts anew.
        return run if run is not None and self.get(run.id) is run else None

    # Events of runs.

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
        """Start a run; without an open run around it, it is a root.

        Args:
            run_id: The framework's id.
            parent_id: Id of the enclosing run, or None where the framework names none.
            kind: The kind of step.
            name: The framework's name for it.
            metadata: Of a root.
            tags: Of a root.
            apart: Whether it is a root even directly inside one opened by hand.

        Returns:
            The run, or None if it is known already, came late, is sampled out, or is part of our
            own evaluation.
        """
        # Applications name requests, and may use a name again: only parts come late.
        is_late = run_id in self._ended and not (parent_id is None and self._ended.is_root(run_id))
        if run_id in self._runs or is_late or self.left_out.starts(run_id, parent_id, kind):
            return None
        parent = self._runs.get(parent_id) if parent_id is not None else None
        # Check `_runs` before `_ended`: a concurrent end adds to `_ended` first, so the id is
        # always in one of them.
        if parent_id in self._ended:
            # What it starts in its turn comes late too.
            self._remember(run_id)
            return None
        if parent is None:
            if is_suppressed():
                return None
            parent = self.around(None)
            if parent is None and self._is_in_left_out(run_id, kind):
                return None
            if apart and parent is not None and parent.by_hand:
                parent = None
        if parent is not None:
            return self._start_child(run_id, kind, name, parent)
        return self._start_root(run_id, kind, name, metadata or {}, tuple(tags or ()))

    def _start_child(self, run_id: Hashable, kind: RunKind, name: str, parent: Run) -> Run | None:
        interaction = parent.interaction
        runs = interaction.runs
        if len(runs) >= _MAX_RUNS:
            self._finish(runs[0], Status.ABANDONED)
            return None
        outermost = parent.kind is RunKind.MANUAL
        run = Run(run_id, kind, name, parent, interaction, time.time_ns(), outermost)
        runs.append(run)
        if kind is RunKind.RETRIEVER:
            interaction.attempted = True
        self._runs[run_id] = run
        if runs[0].id not in self._open:
            # It ended in another thread meanwhile: nothing would take the run out again.
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
        key = self.left_out.key_of(run_id, kind, otel, metadata)
        # Runs inside a block that is opened by hand name no thread: they are sampled with it.
        decides = key is not None and kind is not RunKind.MANUAL
        if decides and self.left_out.leaves_out(run_id, key or "", otel, tags, metadata):
            return None
        self._abandon_old()
        self._end_left(_LOOKED_AT)
        if len(self._open) >= self._max_open:
            self._abandon(oldest(self._open))
        interaction = Interaction(otel, {}, tags, sampling_key=key)
        interaction.metadata = self._cut_metadata(interaction, metadata)
        interaction.place = Place.of_caller(interaction.otel)
        interaction.opened = now = time.time_ns()
        interaction.task = current_task()
        run = Run(run_id, kind, name, None, interaction, now, outermost=True)
        interaction.runs.append(run)
        self._ended.forget(run_id)
        self._runs[run_id] = run
        self._open[run_id] = interaction
        return run

    def _is_in_left_out(self, run_id: Hashable, kind: RunKind) -> bool:
        """Return whether the framework's run around the caller is left out."""
        around = (locate() for locate in tuple(self.locators)) if self.left_out else ()
        return any(one is not None and self.left_out.starts(run_id, one, kind) for one in around)

    def leave(self, run_id: Hashable, error: BaseException | None = None) -> bool:
        """Note the end of a run; return whether it is part of a request that is left out."""
        if not self.left_out:
            return False
        is_left, ended = self.left_out.ends(
            run_id, Status.OK if error is None else status_after(type(error))
        )
        for one in ended:
            self._remember(one)
        return is_left

    def end(self, run: Run) -> None:
        """End a run well; the end of a root ends its interaction, except where streams are open."""
        if run.parent is not None:
            if run.end is None:
                run.end = time.time_ns()
            return
        run.interaction.returned = True
        self.settle(run)

    def settle(self, run: Run) -> None:
        """End the run's interaction if its root has returned and its streams are over."""
        interaction = run.interaction
        root = interaction.root
        if root.end is not None:
            # Two threads may have seen the end of the stream at once.
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
        """End a run with an exception, or with one of a class."""
        kind = error if isinstance(error, type) else type(error)
        run.error_type = kind.__qualname__
        self._finish(run, status_after(kind))

    def lost(
        self, run_id: Hashable, parent_id: Hashable | None = None, *, anywhere: bool = False
    ) -> None:
        """Note that an event of a run did not come, or could not be read.

        Its interaction is marked as incomplete; with `anywhere`, all open ones if it is unknown.
        Without an open parent, runs below this run are no request, and are counted once.
        """
        run = self._runs.get(run_id) or self._runs.get(parent_id) or self.around(None)
        if run is not None:
            own = run.outermost and run.id == run_id
            run.interaction.left_out.update(_OF_EVENTS, _OF_ROOT if own else ())
        elif run_id not in self._ended and parent_id not in self._ended:
            self._on_end(Interaction(otel_context.get_current(), is_readable=False))
            for open_one in list(self._open.values()) if anywhere else ():
                open_one.left_out.update(_OF_EVENTS)
        for name in (run_id, parent_id):
            if name is not None and name not in self._runs:
                self._remember(name)

    def defer(self, run: Run, event: str, read: Callable[..., None], *values: Any) -> None:
        """Leave an event of a run to be read off the request's thread.

        If `read(*values)` raises, that is counted under the event's name, and the interaction is
        marked as incomplete. Nobody may change the values any more.
        """

        def guarded() -> None:
            try:
                read(*values)
            except Exception as error:  # noqa: BLE001 - the host's edge: objects of its own
                self._incidents.report(f"capture {event}", error)
                run.interaction.left_out.update(_OF_EVENTS, _OF_ROOT if run.outermost else ())

        run.interaction.pending.append(guarded)

    # Ends of interactions.

    def _finish(self, run: Run, status: Status) -> None:
        if run.end is not None:
            return
        run.end = time.time_ns()
        if run.parent is None:
            if run.id in self._waiting and status is not Status.ABANDONED:
                # Noticed later than it happened: the last that was reported tells when.
                run.end = run.interaction.last_event or run.end
            self._finish_interaction(run, status)

    def _finish_interaction(self, root: Run, status: Status) -> None:
        interaction = root.interaction
        # Whoever takes it out of the map reports it: a root's end and a sweep may race.
        if self._open.pop(root.id, None) is None:
            return
        self._waiting.pop(root.id, None)
        interaction.task = None
        interaction.status = status
        self._end_runs(interaction)
        if interaction.interrupted and status is Status.OK:
            interaction.status = Status.INTERRUPTED
            self._on_wait()
            self.suspensions.add(interaction)
            return
        # Interrupts are reported only to handlers that were passed: this may have been one.
        if interaction.resumable and not (status is Status.OK and interaction.passed):
            self.suspensions.add(interaction)
        self.report(interaction)

    def _end_runs(self, interaction: Interaction) -> None:
        """End the runs of an interaction that are still open."""
        root = interaction.root
        for run in interaction.runs:
            self._remember(run.id, is_root=run is root)
            if run.end is None:
                run.end, run.unfinished = root.end, True
                if run.checkpoint is not None:
                    interaction.stops.add(run.checkpoint)

    def _remember(self, run_id: Hashable, *, is_root: bool = False) -> None:
        self._ended.add(run_id, is_root=is_root)
        self._runs.pop(run_id, None)

    def report(self, interaction: Interaction) -> None:
        """Hand an ended interaction to `sweep`, which reads and reports it."""
        waiting = self.ended.add(interaction)
        others = interaction.others
        # The span of another instrumentor waits for the decision.
        if not self._on_wait() or (others is not None and others.span is not None):
            with self._sweeping:
                self.ended.decide()
        elif waiting and self._sweeper is None:
            with self._sweeping:
                self.ended.decide(most=2)

    def sweep(self, *, at_once: bool = False) -> None:
        """Report ended runs, end finished streams, give up runs past the time limit.

        Args:
            at_once: Whether to report what a further call by hand may yet change.
        """
        until = time.monotonic() + _PATIENCE_S
        while self._sweeper not in (None, threading.get_ident()):
            if time.monotonic() > until:
                # A span processor of the application hangs in another thread.
                return
            time.sleep(_POLL_S)
        # No `acquire`: a signal handler of the application may raise right behind it.
        with self._sweeping:
            self._sweep(at_once)

    def _sweep(self, at_once: bool) -> None:
        outer, self._sweeper = self._sweeper, threading.get_ident()
        try:
            for interaction in list(self._waiting.values()):
                self.settle(interaction.root)
            self._abandon_old()
            self.left_out.sweep()
            self._abandon_large()
            self._end_left()
            self.ended.decide()
            if self.by_hand.waits:
                self.by_hand.sweep(list(self._open.values()), at_once=at_once)
        finally:
            self._sweeper = outer

    def _abandon(self, interaction: Interaction | None) -> None:
        if interaction is not None:
            self._finish(interaction.root, Status.ABANDONED)

    def _abandon_old(self) -> None:
        oldest_allowed = time.time_ns() - self._ttl_ns
        self.suspensions.sweep(oldest_allowed)
        while (first := oldest(self._open)) is not None and first.opened <= oldest_allowed:
            self._abandon(first)

    def _abandon_large(self) -> None:
        """Give up the oldest open interactions while all together hold too much text."""
        held = [(one, one.chars) for one in list(self._open.values())]
        excess = sum(chars for _, chars in held) - _MAX_OPEN_CHARS
        for interaction, chars in held if excess > 0 else ():
            if excess > 0:
                excess -= chars
                self._abandon(interaction)

    def _end_left(self, most: int | None = None) -> None:
        """End the first run that was cancelled without an event of the framework."""
        for interaction in _first(self._open.values(), most):
            if is_left(interaction):
                # Its stream may have been read to the end, which nobody has noticed yet.
                self.settle(interaction.root)
                self._finish(interaction.root, Status.CANCELLED)

    def close(self) -> None:
        """Report requests that wait for somebody as interrupted: nobody will resume them here."""
        self.suspensions.close()


def _first(interactions: Iterable[Interaction], most: int | None) -> list[Interaction]:
    with contextlib.suppress(RuntimeError):
        return list(islice(interactions, most))
    return []


def status_after(error: type[BaseException]) -> Status:
    """Return the status of what an exception of a class ended."""
    if issubclass(error, GeneratorExit):
        return Status.CLOSED
    return Status.CANCELLED if issubclass(error, asyncio.CancelledError) else Status.ERROR
