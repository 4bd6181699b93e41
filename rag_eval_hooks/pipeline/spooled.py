"""The spool as an observer of the pipeline; without a spool nothing is kept or recovered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rag_eval_hooks import semconv
from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.spool.entry import NOWHERE, Entry
from rag_eval_hooks.spool.file import Row, check_spool
from rag_eval_hooks.spool.recovery import recovered
from rag_eval_hooks.spool.reports import Kept, ReportHost
from rag_eval_hooks.spool.spool import Spool
from rag_eval_hooks.telemetry.self_metrics import Gauge
from rag_eval_hooks.work import Ending, Evaluation, Observer, Work

__all__ = ["SpoolHost", "Spooled"]

_LEFT = ("spooled", "shutdown", "taken_over")
"""Reasons of samples that stay in the spool, or are another process's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolHost:
    """Callbacks of the spool's thread.

    Attributes:
        positions: Returns the present position of each sink that has one.
        capacity: Returns how many more recovered samples may wait.
        resume: Queues a recovered sample; False if there is no slot.
        refuse: Counts a recovered sample that cannot be evaluated.
        reports: Returns how many more reports each platform takes.
        take_report: Hands a report to its platform.
        lost_reports: Counts reports of a platform that were kept too long.
        redactor: Redacts recovered samples.
    """

    positions: Callable[[], Mapping[str, int]]
    capacity: Callable[[], int]
    resume: Callable[[Work], bool]
    refuse: Callable[[Work, str], None]
    reports: Callable[[], Mapping[str, int]]
    take_report: Callable[[Kept], None]
    lost_reports: Callable[[str, int], None]
    redactor: Redactor


class Spooled(Observer):
    """Keeps accepted samples and their outcomes on disk, if there is a spool.

    Args:
        config: The settings.
        incidents: Where failures of the disk are counted.
        host: The pipeline.

    Raises:
        ConfigError: The file cannot be a spool.
    """

    def __init__(self, config: RagEvalConfig, incidents: Incidents, host: SpoolHost) -> None:
        self._config = config
        self._incidents = incidents
        self._host = host
        self._left_over = config.spool is not None and check_spool(Path(config.spool))
        self._redelivered: set[Work] = set()
        self.recovered = 0
        self._spool = Spool.of(
            config,
            incidents=incidents,
            positions=host.positions,
            room=host.capacity,
            take=self._recover,
            reports=ReportHost(
                room=host.reports,
                take=host.take_report,
                lost=host.lost_reports,
                max_bytes=100_000_000,
                keep_for=limits.SINK_KEEP_SECONDS,
            ),
        )

    @property
    def undurable(self) -> int:
        """Accepted samples that could not be kept."""
        return 0 if self._spool is None else self._spool.undurable

    def look_back(self) -> None:
        """Recover what earlier processes left, soon."""
        if self._spool is not None and self._left_over:
            with suppress(RuntimeError):
                # Without a thread now, recovery begins with the first sample.
                self._spool.start()

    def start(self) -> None:
        """Start the writing thread, once.

        Raises:
            RuntimeError: The system gives no thread.
        """
        if self._spool is not None:
            self._spool.begin_thread()

    def accepted(self, work: Work) -> None:
        """Keep a sample, soon. O(1), never waits."""
        if self._spool is None or work.by_feedback or work.decision is None:
            return
        if work.is_recovered:
            self.recovered += 1
            return
        work.entry = Entry(
            work.sample,
            probability=work.decision.probability,
            reason=work.decision.reason,
            redaction=self._host.redactor.mark,
        )
        self._spool.put(work.entry)

    def confirmed(self, work: Work) -> bool:
        """Return whether a sample is on disk, if it is to be by now."""
        return self._spool is None or work.entry is None or self._spool.confirmed(work.entry)

    def holds(self, work: Work) -> bool:
        """Return whether the disk holds a sample for another process to recover."""
        return work.entry is not None and work.entry.generation != NOWHERE

    async def begun(self, work: Work) -> None:
        """Note on disk that a recovered sample is evaluated now."""
        if self._spool is not None and work.is_recovered and work.outcomes is None:
            await self._spool.begin(work.entry)

    async def keep(self, work: Work, evaluation: Evaluation) -> bool:
        """Keep outcomes until they are delivered; False if another process has the sample."""
        if self._spool is None or work.entry is None:
            return True
        return await self._spool.keep(work.entry, evaluation.outcomes)

    def redeliver(self, work: Work) -> None:
        """Keep the outcomes of a sample on disk after it is settled, until `let_go`."""
        self._redelivered.add(work)

    def settled(self, work: Work, ending: Ending) -> None:
        """Remove a sample from the disk, unless a later process is to have it."""
        if work in self._redelivered:
            self._redelivered.discard(work)
        elif work.entry is not None and ending.reason not in _LEFT:
            self.let_go(work.entry, ending.entry)

    def let_go(self, entry: Entry, column: str) -> None:
        """Remove a sample from the disk."""
        if self._spool is not None:
            self._spool.finish(entry, column)

    def give_up(self, entry: Entry) -> None:
        """Leave a sample to whoever recovers it next, this process included."""
        if self._spool is not None:
            self._spool.give_up(entry)

    def books(self) -> Mapping[str, int]:
        """Return the counts of the spool, of all processes; empty if they cannot be read."""
        return {} if self._spool is None else self._spool.books()

    def levels(self) -> dict[str, Gauge]:
        """Return the levels that metrics show of the spool, by instrument."""
        spool, most = self._spool, self._config.spool_max_mb * 1_000_000
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

    def forking(self) -> None:
        """Close the file."""
        if self._spool is not None:
            self._spool.before_fork()

    def forked(self) -> None:
        """Go on in the parent."""
        if self._spool is not None:
            self._spool.after_fork()

    def abandon(self) -> Spool | None:
        """Return the parent's spool, to be kept: a child must not close its connection."""
        if self._spool is not None:
            self._spool.abandon()
        return self._spool

    def _recover(self, row: Row, generation: int) -> bool:
        """Resume a sample of a process that has ended. Called in the spool's thread."""
        assert self._spool is not None
        found = recovered(row, generation, self._incidents, self._host.redactor)
        if found.refusal is not None:
            self.recovered += 1
            refused = Work(id_of(row.id), lambda: Sample(question="", sample_id=row.id))
            refused.entry = found.entry
            self._host.refuse(refused, found.refusal)
            return True
        work = Work.of(found.entry.sample())
        work.entry = found.entry
        work.probability, work.reason = row.probability, found.entry.reason
        work.outcomes, work.tries = found.outcomes, row.tries
        if self._host.resume(work):
            return True
        self.give_up(found.entry)
        return False
