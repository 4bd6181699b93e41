"""Framework-free bookkeeping: run events in, ended interactions out."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from opentelemetry import context as otel_context

from rag_eval_hooks.capture.by_hand import CallsByHand
from rag_eval_hooks.capture.ended_requests import EndedRequests, is_left
from rag_eval_hooks.capture.interaction import Interaction, Run, RunKind
from rag_eval_hooks.capture.places import current_task, place_of_caller
from rag_eval_hooks.capture.run_notes import RunNotes, status_after
from rag_eval_hooks.capture.run_table import OF_EVENTS, RunTable
from rag_eval_hooks.capture.suspended_interactions import Suspensions, oldest
from rag_eval_hooks.capture.unseen_parents import UnseenParents
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Status
from rag_eval_hooks.suppress import is_suppressed

__all__ = ["Recorder"]

_OF_ROOT = ("question", "answer")
"""Parts of a sample that may be wrong where an event of its root is missing."""
_LOOKED_AT = 20
"""Open interactions whose tasks are looked at when one more begins."""
_MAX_RUNS = 10_000
"""Runs of one interaction; one more, and it is abandoned as one that never ends."""


class Recorder(RunTable, RunNotes):
    """Follows runs by their ids and reports each interaction once, when its root ends.

    An interaction is a root run in which something was retrieved, or one that the application
    opened by hand, which includes the framework's roots within it. Every method is O(1) but `end`
    of a root, takes no lock and may be called from any thread; events of one run come in order,
    events of different runs in any. Late and repeated events are ignored.

    Args:
        on_end: Called with every ended interaction, in the thread of its last event.
        ttl: Seconds after which an open or interrupted interaction is given up.
        max_open: Interactions that may be open, and as many that may be interrupted; the oldest
            is given up for one more.
        max_chars: Characters of text that one may hold.
        max_text_chars: Characters of one text that are of use later.
        on_wait: Called when an interaction waits for a stream or for somebody: from then on
            `sweep` is needed.
        incidents: Counts calls by hand that are no interaction.

    Attributes:
        by_hand: Retrievers and models that the application calls one by one.
        ended: Roots that have ended, and those without retrieved text among them.
        unseen: Parents of roots of which no beginning was reported.
        suspensions: Interactions that stopped and may be resumed.
    """

    def __init__(
        self,
        on_end: Callable[[Interaction], None],
        *,
        ttl: float,
        max_open: int,
        max_chars: int = 4_000_000,
        max_text_chars: int = 20_000,
        on_wait: Callable[[], object] = lambda: None,
        incidents: Incidents | None = None,
    ) -> None:
        RunNotes.__init__(self, max_chars, max_text_chars)
        self._on_end = on_end
        self._on_wait = on_wait
        self._ttl_ns = int(ttl * 1e9)
        self._max_open = max_open
        self.by_hand = CallsByHand(on_end, incidents or Incidents())
        self.locators = set()
        self.forked()

    def forked(self) -> None:
        """Forget everything open: the parent of a forked process reports it."""
        RunTable.__init__(self)
        self._sweeping = threading.RLock()
        self.by_hand.forked()
        self._open: dict[Hashable, Interaction] = {}
        self._waiting: dict[Hashable, Interaction] = {}
        self.ended = EndedRequests(self._on_end, self._on_wait, self.by_hand)
        self.unseen = UnseenParents(self.ended.add, self._on_end, self._on_wait)
        self.suspensions = Suspensions(self.unseen.add, self._max_open)

    def opened(self) -> tuple[int, int]:
        """Return how many interactions are open or interrupted, and the characters they hold."""
        held = list(self._open.values())
        chars = sum(interaction.chars for interaction in held) + self.suspensions.chars
        return len(held) + len(self.suspensions), chars

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
        """Begin a run. A parent that was never seen makes it a root.

        Args:
            run_id: The framework's id.
            parent_id: Id of the enclosing run, or None where the framework names none.
            kind: The kind of step.
            name: The framework's name for it.
            metadata: Of a root.
            tags: Of a root.
            apart: Whether it is a root even inside one opened by hand, but for a framework's
                runs in that.

        Returns:
            The run, or None if it is known already, came late, or is part of our own evaluation.
        """
        if run_id in self._runs or run_id in self._ended:
            return None
        parent = self._runs.get(parent_id) if parent_id is not None else None
        # Looked up in the order opposite to that in which an end, maybe at this moment, notes it.
        if parent_id in self._ended:
            # What it starts in its turn comes late too.
            self._remember(run_id)
            return None
        if parent is None:
            if is_suppressed():
                return None
            parent = self._around()
            if apart and parent is not None and parent.by_hand:
                parent = None
        if parent is not None:
            return self._start_child(run_id, kind, name, parent)
        return self._start_root(run_id, kind, name, metadata or {}, tags or ())

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
        tags: Sequence[str],
    ) -> Run:
        self._abandon_old()
        self._end_left()
        if len(self._open) >= self._max_open and (first := oldest(self._open)) is not None:
            self._finish(first.root, Status.ABANDONED)
        interaction = Interaction(otel_context.get_current(), {}, tuple(tags))
        interaction.metadata = self.metadata(interaction, metadata)
        interaction.place = place_of_caller(interaction.otel)
        interaction.opened = now = time.time_ns()
        interaction.task = current_task()
        run = Run(run_id, kind, name, None, interaction, now, outermost=True)
        interaction.runs.append(run)
        self._runs[run_id] = run
        self._open[run_id] = interaction
        return run

    def end(self, run: Run) -> None:
        """End a run well; the end of a root ends its interaction, but for open streams."""
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

        Its interaction is marked as one of which parts are missing. Where none is known, whatever
        is reported below the run becomes none, and is counted once.

        Args:
            run_id: The run.
            parent_id: The enclosing run, if it is named.
            anywhere: Whether the run may have been a part of any interaction that is open: then
                all are marked.
        """
        run = self._runs.get(run_id) or self._runs.get(parent_id)
        run = self._around() if run is None else run
        if run is not None:
            own = run.outermost and run.id == run_id
            run.interaction.left_out.update(OF_EVENTS, _OF_ROOT if own else ())
        elif run_id not in self._ended and parent_id not in self._ended:
            self._on_end(Interaction(otel_context.get_current(), is_readable=False))
            for open_one in list(self._open.values()) if anywhere else ():
                open_one.left_out.update(OF_EVENTS)
        for name in (run_id, parent_id):
            if name is not None and name not in self._runs:
                self._remember(name)

    def ended_unseen(self, run_id: Hashable) -> None:
        """Note the end of a run that was never seen: with its beginning its request is lost."""
        if self.unseen.end(run_id):
            self._remember(run_id)

    def misplaced(self, root: Run, parent: Run) -> None:
        """Note that a root ends as a part of a run: that its parent was not named when it began."""
        root.interaction.is_readable = False
        self.lost(None, parent.id)

    def sweep(self, *, at_once: bool = False) -> None:
        """End what waited for streams that are over, give up what is past the time limit.

        Args:
            at_once: Whether to report what a further call by hand, or an end around it, may yet
                change.
        """
        with self._sweeping:
            for interaction in list(self._waiting.values()):
                self.settle(interaction.root)
            self._abandon_old()
            self._end_left(len(self._open))
            self.unseen.decide(math.inf if at_once else time.time_ns() - self._ttl_ns)
            self.ended.decide()
            self.by_hand.sweep(list(self._open.values()), at_once=at_once)

    def _abandon_old(self) -> None:
        oldest_allowed = time.time_ns() - self._ttl_ns
        self.suspensions.sweep(oldest_allowed)
        while (first := oldest(self._open)) is not None and first.opened <= oldest_allowed:
            self._finish(first.root, Status.ABANDONED)

    def _end_left(self, most: int = _LOOKED_AT) -> None:
        """End the first of those that were cancelled without a word of the framework."""
        for interaction in [one for one in list(self._open.values())[:most] if is_left(one)]:
            # Its stream may have been read to the end, which nobody has noticed yet.
            self.settle(interaction.root)
            self._finish(interaction.root, Status.CANCELLED)

    def close(self) -> None:
        """Report what waits for somebody as interrupted: nobody will resume it here."""
        self.suspensions.close()

    def __len__(self) -> int:
        """Return the number of open interactions; interrupted ones do not count."""
        return len(self._open)

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
        if status is Status.OK and interaction.closed_early():
            status = Status.CLOSED
        self._end_runs(interaction, status)
        interaction.status = status
        if interaction.interrupted and status is Status.OK:
            interaction.status = Status.INTERRUPTED
            self._on_wait()
            self.suspensions.interrupted(interaction)
            return
        self.unseen.add(interaction)
        # Interrupts are reported only to handlers that were passed: this may have been one.
        may_wait = not interaction.passed and not interaction.retrieves
        if interaction.resumable and (status is not Status.OK or may_wait):
            self.suspensions.broken_off(interaction)
