"""The steps of an accepted request: store, evaluate, deliver and report the outcome."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Container
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from rag_eval_hooks.calls import Call, call_log
from rag_eval_hooks.decision import Decision, highest
from rag_eval_hooks.delivery.codec import is_redacted_differently, sample_of, sample_to_text
from rag_eval_hooks.delivery.outbox import PATIENCE_S
from rag_eval_hooks.delivery.outbox_file import EVALUATE, Job
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.explanation import OutcomeTable
from rag_eval_hooks.judges.calls.call_context import CallContext, in_call_context
from rag_eval_hooks.own_requests import suppressed
from rag_eval_hooks.request import BROKER_DOWN, Column, Ending, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.runtime.build import Parts
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.selection import by_rates
from rag_eval_hooks.score import Cause, Outcomes

if TYPE_CHECKING:
    from rag_eval_hooks.runtime.pipeline import Pipeline

_MOST_TRIES: Final = 10  # number of crashed processes after which a sample is dropped


class Processor:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline, self._parts = pipeline, pipeline.parts
        self._outbox, self._remote = pipeline.outbox, pipeline.remote
        self.recovered = 0

    def accept(self, request: Request) -> None:
        decision, mark = request.decision, self._parts.redactor.mark
        request.accepted = True
        if request.is_recovered:
            self.recovered += not request.entry.is_left
            request.entry.is_left = False
        elif self._outbox.is_durable and decision is not None and not request.by_feedback:

            def encode() -> str:
                return sample_to_text(request.sample(), decision, mark)

            request.entry = Job({EVALUATE}, encode, request.accepted_at)
            self._outbox.put(request.entry)
        self._pipeline.tell("accepted", request)

    async def process(self, request: Request) -> None:
        if request.ending is not None:
            # A signal handler has already cancelled the submission.
            return
        try:
            with suppressed(self._parts.incidents):
                ending = await self._ending_of(request)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a metric may even call `sys.exit`
            self._parts.incidents.report("evaluation", error)
            ending = Ending(Column.FAILED, Cause.METRIC_FAILED.value)
        self._pipeline.settle(request, ending)

    def end(self, request: Request, _: object = None) -> None:
        if request.ending is None:
            ending = Ending.dropped("shutdown")
            if request.entry is not None and request.entry.is_stored:
                ending = Ending.dropped("spooled")
            elif request.is_shipped:
                ending = Ending(Column.SHIPPED)
            else:
                advice = "Increase exit_timeout or the timeout of shutdown(), or set spool"
                self._parts.incidents.count("shutdown dropped requests", detail=advice)
            self._pipeline.settle(request, ending)

    def recover(self, job: Job) -> bool:
        """Queue a sample that a dead process left. If the queue is full, return False."""
        redactor, refusal = self._parts.redactor, "gave_up" if job.tries >= _MOST_TRIES else ""
        request = Request(key="", build=None)
        try:
            data = json.loads(job.encode())
            stored, decision = sample_of(data)
            is_outdated = is_redacted_differently(redactor, data)
            request = Request.of(stored, lambda: redactor.again(stored) if is_outdated else stored)
            # Metrics that the stored decision lacks get the decision's highest rate.
            ids, others = self._parts.scorer.metric_ids, highest(decision.shares)
            request.decision = decision.limited_to(ids, others)
        except Exception as error:  # noqa: BLE001 - another program may have changed the file
            self._parts.incidents.report("spool", error)
            refusal = "unreadable"
        request.entry, request.accepted_at = job, job.accepted
        request.is_recovered, request.is_counted = True, job.is_left
        if refusal:
            self.accept(request)
            self._pipeline.settle(request, Ending.dropped(refusal))
            return True
        ending = self._pipeline.queue(request)
        if ending is not None and request.accepted:
            job.is_left = True
            self._pipeline.settle(request, Ending.dropped("spooled"))
        return ending is None

    async def _ending_of(self, request: Request) -> Ending:
        if request.is_recovered and self._remote is None:
            # Count the attempt first, because the evaluation may crash this process.
            request.entry.tries += 1
            await self._within_patience(self._outbox.put(request.entry))
        try:
            sample = request.judged_sample()
        except Exception as error:  # noqa: BLE001 - it reads the application's objects
            origin = "redaction" if isinstance(error, RedactionError) else "capture"
            self._parts.incidents.report(origin, error)
            return Ending.dropped(f"{origin}_failed")
        assert request.decision is not None
        selection = self._parts.selection
        if not request.is_final and selection.is_open(request):
            decision = await selection.decide_after_sample(sample, request.decision)
            if (refused := self._pipeline.admit(request, decision)) is not None:
                return refused
        # Evaluate feedback's metrics here, because Celery workers do not.
        is_local = self._remote is None or request.by_feedback
        evaluate = self._evaluated if is_local else self._shipped
        evaluation = await evaluate(request, sample, request.decision)
        if isinstance(evaluation, Ending):
            return evaluation
        # A Celery worker's result must also reach this process's held span and sinks.
        return await self._passed_on(request, self._parts.telemetry.judged(evaluation))

    async def _passed_on(self, request: Request, evaluation: Evaluation) -> Ending:
        ending, delivery, job = Ending.of(evaluation), self._pipeline.delivery, None
        if self._outbox.is_durable:
            sinks, encode = delivery.sinks_of(evaluation), delivery.encoder(evaluation)
            job = request.entry or Job(set(), encode, request.accepted_at)
            # Store the results before sinks receive them.
            stored = self._outbox.end(job, EVALUATE, sinks, encode)
            if not await self._within_patience(stored):
                # Another process has claimed the sample and delivers its results.
                return Ending.dropped("spooled")
            # `FeedbackDesk` keeps the request for an hour, so drop the result here.
            request.entry = None
        self._pipeline.tell("evaluated", request, evaluation)
        delivery.put(evaluation, job)
        return ending

    async def _within_patience(self, written: Future[bool]) -> bool:
        if self._outbox.is_stalled:
            return True
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await asyncio.wrap_future(written)
        except TimeoutError as error:
            self._outbox.is_stalled = True
            self._parts.incidents.report("spool", error)
            return True

    async def _shipped(
        self, request: Request, sample: Sample, decision: Decision
    ) -> Evaluation | Ending:
        assert self._remote is not None
        request.is_shipped = True
        blank = _evaluation(sample, decision, start=time.time_ns())
        result: Evaluation | Ending = await self._remote.evaluate(
            blank, decision, request.accepted_at
        )
        if isinstance(result, Ending) and result.reason == BROKER_DOWN and request.entry:
            request.entry.is_left = True
            if self._outbox.leave(request.entry, EVALUATE):
                return Ending.dropped("spooled")
        return result

    async def _evaluated(self, _: Request, sample: Sample, decision: Decision) -> Evaluation:
        start, began, log = time.time_ns(), time.monotonic_ns(), call_log()
        with _judge_calls(self._parts, log if self._parts.config.trace_judge else None):
            scored = await self._parts.scorer.score(sample, decision.chosen)
            self._parts.telemetry.used(sample, scored)
        # Not the wall clock, because the system may adjust it during the evaluation.
        end = start + time.monotonic_ns() - began
        outcomes = OutcomeTable(by_rates(scored, decision))
        about: dict[str, Any] = {"outcomes": outcomes, "start": start, "end": end, "log": log}
        return _evaluation(sample, decision, **about)


def _evaluation(sample: Sample, decision: Decision, **known: Any) -> Evaluation:
    by = {"probability": decision.probability or None, "reason": decision.reason}
    return Evaluation(**{"sample": sample, "outcomes": {}, **by, **known})


def _judge_calls(
    parts: Parts, log: deque[Call] | None = None
) -> AbstractContextManager[CallContext]:
    return in_call_context(budget=parts.budget, observer=parts.telemetry.calls, log=log)


async def evaluate_inline(parts: Parts, sample: Sample, chosen: Container[str] | None) -> Outcomes:
    """Evaluate the chosen metrics. None means all metrics."""
    with suppressed(parts.incidents), _judge_calls(parts):
        # Metrics that the caller named must report missing inputs.
        named = chosen is not None
        outcomes = await parts.scorer.score(sample, chosen, whole=named)
        parts.telemetry.used(sample, outcomes)
    kept = {name: one for name, one in outcomes.items() if chosen is None or name in chosen}
    return OutcomeTable(kept)
