"""The spool as the pipeline sees it: without one, nothing is kept and nothing recovered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rag_eval_hooks import semconv
from rag_eval_hooks.books.stats import Ledger, Stats
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery.platforms.platform import Kept, Store
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.pipeline.work import Work
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.spool.entry import NOWHERE, Entry
from rag_eval_hooks.spool.file import Row, check_spool
from rag_eval_hooks.spool.recovery import Recovered, recovered
from rag_eval_hooks.spool.reports import ReportHost
from rag_eval_hooks.spool.spool import Spool
from rag_eval_hooks.telemetry.self_metrics import Gauge

__all__ = ["Durable", "Host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What recovery needs of the pipeline.

    Attributes:
        positions: Where sinks stand now.
        room: How many more samples may wait.
        work: Makes the work of a recovered sample, with its inclusion probability.
        submit: Queues it, and calls the function when it is taken; tells why not, else None.
        reports: How many more reports each platform can take over.
        take_report: Hands it one.
        lost_reports: Told how many of a platform's were kept too long.
        redactor: Takes out of samples what must not leave.
    """

    positions: Callable[[], Mapping[str, int]]
    room: Callable[[], int]
    work: Callable[[Recovered, float], Work]
    submit: Callable[[Work, Callable[[], None]], str | None]
    reports: Callable[[], Mapping[str, int]]
    take_report: Callable[[Kept], None]
    lost_reports: Callable[[str, int], None]
    redactor: Redactor


class Durable:
    """Keeps accepted samples and their outcomes on disk, if there is a spool.

    Args:
        config: The settings.
        incidents: Where failures of the disk are counted.
        host: The pipeline.

    Raises:
        ConfigError: The file cannot be a spool.
    """

    def __init__(self, config: RagEvalConfig, incidents: Incidents, host: Host) -> None:
        self._config = config
        self._incidents = incidents
        self._host = host
        self._spool: Spool | None = None
        self._parents: list[Spool] = []
        self._left_over = config.spool is not None and check_spool(Path(config.spool))

    def reset(self, ledger: Ledger) -> None:
        """Begins anew: what a forked child needs."""
        self._ledger = ledger
        self._recovered = 0
        if self._spool is not None:
            # Kept, as a connection of the parent's must not be closed in the child.
            self._spool.abandon()
            self._parents.append(self._spool)
        self._spool = Spool.of(
            self._config,
            incidents=self._incidents,
            positions=self._host.positions,
            room=self._host.room,
            take=self._recover,
            reports=ReportHost(
                room=self._host.reports,
                take=self._host.take_report,
                lost=self._host.lost_reports,
                max_bytes=self._config.sink_keep_mb * 1_000_000,
                keep_for=self._config.sink_keep_for,
            ),
        )

    @property
    def store(self) -> Store | None:
        """Where reports are kept for platforms, if there is a spool."""
        return None if self._config.spool is None else _Store(lambda: self._spool)

    def look_back(self) -> None:
        """Recovers what earlier processes left, soon."""
        if self._spool is not None and self._left_over:
            with suppress(RuntimeError):
                # Without a thread now, recovery begins with the first sample.
                self._spool.start()

    def start(self) -> None:
        """Starts the writing thread, once.

        Raises:
            RuntimeError: The system gives no thread.
        """
        if self._spool is not None:
            self._spool.begin_thread()

    def enroll(self, work: Work) -> None:
        """Gives a sample that is accepted now its place."""
        if self._spool is not None:
            work.entry = Entry(
                work.offer.sample,
                probability=work.decision.probability,
                reason=work.decision.reason,
                redaction=self._host.redactor.mark,
            )

    def put(self, work: Work) -> None:
        """Keeps a sample, soon. O(1), never waits."""
        if self._spool is not None and work.entry is not None:
            self._spool.put(work.entry)

    def confirmed(self, work: Work) -> bool:
        """Whether a sample is on disk where it is to be by now."""
        return self._spool is None or work.entry is None or self._spool.confirmed(work.entry)

    def holds(self, work: Work) -> bool:
        """Whether the disk holds a sample, for another process to take over."""
        return work.entry is not None and work.entry.generation != NOWHERE

    async def begin(self, work: Work) -> None:
        """Notes that a recovered sample is evaluated now; returns when that is on disk."""
        if self._spool is not None and work.entry is not None and work.found is not None:
            await self._spool.begin(work.entry)

    async def keep(self, work: Work, outcomes: Outcomes) -> bool:
        """Keeps outcomes until they are delivered; whether they are ours to deliver."""
        if self._spool is None or work.entry is None or work.outcomes is not None:
            return True
        return await self._spool.keep(work.entry, outcomes)

    def finish(self, work: Work, column: str) -> None:
        """Lets go of a sample, before it is settled in the books: a flush waits for both."""
        if work.entry is not None:
            self.let_go(work.entry, column)

    def let_go(self, entry: Entry, column: str) -> None:
        """The same of its place in the spool."""
        if self._spool is not None:
            self._spool.finish(entry, column)

    def give_up(self, entry: Entry) -> None:
        """Leaves a sample of this process' to whoever takes it over, it itself included."""
        if self._spool is not None:
            self._spool.give_up(entry)

    def told(self, stats: Stats) -> Stats:
        """The books with what concerns the spool."""
        if self._spool is None:
            return stats
        return replace(stats, recovered=self._recovered, undurable=self._spool.undurable)

    def books(self) -> Mapping[str, int]:
        """Those of the spool: of all processes, ever; empty without one, or a readable one."""
        return {} if self._spool is None else self._spool.books()

    def levels(self) -> dict[str, Gauge]:
        """What metrics show of the spool, by instrument; nothing without one."""
        spool, most = self._spool, self._config.spool_max_mb * 1_000_000
        if spool is None:
            return {}
        return {
            semconv.METRIC_SPOOL_SIZE: lambda: spool.measured()[0],
            semconv.METRIC_SPOOL_USAGE: lambda: spool.measured()[1],
            semconv.METRIC_SPOOL_LIMIT: lambda: most,
        }

    def drain(self, timeout: float | None) -> bool:
        """Waits until all that was noted so far is on disk; whether it is."""
        return self._spool is None or self._spool.drain(timeout)

    def stop(self, timeout: float) -> None:
        """Ends the writing thread."""
        if self._spool is not None:
            self._spool.stop(timeout)

    def before_fork(self) -> None:
        """In the parent."""
        if self._spool is not None:
            self._spool.before_fork()

    def after_fork(self) -> None:
        """In the parent: goes on."""
        if self._spool is not None:
            self._spool.after_fork()

    def _recover(self, row: Row, generation: int) -> bool:
        """Takes over a sample of a process that has ended, if there is room for it.

        Called in the spool's thread.
        """
        assert self._spool is not None
        found = recovered(row, generation, self._incidents, self._host.redactor)
        if found.refusal is not None:
            self._recovered += 1
            self._ledger.dropped(found.refusal, id_of(row.id))
            self._spool.finish(found.entry, f"dropped:{found.refusal}")
            return True
        work = self._host.work(found, row.probability)
        if self._host.submit(work, lambda: self._enter(work)) is None:
            return True
        work.joinable.finish()
        self.give_up(found.entry)
        return False

    def _enter(self, work: Work) -> None:
        self._recovered += 1
        work.ticket = self._ledger.accepted(work.offer.key, work.offer.ids)


class _Store:
    """The spool of this process as platforms see it; a forked child has another."""

    def __init__(self, spool: Callable[[], Spool | None]) -> None:
        self._spool = spool

    def keep(self, kept: Kept) -> None:
        if (spool := self._spool()) is not None:
            spool.keep_report(kept)

    def leave(self, kept: Kept, told: Callable[[bool], None]) -> None:
        if (spool := self._spool()) is not None:
            spool.leave_report(kept, told)

    def drop(self, kept: Kept) -> None:
        if (spool := self._spool()) is not None:
            spool.drop_report(kept)
