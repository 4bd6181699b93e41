"""Framework-free bookkeeping: run events in, ended interactions out."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from opentelemetry import context as otel_context

from rag_eval_hooks.capture.contexts.search import drop_unused
from rag_eval_hooks.capture.interaction import Interaction, Run, RunKind
from rag_eval_hooks.capture.run_notes import RunNotes, status_after
from rag_eval_hooks.capture.scopes import enclosing_run
from rag_eval_hooks.capture.suspended_interactions import Suspensions, oldest
from rag_eval_hooks.sample import Status
from rag_eval_hooks.suppress import is_suppressed

__all__ = ["Recorder"]

_REMEMBERED = 10_000
"""Ended run ids kept to recognise late events; some hundred kilobytes at most."""
_MAX_RUNS = 10_000
"""Runs of one interaction; one more, and it is abandoned as one that never ends."""


class Recorder(RunNotes):
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

    Attributes:
        locators: Functions of integrations that return the id of the framework's run around the
            caller, or None.
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
    ) -> None:
        super().__init__(max_chars, max_text_chars)
        self._on_end = on_end
        self._on_wait = on_wait
        self._ttl_ns = int(ttl * 1e9)
        self._max_open = max_open
        self.locators: set[Callable[[], Hashable | None]] = set()
        self.forked()

    def forked(self) -> None:
        """Forget everything open: the parent of a forked process reports it."""
        self._sweeping = threading.RLock()
        self._runs: dict[Hashable, Run] = {}
        self._open: dict[Hashable, Interaction] = {}
        self._waiting: dict[Hashable, Interaction] = {}
        self._ended: OrderedDict[Hashable, None] = OrderedDict()
        self.suspensions = Suspensions(self._report, self._max_open)

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

    def _around(self) -> Run | None:
        """Return the run that encloses one without a known parent, or None.

        Frameworks lose parents: a fallback names none, nor does a call that is given callbacks of
        its own. What their context says counts, then an interaction opened by hand.
        """
        for locate in tuple(self.locators):
            if (run_id := locate()) is not None and (run := self.get(run_id)) is not None:
                return run
        run = enclosing_run(self)
        # A forked child inherits the scope, but its recorder starts anew.
        return run if run is not None and self.get(run.id) is run else None

    def _start_root(
        self,
        run_id: Hashable,
        kind: RunKind,
        name: str,
        metadata: Mapping[str, Any],
        tags: Sequence[str],
    ) -> Run:
        self._abandon_old()
        if len(self._open) >= self._max_open and (first := oldest(self._open)) is not None:
            self._finish(first.root, Status.ABANDONED)
        interaction = Interaction(otel_context.get_current(), {}, tuple(tags))
        interaction.metadata = self.metadata(interaction, metadata)
        interaction.opened = now = time.time_ns()
        run = Run(run_id, kind, name, None, interaction, now, outermost=True)
        interaction.runs.append(run)
        self._runs[run_id] = run
        self._open[run_id] = interaction
        return run

    def get(self, run_id: Hashable) -> Run | None:
        """Return an open run, or None for one that was never seen or has ended."""
        run = self._runs.get(run_id)
        return run if run is not None and run.end is None else None

    def is_inside(self, parent_id: Hashable | None) -> bool:
        """Return whether a run with this parent would be a part of something that is open."""
        return self.get(parent_id) is not None or self._around() is not None

    def knows(self, run_id: Hashable) -> bool:
        """Return whether a run, ended or not, belongs to an open interaction."""
        return run_id in self._runs

    def shared(self, run_id: Hashable, other: Run) -> bool:
        """Return whether a known run belongs to the same interaction as another."""
        run = self._runs.get(run_id)
        return run is not None and run.interaction is other.interaction

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

    def sweep(self) -> None:
        """End what waited for streams that are over, give up what is past the time limit.

        When it returns, what another thread saw to be over has been reported, too.
        """
        with self._sweeping:
            for interaction in list(self._waiting.values()):
                self.settle(interaction.root)
            self._abandon_old()

    def _abandon_old(self) -> None:
        oldest_allowed = time.time_ns() - self._ttl_ns
        self.suspensions.sweep(oldest_allowed)
        while (first := oldest(self._open)) is not None and first.opened <= oldest_allowed:
            self._finish(first.root, Status.ABANDONED)

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
        if status is Status.OK and interaction.closed_early():
            status = Status.CLOSED
        for run in interaction.runs:
            self._remember(run.id)
            if run.end is None:
                run.end = root.end
                if run.checkpoint is not None:
                    interaction.stops.add(run.checkpoint)
            run.state = None
        interaction.status = status
        if interaction.interrupted and status is Status.OK:
            interaction.status = Status.INTERRUPTED
            self._on_wait()
            self.suspensions.interrupted(interaction)
            return
        self._report(interaction)
        if status is not Status.OK and interaction.resumable:
            self.suspensions.broken_off(interaction)

    def _remember(self, run_id: Hashable) -> None:
        self._ended[run_id] = None
        self._runs.pop(run_id, None)
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _report(self, interaction: Interaction) -> None:
        kind = interaction.root.kind
        interaction.drop_relayed()
        drop_unused(interaction)
        if kind is RunKind.MANUAL or (interaction.retrieves and kind is not RunKind.RETRIEVER):
            self._on_end(interaction)
