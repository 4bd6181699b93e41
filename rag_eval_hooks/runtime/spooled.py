"""The outbox as an observer of the pipeline: samples go in, results come out to the sinks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

from rag_eval_hooks.delivery import Dispatch
from rag_eval_hooks.delivery.codec import from_text, sample_to_text
from rag_eval_hooks.delivery.outbox import PATIENCE_S, Job, Outbox
from rag_eval_hooks.delivery.outbox_file import EVALUATE
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.request import Ending, Observer, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.runtime.build import Parts
from rag_eval_hooks.sample import Sample

__all__ = ["Spooled"]

_MOST_TRIES = 10
"""Processes that may end during the evaluation of a sample before it is given up."""


class Spooled(Observer):
    """Stores accepted samples, and hands results to the dispatcher.

    Recovered samples go back to the pipeline: `resume` queues one if there is a slot, `settle`
    ends one that cannot be evaluated.
    """

    def __init__(
        self,
        parts: Parts,
        outbox: Outbox,
        delivery: Dispatch,
        resume: Callable[[Request], bool],
        settle: Callable[[Request, Ending], None],
    ) -> None:
        self.recovered = 0
        self._parts = parts
        self._outbox = outbox
        self._delivery = delivery
        self._resume = resume
        self._settle = settle

    def accepted(self, request: Request) -> None:
        decision = request.decision
        if not self._outbox.is_durable or request.by_feedback or decision is None:
            return
        if request.is_recovered:
            self.recovered += 1
            return
        mark = self._parts.redactor.mark

        def encode() -> str:
            return sample_to_text(request.sample(), decision.probability, decision.reason, mark)

        request.entry = Job(EVALUATE, request, encode, request.accepted_at)
        self._outbox.put(request.entry)

    def holds(self, request: Request) -> bool:
        """Return whether the disk holds a sample for another process to claim."""
        return request.entry is not None and request.entry.is_stored

    def set_aside(self, request: Request) -> bool:
        """Leave a sample on disk until there is capacity for it again; return whether it is."""
        return request.entry is not None and self._outbox.retry(request.entry)

    async def begun(self, request: Request) -> None:
        """Count on disk that the evaluation of a recovered sample begins."""
        if request.entry is not None and request.is_recovered and self._parts.fleet is None:
            await self._within_patience(self._outbox.begin(request.entry))

    async def keep(self, request: Request, evaluation: Evaluation) -> bool:
        """Replace a sample on disk by its results for the sinks, before these are published.

        Returns:
            False if another process has claimed the sample: it publishes the results.
        """
        entry = request.entry = request.entry or Job(EVALUATE)
        entry.then = self._delivery.jobs(evaluation, request.accepted_at)
        if not self._outbox.is_durable:
            return True
        count = "" if request.by_feedback else Ending.of(evaluation).entry
        return await self._within_patience(self._outbox.done(entry, count, entry.then))

    async def evaluated(self, request: Request, evaluation: Evaluation) -> None:
        self._delivery.put(request.entry.then)

    def settled(self, request: Request, ending: Ending) -> None:
        entry = request.entry
        if entry is not None and not entry.is_over and not ending.is_left:
            self._outbox.done(entry, ending.entry)

    def recover(self, job: Job) -> bool:
        """Queue a sample that another process left; return False if there is no slot."""
        try:
            stored = from_text(job.payload, self._parts.redactor)
        except Exception as error:  # noqa: BLE001 - the file's edge: anything may have written it
            self._parts.incidents.report("spool", error)
            is_redaction = isinstance(error, RedactionError)
            return self._refuse(job, "redaction_failed" if is_redaction else "unreadable")
        if job.tries >= _MOST_TRIES:
            return self._refuse(job, "gave_up")
        request = Request.of(stored.sample)
        request.entry, request.accepted_at = job, job.accepted
        request.probability, request.reason = stored.probability or 0.0, stored.reason
        return self._resume(request)

    def _refuse(self, job: Job, reason: str) -> bool:
        self.recovered += 1
        unread = Sample(question="")
        self._settle(Request(key="", build=lambda: unread, entry=job), Ending.dropped(reason))
        return True

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
