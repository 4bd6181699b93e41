"""One sample in the evaluator: look at it, judge it, publish and deliver what came of it."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from opentelemetry.trace import SpanContext

from rag_eval_hooks import semconv
from rag_eval_hooks.books.stats import Ledger
from rag_eval_hooks.calls import CallLog
from rag_eval_hooks.decision import RATE_LIMIT, SAMPLED_OUT, Decision
from rag_eval_hooks.delivery.delivery import Delivery
from rag_eval_hooks.delivery.redelivery import Redelivery
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.context import in_call_context
from rag_eval_hooks.pipeline.endings import dropped, sampled_out
from rag_eval_hooks.pipeline.feedback import Joining
from rag_eval_hooks.pipeline.judging import Judging, column_of, is_refused
from rag_eval_hooks.pipeline.offer import as_judged
from rag_eval_hooks.pipeline.spooled import Durable
from rag_eval_hooks.pipeline.work import Work
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.selection import Selection, by_rates
from rag_eval_hooks.score import Cause, Outcomes
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.telemetry.limits import Attributes
from rag_eval_hooks.telemetry.rag_span import SpanHolder
from rag_eval_hooks.telemetry.telemetry import Telemetry
from rag_eval_hooks.work import BUDGET

__all__ = ["Course"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The way of accepted samples through the evaluator; every one is settled at its end.

    Attributes:
        selection: Decides, where that takes the sample itself.
        judging: Evaluates.
        joining: Remembers for feedback.
        telemetry: Publishes.
        delivery: Hands to sinks.
        redelivery: Hands to sinks again what they did not take.
        durable: Keeps on disk.
        ledger: The books.
        holder: Of RAG spans that wait.
        incidents: Where exceptions are counted.
        trace_judge: Whether calls of judges are kept, to be published.
    """

    selection: Selection
    judging: Judging
    joining: Joining
    telemetry: Telemetry
    delivery: Delivery
    redelivery: Redelivery
    durable: Durable
    ledger: Ledger
    holder: SpanHolder
    incidents: Incidents
    trace_judge: bool = False

    async def run(self, work: Work) -> None:
        """Evaluates and settles a sample."""
        log = CallLog()
        with in_call_context(log=log if self.trace_judge else None):
            await self._run(work, log)

    async def _run(self, work: Work, log: CallLog) -> None:
        start, began = time.time_ns(), time.monotonic_ns()
        sample = self._sample(work)
        if sample is None:
            return
        if work.outcomes is not None:
            self.joining.evaluated(work.joinable, sample, work.decision, work.outcomes)
            await self._deliver(work, sample, work.outcomes)
            return
        sample = self.judging.with_equal(sample)
        decision = await self._decided(work, sample)
        if decision is None:
            return
        await self.durable.begin(work)
        sample = await self.judging.with_alike(sample)
        outcomes = by_rates(await self.judging.score(sample, decision.chosen), decision)
        # The wall clock may be set meanwhile; what the evaluation took must stay true.
        end = start + time.monotonic_ns() - began
        self.joining.evaluated(work.joinable, sample, decision, outcomes)
        if await self.durable.keep(work, outcomes):
            self._publish(work, sample, outcomes, decision, start, end, log)
            await self._deliver(work, sample, outcomes)
        else:
            self.ledger.settle_dropped(work.ticket, "taken_over")
            self.finish(work, dropped("taken_over"))

    def fail(self, work: Work) -> None:
        """Settles a sample whose evaluation raised."""
        self.finish(work, {semconv.EVAL_STATUS: EvalStatus.ERROR.value})
        self.durable.finish(work, f"failed:{Cause.METRIC_FAILED.value}")
        self.ledger.settle_failed(work.ticket, Cause.METRIC_FAILED.value)

    def end(self, work: Work) -> None:
        """Whatever ended the work: what is not settled by then was cancelled."""
        work.joinable.finish()
        held = self.durable.holds(work)
        self.ledger.settle_dropped(work.ticket, "spooled" if held else "shutdown")

    def finish(
        self,
        work: Work,
        attributes: Attributes,
        links: Sequence[SpanContext] = (),
        events: Sequence[Attributes] = (),
        *,
        more: Attributes | None = None,
    ) -> None:
        """Ends the RAG span, if it still waits."""
        if work.offer.held is not None:
            self.holder.finish(work.offer.held, {**attributes, **(more or {})}, links, events)

    def _sample(self, work: Work) -> Sample | None:
        try:
            sample = work.sample()
        except Exception as error:  # noqa: BLE001 - the host's edge: it reads the host's objects
            reason = "redaction_failed" if isinstance(error, RedactionError) else "capture_failed"
            self.incidents.report(reason.partition("_")[0], error)
            self.joining.unreadable(work.joinable)
            self._drop(work, reason)
            return None
        self.ledger.identify(work.ticket, sample.sample_id)
        return as_judged(sample)

    async def _decided(self, work: Work, sample: Sample) -> Decision | None:
        """The decision that stands, or None: the sample is settled without an evaluation."""
        if not work.is_open:
            return work.decision
        decision = await self.selection.looked_at(sample, work.decision)
        self.ledger.note("decisions", decision.reason)
        if not decision.sampled:
            self.joining.passed_over(work.joinable, sample, decision)
            self.durable.finish(work, SAMPLED_OUT)
            self.ledger.settle_sampled_out(work.ticket, decision.because, decision.probability)
            self.finish(work, sampled_out(decision))
            return None
        admitted = self.selection.admitted(decision)
        if admitted is None:
            self.ledger.note("decisions", RATE_LIMIT)
            self.joining.passed_over(work.joinable, sample, decision)
            self._drop(work, RATE_LIMIT)
        return admitted

    def _publish(
        self,
        work: Work,
        sample: Sample,
        outcomes: Outcomes,
        decision: Decision,
        start: int,
        end: int,
        log: CallLog,
    ) -> None:
        """Sends telemetry once: what another process found is left to what that one has sent."""
        evaluation = self.telemetry.evaluated(
            sample,
            outcomes,
            probability=decision.probability,
            reason=decision.reason,
            start=start,
            end=end,
            log=log,
        )
        refused = dropped(BUDGET) if is_refused(outcomes) else {}
        self.telemetry.publish(evaluation, functools.partial(self.finish, work, more=refused))

    async def _deliver(self, work: Work, sample: Sample, outcomes: Outcomes) -> None:
        held = self.durable.holds(work)
        missed = await self.delivery.deliver(sample, outcomes, work.positions, can_wait=held)
        if missed and work.entry is not None and self.durable.holds(work):
            self.redelivery.add(work.entry, sample, outcomes, missed)
        else:
            self.durable.finish(work, column_of(outcomes))
        self.judging.settle(work.ticket, outcomes)

    def _drop(self, work: Work, reason: str) -> None:
        self.durable.finish(work, f"dropped:{reason}")
        self.ledger.settle_dropped(work.ticket, reason)
        self.finish(work, dropped(reason))
