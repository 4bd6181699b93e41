"""Evaluation of one request: build its sample, decide, evaluate, publish, settle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Coroutine
from contextlib import AbstractContextManager
from typing import Any

from rag_eval_hooks.books import Books
from rag_eval_hooks.calls import CallLog
from rag_eval_hooks.decision import RATE_LIMIT, Decision
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.judges.calls.context import CallContext, in_call_context
from rag_eval_hooks.outcome_view import OutcomeTable
from rag_eval_hooks.request import Column, Ending, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.runtime.build import Parts
from rag_eval_hooks.runtime.observers import Observers
from rag_eval_hooks.runtime.shipping import BROKER_DOWN, RemoteEvaluator
from rag_eval_hooks.runtime.spooled import Spooled
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.rate_limit import RateLimit
from rag_eval_hooks.sampling.selection import AskedMetrics, by_feedback, by_rates
from rag_eval_hooks.score import Cause, Outcomes
from rag_eval_hooks.suppress import suppressed

__all__ = [
    "Processor",
    "call_context",
    "evaluate_inline",
    "with_equal_reference",
]


class Processor:
    """Evaluates accepted requests in the worker's thread; every one of them is settled.

    Args:
        parts: Evaluate, decide and publish.
        observers: Follow every request.
        books: Count decisions.
        spooled: Keeps outcomes on disk before they are published.
        remote: Evaluates on other machines, or None if this process evaluates.
    """

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
        """Evaluate and settle a request."""
        # A signal handler of the application may have interrupted its submission.
        if request.ending is None:
            with suppressed():
                await self._guarded(request, self._process(request))

    def end(self, request: Request) -> None:
        """Settle a request that was cancelled before its end."""
        if request.ending is None:
            if self._spooled.holds(request):
                ending = Ending.dropped("spooled")
            else:
                ending = (
                    Ending(Column.SHIPPED) if request.is_shipped else Ending.dropped("shutdown")
                )
            self._observers.settle(request, ending)

    async def evaluate_asked(self, ended: Request, asked: AskedMetrics) -> Evaluation | None:
        """Evaluate what a feedback asks for, as a request of its own.

        Returns:
            The evaluation, or None if the rate limit refused it or it failed.
        """
        request = Request(
            key=next(iter(ended.ids), ""), build=lambda: asked.sample, by_feedback=True
        )
        share = self._limit.admit() if self._limit.active else None
        if self._limit.active and share is None:
            self._books.note("decisions", RATE_LIMIT)
            self._observers.settle(request, Ending.dropped(RATE_LIMIT))
            return None
        self._observers.accepted(request)
        try:
            await self._guarded(request, self._process_asked(request, asked, share))
        finally:
            self.end(request)
        return None if request.ending is None else request.ending.evaluation

    async def _guarded(self, request: Request, work: Coroutine[Any, Any, None]) -> None:
        """Await the work on a request; an exception of ours fails this request alone."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the metric's edge: even an exit ends here
            self._parts.incidents.report("evaluation", error)
            self._observers.settle(request, Ending.failed(Cause.METRIC_FAILED))

    async def _process(self, request: Request) -> None:
        try:
            sample = with_equal_reference(self._parts, request.judged_sample())
        except Exception as error:  # noqa: BLE001 - the host's edge: it reads the host's objects
            reason = "redaction_failed" if isinstance(error, RedactionError) else "capture_failed"
            self._parts.incidents.report(reason.partition("_")[0], error)
            self._observers.settle(request, Ending.dropped(reason))
            return
        await self._observers.begun(request)
        ending = await self._decide_after_sample(request, sample)
        decision = request.decision
        if ending is not None or decision is None:
            self._observers.settle(request, ending or Ending.dropped(request.status.value))
        elif self._remote is not None:
            await self._ship(self._remote, request, sample, decision)
        else:
            await self._publish(request, await _evaluate(self._parts, sample, decision))

    async def _decide_after_sample(self, request: Request, sample: Sample) -> Ending | None:
        """Let tail rules decide, where they do; return the end of a refused request."""
        selection, decision = self._parts.selection, request.decision
        if decision is None or request.is_final or not selection.is_open(request):
            return None
        request.decision = await selection.decide_after_sample(sample, decision)
        return self.admit(request, request.decision)

    async def _ship(
        self, remote: RemoteEvaluator, request: Request, sample: Sample, decision: Decision
    ) -> None:
        request.is_shipped = True
        result = await remote.evaluate(sample, decision, request.accepted_at)
        if isinstance(result, Ending):
            is_safe = result.reason == BROKER_DOWN and self._spooled.set_aside(request)
            self._observers.settle(request, Ending.dropped("spooled") if is_safe else result)
        else:
            # The worker has published it; the span that waits and the sinks here lack it.
            request.outcomes = result.outcomes
            await self._publish_known(request, sample, decision, result.start, result.end)

    async def _publish_known(
        self, request: Request, sample: Sample, decision: Decision, start: int, end: int
    ) -> None:
        """Publish outcomes that another process has evaluated."""
        evaluation = self._parts.telemetry.evaluated(
            sample,
            request.outcomes or {},
            probability=decision.probability,
            reason=decision.reason,
            start=start,
            end=end,
        )
        await self._publish(request, evaluation)

    async def _process_asked(
        self, request: Request, asked: AskedMetrics, admission: float | None
    ) -> None:
        await self._observers.begun(request)
        self._books.note("decisions", next(iter(asked.reasons.values())))
        start, began = time.time_ns(), time.monotonic_ns()
        scored = await _score(self._parts, asked.sample, frozenset(asked.reasons))
        chosen = {name: outcome for name, outcome in scored.items() if name in asked.reasons}
        outcomes = by_feedback(chosen, asked, admission)
        drawn = [one.probability for one in outcomes.values() if one.probability is not None]
        evaluation = self._parts.telemetry.evaluated(
            asked.sample,
            outcomes,
            probability=max(drawn, default=None),
            reason=next((one.reason for one in outcomes.values()), ""),
            start=start,
            end=start + time.monotonic_ns() - began,
        )
        await self._publish(request, evaluation)

    async def _publish(self, request: Request, evaluation: Evaluation) -> None:
        """Store an evaluation, give it to telemetry and sinks, and settle its request."""
        if not await self._spooled.keep(request, evaluation):
            # Another process has claimed the sample, and publishes it.
            self._observers.settle(request, Ending.dropped("spooled"))
            return
        await self._observers.evaluated(request, evaluation)
        self._observers.settle(request, Ending.of(evaluation))


async def _evaluate(parts: Parts, sample: Sample, decision: Decision) -> Evaluation:
    """Evaluate a sample by the metrics that the sampler chose."""
    start, began = time.time_ns(), time.monotonic_ns()
    log = CallLog()
    with call_context(parts, log):
        outcomes = by_rates(await _score(parts, sample, decision.chosen), decision)
    return parts.telemetry.evaluated(
        sample,
        outcomes,
        probability=decision.probability,
        reason=decision.reason,
        start=start,
        # The wall clock may be set meanwhile; the duration must stay true.
        end=start + time.monotonic_ns() - began,
        log=log,
    )


async def evaluate_inline(
    parts: Parts, sample: Sample, chosen: Container[str] | None = None
) -> Outcomes:
    """Return the outcomes of all metrics, or of the chosen ones, as in the background."""
    with suppressed(), call_context(parts):
        sample = with_equal_reference(parts, sample)
        outcomes = await _score(parts, sample, chosen)
    return OutcomeTable(
        {name: one for name, one in outcomes.items() if chosen is None or name in chosen}
    )


def with_equal_reference(parts: Parts, sample: Sample) -> Sample:
    """Return the sample with the reference of an equal golden question, if there is one."""
    return sample if parts.references is None else parts.references.equal(sample)


def call_context(parts: Parts, log: CallLog | None = None) -> AbstractContextManager[CallContext]:
    """Charge judge calls of one evaluation to the budget, observe them, and log them."""
    return in_call_context(
        budget=parts.budget,
        observer=parts.telemetry.calls,
        log=log if parts.config.trace_judge else None,
    )


async def _score(parts: Parts, sample: Sample, chosen: Container[str] | None) -> Outcomes:
    outcomes = await parts.scorer.score(sample, chosen)
    parts.telemetry.used(sample, outcomes)
    return outcomes
