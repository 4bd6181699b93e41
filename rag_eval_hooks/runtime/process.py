"""Evaluation of one request: build its sample, decide, evaluate, publish, settle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container

from rag_eval_hooks.books import Books
from rag_eval_hooks.calls import CallLog
from rag_eval_hooks.decision import RATE_LIMIT, Decision
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.outcome_view import OutcomeTable
from rag_eval_hooks.request import Column, Ending, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.runtime.build import Parts
from rag_eval_hooks.runtime.observers import Observers
from rag_eval_hooks.runtime.shipping import BROKER_DOWN, RemoteEvaluator
from rag_eval_hooks.runtime.spooled import Spooled
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.rate_limit import RateLimit
from rag_eval_hooks.sampling.selection import by_rates
from rag_eval_hooks.score import Cause, Outcomes
from rag_eval_hooks.suppress import suppressed

__all__ = ["Processor", "evaluate_inline"]


class Processor:
    """Evaluates accepted requests in the worker's thread; every request is settled."""

    def __init__(
        self,
        parts: Parts,
        observers: Observers,
        books: Books,
        spooled: Spooled,
        remote: RemoteEvaluator | None,
    ) -> None:
        self._parts = parts
        self._observers = observers
        self._books = books
        self._spooled = spooled
        self._remote = remote
        self._limit = RateLimit(parts.config.rate_limit)

    def admit(self, request: Request, decision: Decision) -> Ending | None:
        """Apply a final decision and the rate limit; return the end of a refused request."""
        request.decision = decision
        self._books.note("decisions", decision.reason)
        if not decision.sampled:
            return Ending.sampled_out(decision)
        if self._limit.active:
            share = self._limit.admit()
            if share is None:
                self._books.note("decisions", RATE_LIMIT)
                return Ending.dropped(RATE_LIMIT)
            request.decision = decision.admitted(share)
        return None

    async def process(self, request: Request) -> None:
        """Evaluate and settle a request; an exception of ours fails this request alone."""
        if request.ending is not None:
            # A signal handler of the application has interrupted its submission.
            return
        try:
            with suppressed():
                ending = await self._ending_of(request)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the metric's edge: even an exit ends here
            self._parts.incidents.report("evaluation", error)
            ending = Ending.failed(Cause.METRIC_FAILED)
        self._observers.settle(request, ending)

    def end(self, request: Request) -> None:
        """Settle a request that was cancelled before its end."""
        if request.ending is None:
            ending = Ending.dropped("shutdown")
            if self._spooled.holds(request):
                ending = Ending.dropped("spooled")
            elif request.is_shipped:
                ending = Ending(Column.SHIPPED)
            self._observers.settle(request, ending)

    async def evaluate_asked(
        self, ended: Request, sample: Sample, decision: Decision
    ) -> Evaluation | None:
        """Evaluate what a feedback asks for, as a request of its own.

        Returns:
            The evaluation, or None if the rate limit refused it or it failed.
        """
        request = Request(
            key=next(iter(ended.ids), ""),
            build=lambda: sample,
            decision=decision,
            is_final=True,
            by_feedback=True,
        )
        refused = self.admit(request, decision)
        if refused is not None:
            self._observers.settle(request, refused)
            return None
        self._observers.accepted(request)
        try:
            await self.process(request)
        finally:
            self.end(request)
        return None if request.ending is None else request.ending.evaluation

    async def _ending_of(self, request: Request) -> Ending:
        try:
            sample = self._parts.referenced(request.judged_sample())
        except Exception as error:  # noqa: BLE001 - the host's edge: it reads the host's objects
            reason = "redaction_failed" if isinstance(error, RedactionError) else "capture_failed"
            self._parts.incidents.report(reason.partition("_")[0], error)
            return Ending.dropped(reason)
        await self._observers.begun(request)
        assert request.decision is not None
        selection = self._parts.selection
        if not request.is_final and selection.is_open(request):
            decision = await selection.decide_after_sample(sample, request.decision)
            refused = self.admit(request, decision)
            if refused is not None:
                return refused
        evaluation = await self._evaluation_of(request, sample, request.decision)
        if isinstance(evaluation, Ending):
            return evaluation
        if not await self._spooled.keep(request, evaluation):
            # Another process has claimed the sample, and publishes it.
            return Ending.dropped("spooled")
        await self._observers.evaluated(request, evaluation)
        return Ending.of(evaluation)

    async def _evaluation_of(
        self, request: Request, sample: Sample, decision: Decision
    ) -> Evaluation | Ending:
        if self._remote is None or request.by_feedback:
            return await _evaluate(self._parts, sample, decision)
        request.is_shipped = True
        result = await self._remote.evaluate(sample, decision, request.accepted_at)
        if isinstance(result, Ending):
            is_safe = result.reason == BROKER_DOWN and self._spooled.set_aside(request)
            return Ending.dropped("spooled") if is_safe else result
        # The worker has published it; the span that waits and the sinks here lack it.
        request.outcomes = result.outcomes
        return self._parts.telemetry.judged(
            Evaluation(
                sample=sample,
                outcomes=result.outcomes,
                probability=decision.probability,
                reason=decision.reason,
                start=result.start,
                end=result.end,
            )
        )


async def _evaluate(parts: Parts, sample: Sample, decision: Decision) -> Evaluation:
    """Evaluate a sample by the metrics that a decision chose."""
    start, began = time.time_ns(), time.monotonic_ns()
    log = CallLog()
    with parts.call_context(log):
        outcomes = by_rates(await _score(parts, sample, decision.chosen), decision)
    return parts.telemetry.judged(
        Evaluation(
            sample=sample,
            outcomes=outcomes,
            # Feedback asks for metrics that no draw chose.
            probability=decision.probability or None,
            reason=decision.reason,
            start=start,
            # The wall clock may be set meanwhile; the duration must stay true.
            end=start + time.monotonic_ns() - began,
            log=log,
        )
    )


async def evaluate_inline(
    parts: Parts, sample: Sample, chosen: Container[str] | None = None
) -> Outcomes:
    """Return the outcomes of all metrics, or of the chosen ones, as in the background."""
    with suppressed(), parts.call_context():
        outcomes = await _score(parts, parts.referenced(sample), chosen)
    return OutcomeTable(
        {name: one for name, one in outcomes.items() if chosen is None or name in chosen}
    )


async def _score(parts: Parts, sample: Sample, chosen: Container[str] | None) -> Outcomes:
    outcomes = await parts.scorer.score(sample, chosen)
    parts.telemetry.used(sample, outcomes)
    return outcomes
