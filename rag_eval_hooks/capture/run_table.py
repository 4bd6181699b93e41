"""Runs by their ids: open ones, and the ids of those that have ended."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from rag_eval_hooks.capture.interaction import Interaction, Run
from rag_eval_hooks.capture.scopes import enclosing_run
from rag_eval_hooks.sample import Status

__all__ = ["OF_EVENTS", "RunTable"]

OF_EVENTS = ("contexts", "prompt")
"""Parts of a sample that may be wrong where an event of any of its runs is missing."""
_REMEMBERED = 10_000
"""Ended run ids kept to recognise late events; some hundred kilobytes at most."""


class RunTable:
    """Looks runs up. Takes no lock: single operations of dictionaries are atomic.

    Attributes:
        locators: Functions of integrations that return the id of the framework's run around the
            caller, or None.
    """

    locators: set[Callable[[], Hashable | None]]

    def __init__(self) -> None:
        self._runs: dict[Hashable, Run] = {}
        self._ended: OrderedDict[Hashable, None] = OrderedDict()

    def get(self, run_id: Hashable) -> Run | None:
        """Return an open run, or None for one that was never seen or has ended."""
        run = self._runs.get(run_id)
        return run if run is not None and run.end is None else None

    def knows(self, run_id: Hashable) -> bool:
        """Return whether a run, ended or not, belongs to an open interaction."""
        return run_id in self._runs

    def is_unknown(self, run_id: Hashable) -> bool:
        """Return whether a run was never seen, or is forgotten."""
        return run_id not in self._runs and run_id not in self._ended

    def shared(self, run_id: Hashable, other: Run) -> bool:
        """Return whether a known run belongs to the same interaction as another."""
        run = self._runs.get(run_id)
        return run is not None and run.interaction is other.interaction

    def is_inside(self, parent_id: Hashable | None) -> bool:
        """Return whether a run with this parent would be a part of something that is open."""
        return self.around(parent_id) is not None

    def around(self, parent_id: Hashable | None) -> Run | None:
        """Return the open run that a run with this parent would be a part of, or None."""
        return self.get(parent_id) or self._around()

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

    def _remember(self, run_id: Hashable) -> None:
        self._ended[run_id] = None
        self._runs.pop(run_id, None)
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _end_runs(self, interaction: Interaction, status: Status) -> None:
        """End the runs of an interaction that are still open."""
        interaction.kept_values.clear()
        for run in interaction.runs:
            self._remember(run.id)
            if run.end is None:
                run.end = interaction.root.end
                if status is Status.OK and not interaction.interrupted:
                    interaction.left_out.update(OF_EVENTS)
                if run.checkpoint is not None:
                    interaction.stops.add(run.checkpoint)
            run.state = None
