"""The spool as an observer of the pipeline; without a spool nothing is kept or recovered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from rag_eval_hooks import semconv
from rag_eval_hooks.calls import CallLog
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery.delivery import Delivery
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.pipeline.wiring import Parts
from rag_eval_hooks.request import Ending, Observer, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.spool.file import EVALUATE
from rag_eval_hooks.spool.folder import check_spool
from rag_eval_hooks.spool.recovered import ALL_SINKS, Entry, Recovered
from rag_eval_hooks.spool.spool import Spool
from rag_eval_hooks.telemetry.self_metrics import Gauge

__all__ = ["Spooled"]

_LEFT = ("spooled", "shutdown")
"""Reasons of samples that stay on disk for the next process."""


class Spooled(Observer):
    """Keeps accepted samples, and results that sinks lack, on disk, if there is a spool.

    Also the store of the delivery, and the receiver of the spool.

    Args:
        parts: Settings, redactor and telemetry.
        capacity: Returns how many more recovered samples may wait.
        resume: Queues a recovered sample; False if there is no slot.
        settle: Ends a recovered sample that cannot be evaluated.

    Attributes:
        recovered: Samples taken over from processes that have ended.
        delivery: Sinks to which undelivered results go; set once they exist.

    Raises:
        ConfigError: The path cannot be a spool.
    """

    delivery: Delivery

    def __init__(
        self,
        parts: Parts,
        capacity: Callable[[], int],
        resume: Callable[[Request], bool],
        settle: Callable[[Request, Ending], None],
    ) -> None:
        self.recovered = 0
        self._telemetry = parts.telemetry
        self._capacity = capacity
        self._resume = resume
        self._settle = settle
        self._ships = parts.broker is not None
        self._max_bytes = limits.SPOOL_BYTES
        self._spool: Spool | None = None
        self._has_leftovers = False
        if parts.config.spool is not None:
            path = Path(parts.config.spool)
            try:
                self._has_leftovers = check_spool(path)
            except ConfigError as error:
                # The folder was right when the application started, and is gone in a forked child.
                parts.incidents.report("spool", error)
            self._spool = Spool(
                path,
                max_bytes=self._max_bytes,
                incidents=parts.incidents,
                redactor=parts.redactor,
                receiver=self,
            )

    @property
    def is_used(self) -> bool:
        """True if there is a spool."""
        return self._spool is not None

    @property
    def undurable(self) -> int:
        """Accepted samples that were not stored."""
        return 0 if self._spool is None else self._spool.undurable

    def look_back(self) -> None:
        """Recover what earlier processes left, soon."""
        if self._spool is not None and self._has_leftovers:
            with suppress(RuntimeError):
                # Without a thread now, recovery begins with the first sample.
                self._spool.start(later=True)

    def start(self) -> None:
        """Start the writing thread, once.

        Raises:
            RuntimeError: The system has no thread left.
        """
        if self._spool is not None:
            self._spool.start()

    def accepted(self, work: Request) -> None:
        """Store a sample, soon. Never waits."""
        if self._spool is None or work.by_feedback or work.decision is None:
            return
        if work.is_recovered:
            self.recovered += 1
            return
        decision = work.decision
        work.entry = self._spool.accept(
            work.sample, decision.probability, decision.reason, work.accepted_at
        )

    def holds(self, work: Request) -> bool:
        """Return whether the disk holds a sample for another process to recover."""
        return work.entry is not None and work.entry.is_stored

    def set_aside(self, work: Request) -> bool:
        """Leave a sample on disk until there is capacity for it again.

        Returns:
            Whether it is on disk.
        """
        if self._spool is None or work.entry is None or not work.entry.is_stored:
            return False
        return self._spool.leave(work.entry, EVALUATE)

    async def begun(self, work: Request) -> None:
        """Note on disk that a recovered sample is evaluated now."""
        # A sample that is only shipped ends no process.
        evaluates = work.is_recovered and work.outcomes is None and not self._ships
        if self._spool is not None and evaluates:
            await self._spool.begin(work.entry)

    async def keep(self, work: Request, evaluation: Evaluation) -> None:
        """Determine the sinks that lack an evaluation, and store both before it is published."""
        if work.outcomes is not None and ALL_SINKS not in work.sinks:
            return
        known = work.sinks
        lacking = self.delivery.lacking(evaluation)
        if work.is_final and work.is_recovered:
            # Another worker may have delivered it at any time.
            lacking = {name: None if at is None else 0 for name, at in lacking.items()}
        work.sinks = {name: known.get(name, position) for name, position in lacking.items()}
        if self._spool is not None and work.entry is not None:
            await self._spool.keep(
                work.entry, evaluation.outcomes, evaluation.start, evaluation.end, work.sinks
            )

    async def evaluated(self, work: Request, evaluation: Evaluation) -> None:
        """Hand an evaluation to the sinks that lack it. Never waits for them."""
        is_kept = work.entry is not None and work.entry.is_kept
        self.delivery.put(
            evaluation,
            work.sinks,
            entry=work.entry if is_kept else None,
            is_repeated=work.is_recovered,
            accepted_at=work.accepted_at,
        )

    def settled(self, work: Request, ending: Ending) -> None:
        """Count the end of a sample, unless it stays on disk for the next process."""
        if self._spool is not None and work.entry is not None and ending.reason not in _LEFT:
            self._spool.settle(work.entry, ending.entry)

    def delivered(self, entry: object, sink: str) -> None:
        """Note that a sink has a result, or will never get it."""
        if self._spool is not None and isinstance(entry, Entry):
            self._spool.delivered(entry, sink)

    def leave(self, entry: object, sink: str) -> bool:
        """Note that a result is no longer in memory, until the sink has capacity for it again.

        Returns:
            Whether it is on disk.
        """
        if self._spool is None or not isinstance(entry, Entry):
            return False
        return self._spool.leave(entry, sink)

    def books(self) -> Mapping[str, int]:
        """Return the counts of the spool, of all processes; empty if they cannot be read."""
        return {} if self._spool is None else self._spool.books()

    def gauges(self) -> dict[str, Gauge]:
        """Return the gauges of the spool, by instrument."""
        spool, most = self._spool, self._max_bytes
        if spool is None:
            return {}
        return {
            semconv.METRIC_SPOOL_SIZE: lambda: spool.measured()[0],
            semconv.METRIC_SPOOL_USAGE: lambda: spool.measured()[1],
            semconv.METRIC_SPOOL_LIMIT: lambda: most,
        }

    def drain(self, timeout: float | None) -> bool:
        """Wait until everything so far is on disk, and return whether it is."""
        return self._spool is None or self._spool.drain(timeout)

    def stop(self, timeout: float) -> None:
        """End the writing thread."""
        if self._spool is not None:
            self._spool.stop(timeout)

    def capacity(self, sink: str | None) -> int:
        """Return how many more results a sink can take, or samples the evaluator for None."""
        return self._capacity() if sink is None else self.delivery.capacity(sink)

    def knows(self, sink: str) -> bool:
        """Return whether a sink is in the settings."""
        return self.delivery.knows(sink)

    def take(self, recovered: Recovered, sink: str | None) -> bool:
        """Take a sample that waited on disk. Called in the spool's thread."""
        if sink is None:
            return self._take(recovered)
        assert recovered.evaluation is not None
        evaluation = self._telemetry.evaluated(
            recovered.sample,
            recovered.evaluation.outcomes,
            probability=recovered.probability,
            reason=recovered.reason,
            start=recovered.evaluation.start,
            end=recovered.evaluation.end,
            log=CallLog(),
        )
        self.delivery.put(
            evaluation,
            {sink: recovered.sinks.get(sink)},
            entry=recovered.entry,
            is_repeated=True,
            accepted_at=recovered.accepted_at,
        )
        return True

    def _take(self, recovered: Recovered) -> bool:
        if recovered.refusal is not None:
            self.recovered += 1
            refused = Request(key=id_of(recovered.sample.sample_id), build=lambda: recovered.sample)
            refused.entry = recovered.entry
            self._settle(refused, Ending.dropped(recovered.refusal))
            return True
        work = Request.of(recovered.sample)
        work.entry = recovered.entry
        work.accepted_at = recovered.accepted_at
        work.probability, work.reason = recovered.probability, recovered.reason
        work.tries, work.sinks = recovered.tries, recovered.sinks
        if recovered.evaluation is not None:
            work.outcomes = recovered.evaluation.outcomes
        return self._resume(work)
