"""The outbox as an observer of the pipeline: samples go in, results come out to the sinks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Final

from rag_eval_hooks import semconv
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery import Dispatch
from rag_eval_hooks.delivery.codec import from_text, sample_to_text
from rag_eval_hooks.delivery.outbox import PATIENCE_S, Consumer, Job, Outbox
from rag_eval_hooks.delivery.outbox_file import EVALUATE, check_spool
from rag_eval_hooks.errors import ConfigError, RedactionError
from rag_eval_hooks.request import Ending, Observer, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.runtime.build import Parts
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.telemetry.self_metrics import Gauge

__all__ = ["Spooled"]

_LEFT: Final = ("spooled", "shutdown")
"""Reasons of samples that stay on disk for the next process."""
_MOST_TRIES: Final = 10
"""Processes that may end during the evaluation of a sample before it is given up."""


class Spooled(Observer):
    """Stores accepted samples, and hands results to the dispatcher.

    Args:
        parts: Settings, sinks, redactor and telemetry.
        capacity: Returns how many more recovered samples may wait.
        resume: Queues a recovered sample; False if there is no slot.
        settle: Ends a recovered sample that cannot be evaluated.

    Attributes:
        recovered: Samples claimed from processes that have ended.
        delivery: The dispatcher.

    Raises:
        ConfigError: Another `RagEval` uses a platform sink.
    """

    def __init__(
        self,
        parts: Parts,
        capacity: Callable[[], int],
        resume: Callable[[Request], bool],
        settle: Callable[[Request, Ending], None],
    ) -> None:
        config = parts.config
        self.recovered = 0
        self._parts = parts
        self._resume = resume
        self._settle = settle
        self._has_leftovers = False
        path = None if config.spool is None else Path(config.spool)
        if path is not None:
            try:
                self._has_leftovers = check_spool(path)
            except ConfigError as error:
                # The folder was right when the application started, and is gone in a forked child.
                parts.incidents.report("spool", error)
        self._max_bytes = limits.SPOOL_BYTES
        self._outbox = Outbox(path, max_bytes=self._max_bytes, incidents=parts.incidents)
        self._outbox.consume(EVALUATE, Consumer(capacity, self._recover))
        self.delivery = Dispatch(
            parts.sinks,
            config,
            parts.incidents,
            self._outbox,
            revive=self._revive,
            mark=parts.redactor.mark,
            tracer_provider=parts.tracer_provider,
        )

    @property
    def undurable(self) -> int:
        """Accepted samples that were not stored."""
        return self._outbox.undurable

    def look_back(self) -> None:
        """Recover soon what earlier processes left."""
        if self._has_leftovers:
            with suppress(RuntimeError):
                # Without a thread now, recovery begins with the first sample.
                self._outbox.start(later=True)

    def start(self) -> None:
        """Start the writing thread, once.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self._outbox.start()

    def accepted(self, work: Request) -> None:
        """Store a sample soon. Never waits."""
        decision = work.decision
        if not self._outbox.is_durable or work.by_feedback or decision is None:
            return
        if work.is_recovered:
            self.recovered += 1
            return
        mark = self._parts.redactor.mark

        def encode() -> str:
            return sample_to_text(work.sample(), decision.probability, decision.reason, mark)

        work.entry = Job(EVALUATE, work, encode, work.accepted_at)
        self._outbox.put(work.entry)

    def holds(self, work: Request) -> bool:
        """Return whether the disk holds a sample for another process to claim."""
        return work.entry is not None and work.entry.is_stored

    def set_aside(self, work: Request) -> bool:
        """Leave a sample on disk until there is capacity for it again; return whether it is."""
        return work.entry is not None and self._outbox.retry(work.entry)

    async def begun(self, work: Request) -> None:
        """Count on disk that the evaluation of a recovered sample begins."""
        if work.entry is not None and work.is_recovered and self._parts.fleet is None:
            await self._within_patience(self._outbox.begin(work.entry))

    async def keep(self, work: Request, evaluation: Evaluation) -> bool:
        """Replace a sample on disk by its results for the sinks, before these are published.

        Returns:
            False if another process has claimed the sample: it publishes the results.
        """
        if work.entry is None:
            work.entry = Job(EVALUATE)
        work.entry.then = self.delivery.jobs(evaluation, work.accepted_at)
        if not self._outbox.is_durable:
            return True
        count = "" if work.by_feedback else Ending.of(evaluation).entry
        return await self._within_patience(self._outbox.done(work.entry, count, work.entry.then))

    async def evaluated(self, work: Request, evaluation: Evaluation) -> None:
        """Hand the results to the sinks. Never waits for them."""
        self.delivery.put(work.entry.then)

    def settled(self, work: Request, ending: Ending) -> None:
        """Count the end of a sample, unless it stays on disk for the next process."""
        entry = work.entry
        if entry is not None and not entry.is_over and ending.reason not in _LEFT:
            self._outbox.done(entry, ending.entry)

    def books(self) -> Mapping[str, int]:
        """Return the counts of all processes; empty if they cannot be read."""
        return self._outbox.counts()

    def gauges(self) -> dict[str, Gauge]:
        """Return the gauges of the spool, by instrument."""
        outbox, most = self._outbox, self._max_bytes
        if not outbox.is_durable:
            return {}
        return {
            semconv.METRIC_SPOOL_SIZE: lambda: outbox.measured()[0],
            semconv.METRIC_SPOOL_USAGE: lambda: outbox.measured()[1],
            semconv.METRIC_SPOOL_LIMIT: lambda: most,
        }

    def drain(self, timeout: float | None) -> bool:
        """Wait until everything so far is on disk or given up, and return whether it is."""
        return self._outbox.drain(timeout)

    def stop(self, timeout: float) -> None:
        """Give what is left to other processes and end the writing thread."""
        self._outbox.close(timeout)

    async def _within_patience(self, written: Future[bool]) -> bool:
        """Return what a write returns; True at once while the disk hangs."""
        if self._outbox.is_stalled:
            return True
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await asyncio.wrap_future(written)
        except TimeoutError as error:
            self._outbox.is_stalled = True
            self._parts.incidents.report("spool", error)
            return True

    def _revive(self, text: str) -> Evaluation:
        stored = from_text(text, self._parts.redactor)
        return self._parts.telemetry.evaluated(
            stored.sample,
            stored.outcomes,
            probability=stored.probability,
            reason=stored.reason,
            start=stored.start,
            end=stored.end,
        )

    def _recover(self, job: Job) -> bool:
        """Queue a sample that another process left."""
        try:
            stored = from_text(job.payload, self._parts.redactor)
        except Exception as error:  # noqa: BLE001 - the file's edge: anything may have written it
            self._parts.incidents.report("spool", error)
            is_redaction = isinstance(error, RedactionError)
            return self._refuse(job, "redaction_failed" if is_redaction else "unreadable")
        if job.tries >= _MOST_TRIES:
            return self._refuse(job, "gave_up")
        work = Request.of(stored.sample)
        work.entry, work.accepted_at, work.tries = job, job.accepted, job.tries
        work.probability, work.reason = stored.probability or 0.0, stored.reason
        return self._resume(work)

    def _refuse(self, job: Job, reason: str) -> bool:
        self.recovered += 1
        unread = Sample(question="")
        refused = Request(key="", build=lambda: unread)
        refused.entry = job
        self._settle(refused, Ending.dropped(reason))
        return True
