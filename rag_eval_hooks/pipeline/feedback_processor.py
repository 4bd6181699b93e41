"""Feedback on ended requests: deliver it, and evaluate what it asks for."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from rag_eval_hooks.books import Books
from rag_eval_hooks.decision import RATE_LIMIT, Decision
from rag_eval_hooks.delivery import Dispatch
from rag_eval_hooks.evaluation.worker import Evaluator
from rag_eval_hooks.feedback import Feedback, id_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.pipeline.feedback_memory import FeedbackMemory, RecentRequest, answered
from rag_eval_hooks.pipeline.observers import Observers
from rag_eval_hooks.pipeline.processor import Processor
from rag_eval_hooks.pipeline.wiring import Parts
from rag_eval_hooks.request import Ending, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.selection import AskedMetrics, by_feedback

__all__ = ["FeedbackProcessor", "FeedbackWork"]


@dataclass(slots=True, eq=False)
class FeedbackWork:
    """Feedback on its way through the queue.

    Attributes:
        feedback: The feedback.
        request: The request that it is about.
        delivered: Whether the sinks were called with it.
    """

    feedback: Feedback
    request: RecentRequest
    delivered: bool = False

    @property
    def size(self) -> int:
        """Characters that it keeps in memory."""
        return len(self.feedback.reference or "") + len(self.feedback.label or "")


class FeedbackProcessor:
    """Joins feedback with remembered requests. Thread-safe but for `process`.

    Args:
        parts: Decide what a feedback asks for, and count exceptions.
        memory: Remembers ended requests.
        processor: Evaluates.
        observers: Follow the evaluations that feedback asks for.
        delivery: Calls the sinks that take feedback.
        stats: Counts decisions, feedback, and what `flush` waits for.
        evaluator: Has the queue.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        memory: FeedbackMemory,
        processor: Processor,
        observers: Observers,
        delivery: Dispatch,
        stats: Books,
        evaluator: Evaluator[Request | FeedbackWork],
    ) -> None:
        self._selection = parts.selection
        self._telemetry = parts.telemetry
        self._incidents: Incidents = parts.incidents
        self._memory = memory
        self._processor = processor
        self._observers = observers
        self._delivery = delivery
        self._stats = stats
        self._evaluator = evaluator
        self._most_waiting = parts.config.queue_size
        self._waiting: set[FeedbackWork] = set()

    def join(self, work: FeedbackWork, refusal: str | None) -> bool:
        """Queue a feedback behind the request's own evaluation, and count it. Never blocks.

        It takes no slot in the evaluator's queue while it waits for that evaluation.

        Args:
            work: The feedback.
            refusal: Reason to refuse it, or None.

        Returns:
            Whether it is queued.
        """
        self._stats.begin_feedback(work)
        reason = refusal or self._queue(work)
        if reason is not None:
            self._stats.end_feedback(work)
        self._stats.note("feedback", reason or "joined")
        return reason is None

    def _queue(self, work: FeedbackWork) -> str | None:
        """Queue a feedback; return the reason if it is refused."""
        done = work.request.done
        if done is None or done.done():
            return self._evaluator.reserve(work.size) or self._evaluator.put(work, work.size)
        if len(self._waiting) >= self._most_waiting:
            return "queue_full"
        self._waiting.add(work)
        done.add_done_callback(lambda _: self._resume(work))
        return None

    def _resume(self, work: FeedbackWork) -> None:
        self._waiting.discard(work)
        if self._evaluator.put(work, work.size, reserved=False) is not None:
            self.end(work)

    async def process(self, work: FeedbackWork) -> None:
        """Deliver a feedback, and evaluate the metrics that it asks for."""
        request = work.request
        sample = self._sample(request)
        feedback = replace(
            work.feedback,
            sample_id=None if sample is None else sample.sample_id,
            trace_id=request.trace_id,
            span_id=request.span_id,
        )
        self._delivery.put_feedback(feedback)
        work.delivered = True
        if sample is None or request.decision is None:
            return
        with self._processor.call_context():
            asked = self._selection.asked_by(feedback, sample, request.decision, request.evaluated)
            if asked is not None:
                await self._evaluate(request, request.decision, asked)

    def end(self, work: FeedbackWork) -> None:
        """Count a feedback as lost if no sink was called with it, whatever ended it."""
        if not work.delivered:
            self._incidents.count("feedback: lost")
        self._stats.end_feedback(work)

    def _sample(self, request: RecentRequest) -> Sample | None:
        """Return the request's sample, identical for each feedback; None if only ids are kept."""
        if request.build is None:
            return None
        try:
            sample = self._processor.with_equal_reference(request.build())
        except Exception as error:  # noqa: BLE001 - the host's edge: it reads the host's objects
            self._incidents.report("feedback", error)
            self._memory.strip(request)
            return None
        self._memory.update(request, sample, ())
        self._memory.identify(request, id_of(sample.sample_id))
        return sample

    async def _evaluate(
        self, request: RecentRequest, decision: Decision, asked: AskedMetrics
    ) -> None:
        fed = self._selection.fed(asked)
        if not fed:
            return
        work = Request(key=next(iter(request.ids), ""), build=lambda: asked.sample)
        work.by_feedback = True
        admitted = self._processor.admit(decision)
        if admitted is None:
            self._observers.settle(work, Ending.dropped(RATE_LIMIT))
            return
        self._observers.accepted(work)
        # Claimed before the first wait: another feedback must not ask for the same. A metric that
        # lacks a reference is not claimed, because a later feedback may bring one.
        request.evaluated |= fed
        try:
            await self._observers.begun(work)
            self._stats.note("decisions", next(iter(asked.reasons.values())))
            evaluation = await self._score(asked, admitted.admission)
            self._memory.update(request, asked.sample, answered(evaluation.outcomes))
            await self._processor.publish(work, evaluation)
        finally:
            # Not settled by now means cancelled.
            self._observers.settle(work, Ending.dropped("shutdown"))

    async def _score(self, asked: AskedMetrics, admission: float | None) -> Evaluation:
        start, began = time.time_ns(), time.monotonic_ns()
        scored = await self._processor.score(asked.sample, frozenset(asked.reasons))
        chosen = {name: outcome for name, outcome in scored.items() if name in asked.reasons}
        outcomes = by_feedback(chosen, asked, admission)
        drawn = [one.probability for one in outcomes.values() if one.probability is not None]
        return self._telemetry.evaluated(
            asked.sample,
            outcomes,
            probability=max(drawn, default=None),
            reason=next((one.reason for one in outcomes.values()), ""),
            start=start,
            end=start + time.monotonic_ns() - began,
        )
