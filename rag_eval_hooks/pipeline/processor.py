"""Evaluator's side of the pipeline: build a sample, decide, evaluate, publish, settle."""

from __future__ import annotations

import time
from collections.abc import Container
from contextlib import AbstractContextManager

from rag_eval_hooks.books import Books
from rag_eval_hooks.calls import CallLog
from rag_eval_hooks.decision import RATE_LIMIT, Decision
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.fleet.wire import Shipped
from rag_eval_hooks.judges.calls.context import CallContext, in_call_context
from rag_eval_hooks.outcome_view import OutcomeTable
from rag_eval_hooks.pipeline.observers import Observers
from rag_eval_hooks.pipeline.shipping import BROKER_DOWN, Shipper
from rag_eval_hooks.pipeline.spooled import Spooled
from rag_eval_hooks.pipeline.wiring import Parts
from rag_eval_hooks.request import Column, Ending, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.rate_limit import RateLimit
from rag_eval_hooks.sampling.selection import by_rates
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.suppress import suppressed

__all__ = ["Processor"]


class Processor:
    """Processes accepted requests; every one of them is settled at its end.

    Args:
        parts: Evaluate, decide and publish.
        observers: Follow every request.
        spooled: Keeps outcomes on disk before they are published.
        stats: Counts decisions.
        shipper: Hands samples over to workers, or None if they are evaluated here.
    """

    def __init__(
        self,
        parts: Parts,
        observers: Observers,
        spooled: Spooled,
        stats: Books,
        shipper: Shipper | None,
    ) -> None:
        self._parts = parts
        self._shipper = shipper
        self._limit = RateLimit(parts.config.rate_limit)
        self._observers = observers
        self._spooled = spooled
        self._stats = stats

    async def process(self, work: Request) -> None:
        """Evaluate and settle a request."""
        sample = self._build(work)
        if sample is None:
            return
        await self._observers.begun(work)
        decision = await self._decide(work, sample)
        if decision is None:
            return
        if self._shipper is not None and work.outcomes is None:
            await self._ship(self._shipper, work, sample, decision)
            return
        evaluation = await self._evaluate(work, sample, decision)
        await self.publish(work, evaluation)

    async def _ship(
        self, shipper: Shipper, work: Request, sample: Sample, decision: Decision
    ) -> None:
        item = Shipped(sample=sample, decision=decision, accepted_at=work.accepted_at)
        result = await shipper.result(item, urgent=decision.because.startswith("tail:"))
        if result is None:
            self._observers.settle(work, Ending(Column.SHIPPED))
        elif isinstance(result, str):
            is_safe = result == BROKER_DOWN and self._spooled.set_aside(work)
            self._observers.settle(work, Ending.dropped("spooled" if is_safe else result))
        else:
            # The worker has published it; the span that waits and the sinks here lack it.
            work.outcomes = result.outcomes
            evaluation = self._parts.telemetry.evaluated(
                sample,
                result.outcomes,
                probability=decision.probability,
                reason=decision.reason,
                start=result.start,
                end=result.end,
            )
            await self.publish(work, evaluation)

    async def publish(self, work: Request, evaluation: Evaluation) -> None:
        """Store an evaluation, hand it to telemetry and sinks, and settle its request."""
        if not await self._spooled.keep(work, evaluation):
            self._observers.settle(work, Ending.dropped("spooled"))
            return
        await self._observers.evaluated(work, evaluation)
        self._observers.settle(work, Ending.of(evaluation))

    def _build(self, work: Request) -> Sample | None:
        """Return the sample, or None: it cannot be built, and its request is settled."""
        try:
            return self.with_equal_reference(work.judged_sample())
        except Exception as error:  # noqa: BLE001 - the host's edge: it reads the host's objects
            reason = "redaction_failed" if isinstance(error, RedactionError) else "capture_failed"
            self._parts.incidents.report(reason.partition("_")[0], error)
            self._observers.settle(work, Ending.dropped(reason))
            return None

    async def _decide(self, work: Request, sample: Sample) -> Decision | None:
        """Return the final decision, or None: the sample is left out, and its request settled."""
        assert work.decision is not None
        if work.is_final or work.outcomes is not None or not self._parts.selection.is_open(work):
            return work.decision
        selection = self._parts.selection
        decision = work.decision = await selection.decide_after_sample(sample, work.decision)
        self._stats.note("decisions", decision.reason)
        if not decision.sampled:
            self._observers.settle(work, Ending.sampled_out(decision))
            return None
        admitted = self.admit(decision)
        if admitted is None:
            self._observers.settle(work, Ending.dropped(RATE_LIMIT))
        else:
            work.decision = admitted
        return admitted

    def admit(self, decision: Decision) -> Decision | None:
        """Return the decision after the rate limit, or None if the limit is exhausted."""
        if not self._limit.active:
            return decision
        share = self._limit.admit()
        if share is None:
            self._stats.note("decisions", RATE_LIMIT)
            return None
        return decision.admitted(share)

    async def _evaluate(self, work: Request, sample: Sample, decision: Decision) -> Evaluation:
        start, began = time.time_ns(), time.monotonic_ns()
        log = CallLog()
        outcomes = work.outcomes
        if outcomes is None:
            with self.call_context(log):
                outcomes = by_rates(await self.score(sample, decision.chosen), decision)
        return self._parts.telemetry.evaluated(
            sample,
            outcomes,
            probability=decision.probability,
            reason=decision.reason,
            start=start,
            # The wall clock may be set meanwhile; the duration must stay true.
            end=start + time.monotonic_ns() - began,
            log=log,
        )

    async def score(self, sample: Sample, chosen: Container[str] | None = None) -> Outcomes:
        """Return one outcome per metric; those that are not chosen are `sampled_out`."""
        outcomes = await self._parts.scorer.score(sample, chosen)
        self._parts.telemetry.used(sample, outcomes)
        return outcomes

    async def inline(self, sample: Sample, chosen: Container[str] | None = None) -> Outcomes:
        """Return the outcomes of all metrics, or of the chosen ones, as in the background."""
        with suppressed(), self.call_context():
            sample = self.with_equal_reference(sample)
            outcomes = await self.score(sample, chosen)
        return OutcomeTable(
            {name: one for name, one in outcomes.items() if chosen is None or name in chosen}
        )

    def with_equal_reference(self, sample: Sample) -> Sample:
        """Return the sample with the reference of an equal golden question, if there is one."""
        references = self._parts.references
        return sample if references is None else references.equal(sample)

    def call_context(self, log: CallLog | None = None) -> AbstractContextManager[CallContext]:
        """Charge judge calls of one evaluation to the budget, observe them, and log them."""
        return in_call_context(
            budget=self._parts.budget,
            observer=self._parts.telemetry.calls,
            log=log if self._parts.config.trace_judge else None,
        )
