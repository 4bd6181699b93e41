"""The steps of an accepted request: store, evaluate, deliver and report the outcome."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Container, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from rag_eval_hooks.calls import CallLog
from rag_eval_hooks.decision import RATE_LIMIT, Decision, highest
from rag_eval_hooks.delivery.codec import is_redacted_differently, sample_of, sample_to_text
from rag_eval_hooks.delivery.outbox import PATIENCE_S
from rag_eval_hooks.delivery.outbox_file import EVALUATE, Job
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.explanation import OutcomeTable
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import BROKER_DOWN, Column, Ending, Observer, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.runtime.build import Parts
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.rate_limit import RateLimit
from rag_eval_hooks.sampling.selection import by_rates
from rag_eval_hooks.score import Cause, Outcomes
from rag_eval_hooks.suppress import suppressed

if TYPE_CHECKING:
    from rag_eval_hooks.runtime.pipeline import Pipeline

_MOST_TRIES: Final = 10  # number of crashed processes after which a sample is dropped


class Observers:
    """Calls all observers of a request, in order. Thread-safe."""

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        self._settling = threading.Lock()
        self.all: Sequence[Observer] = ()

    def settle(self, request: Request, ending: Ending) -> None:
        with self._settling:
            if request.ending is not None:
                return
            request.ending = ending
        try:
            self.tell("settled", request, ending)
        except BaseException:
            # A signal handler raised during the calls. Repeat them, which observers allow.
            self.tell("settled", request, ending)
            raise

    def tell(
        self, moment: Literal["accepted", "begun", "evaluated", "settled"], *arguments: object
    ) -> None:
        unused = getattr(Observer, moment)
        for observer in self.all:
            if getattr(type(observer), moment) is unused:
                continue
            try:
                getattr(observer, moment)(*arguments)
            except Exception as error:  # noqa: BLE001 - a later observer must see the request
                self._incidents.report("observer", error)


class Processor(Observer):
    def __init__(self, pipeline: Pipeline) -> None:
        self.recovered = 0
        self._pipeline, self._parts = pipeline, pipeline.parts
        self._outbox, self._observers = pipeline.outbox, pipeline.observers
        self._limit = RateLimit(pipeline.parts.config.rate_limit)

    def admit(self, request: Request, decision: Decision) -> Ending | None:
        """Return None if sampling and rate limit admit the request, or else its ending."""
        request.decision = decision
        self._pipeline.books.note("decisions", decision.reason)
        if not decision.sampled:
            chance = decision.probability
            return Ending(Column.SAMPLED_OUT, decision.because, probability=chance)
        if self._limit.active:
            if (share := self._limit.admit()) is None:
                self._pipeline.books.note("decisions", RATE_LIMIT)
                return Ending.dropped(RATE_LIMIT)
            request.decision = decision.admitted(share)
        return None

    def accepted(self, request: Request) -> None:
        decision = request.decision
        if request.is_recovered:
            self.recovered += not request.entry.is_left
            request.entry.is_left = False
        elif self._outbox.is_durable and decision is not None and not request.by_feedback:
            mark = self._parts.redactor.mark

            def encode() -> str:
                return sample_to_text(request.sample(), decision, mark)

            request.entry = Job({EVALUATE}, encode, request.accepted_at)
            self._outbox.put(request.entry)

    def evaluated(self, request: Request, evaluation: Evaluation) -> None:
        self._pipeline.delivery.put(request.entry, evaluation)

    def settled(self, request: Request, ending: Ending) -> None:
        entry = request.entry
        if entry is not None and EVALUATE in entry.consumers and not ending.is_left:
            self._outbox.end(entry, EVALUATE, ending.entry)

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
        self._observers.settle(request, ending)

    def end(self, request: Request) -> None:
        if request.ending is None:
            ending = Ending.dropped("shutdown")
            if request.entry is not None and request.entry.is_stored:
                ending = Ending.dropped("spooled")
            elif request.is_shipped:
                ending = Ending(Column.SHIPPED)
            else:
                advice = "Raise exit_timeout or the timeout of shutdown(), or set spool"
                self._parts.incidents.count("shutdown dropped requests", detail=advice)
            self._observers.settle(request, ending)

    async def evaluate_asked(
        self, ended: Request, sample: Sample, decision: Decision
    ) -> Evaluation | None:
        """Evaluate metrics for feedback, as a new request.

        Return None if the new request is rejected.
        """
        request = Request(key=next(iter(ended.ids), ""), build=lambda: sample, decision=decision)
        request.is_final = request.by_feedback = True
        if (refused := self.admit(request, decision)) is not None:
            self._observers.settle(request, refused)
            return None
        request.accepted = True
        self._observers.tell("accepted", request)
        try:
            await self.process(request)
        finally:
            self.end(request)
        return None if request.ending is None else request.ending.evaluation

    def recover(self, job: Job) -> bool:
        """Queue a sample of a dead process. If the queue is full, return False."""
        redactor, refusal = self._parts.redactor, "gave_up" if job.tries >= _MOST_TRIES else ""
        request = Request(key="", build=None)
        try:
            data = json.loads(job.encode())
            stored, decision = sample_of(data)
            is_outdated = is_redacted_differently(redactor, data)
            request = Request.of(stored, lambda: redactor.again(stored) if is_outdated else stored)
            # The decision may lack metrics of a newer version. For these metrics, use the highest
            # rate of the decision.
            ids, others = self._parts.scorer.metric_ids, highest(decision.shares)
            request.decision = decision.limited_to(ids, others)
        except Exception as error:  # noqa: BLE001 - another program may have changed the file
            self._parts.incidents.report("spool", error)
            refusal = "unreadable"
        request.entry, request.accepted_at = job, job.accepted
        request.is_recovered, request.is_counted = True, job.is_left
        if not refusal:
            return self._pipeline.resume(request)
        self._observers.tell("accepted", request)
        self._observers.settle(request, Ending.dropped(refusal))
        return True

    async def _ending_of(self, request: Request) -> Ending:
        if request.is_recovered and self._pipeline.remote is None:
            # Count the attempt first, because the evaluation may crash this process.
            await self._within_patience(self._outbox.begin(request.entry))
        try:
            sample = self._parts.referenced(request.judged_sample())
        except Exception as error:  # noqa: BLE001 - it reads the application's objects
            origin = "redaction" if isinstance(error, RedactionError) else "capture"
            self._parts.incidents.report(origin, error)
            return Ending.dropped(f"{origin}_failed")
        self._observers.tell("begun", request)
        assert request.decision is not None
        selection = self._parts.selection
        if not request.is_final and selection.is_open(request):
            decision = await selection.decide_after_sample(sample, request.decision)
            if (refused := self.admit(request, decision)) is not None:
                return refused
        evaluation = await self._evaluation_of(request, sample, request.decision)
        if isinstance(evaluation, Ending):
            return evaluation
        ending, delivery = Ending.of(evaluation), self._pipeline.delivery
        sinks, encode = delivery.sinks_of(evaluation), delivery.encoder(evaluation)
        job = request.entry = request.entry or Job(set(), encode, request.accepted_at)
        count = "" if request.by_feedback else ending.entry
        # Store the results before sinks receive them.
        if not await self._within_patience(self._outbox.end(job, EVALUATE, count, sinks, encode)):
            # Another process has claimed the sample and delivers its results.
            return Ending.dropped("spooled")
        self._observers.tell("evaluated", request, evaluation)
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

    async def _evaluation_of(
        self, request: Request, sample: Sample, decision: Decision
    ) -> Evaluation | Ending:
        blank = Evaluation(
            sample=sample,
            outcomes={},
            probability=decision.probability or None,
            reason=decision.reason,
            start=time.time_ns(),
            end=0,
        )
        # Evaluate feedback's metrics here, because Celery workers do not.
        if self._pipeline.remote is None or request.by_feedback:
            return self._parts.telemetry.judged(await self._filled(blank, decision))
        request.is_shipped = True
        result: Evaluation | Ending = await self._pipeline.remote.evaluate(
            blank, decision, request.accepted_at
        )
        if isinstance(result, Evaluation):
            # The held span and the sinks of this process also need the result.
            return self._parts.telemetry.judged(result)
        if result.reason == BROKER_DOWN and request.entry is not None:
            request.entry.is_left = True
            if self._outbox.leave(request.entry, EVALUATE):
                return Ending.dropped("spooled")
        return result

    async def _filled(self, blank: Evaluation, decision: Decision) -> Evaluation:
        began, log = time.monotonic_ns(), CallLog()
        with self._parts.call_context(log):
            scored = await _score(self._parts, blank.sample, decision.chosen)
        # Not the wall clock, because the system may adjust it during the evaluation.
        end = blank.start + time.monotonic_ns() - began
        return replace(blank, outcomes=OutcomeTable(by_rates(scored, decision)), end=end, log=log)


async def evaluate_inline(parts: Parts, sample: Sample, chosen: Container[str] | None) -> Outcomes:
    """Evaluate the chosen metrics. None means all metrics."""
    with suppressed(parts.incidents), parts.call_context():
        # If the caller named the metrics, they must report missing inputs.
        named = chosen is not None
        outcomes = await _score(parts, parts.referenced(sample), chosen, whole=named)
    kept = {name: one for name, one in outcomes.items() if chosen is None or name in chosen}
    return OutcomeTable(kept)


async def _score(
    parts: Parts, sample: Sample, chosen: Container[str] | None, *, whole: bool = False
) -> Outcomes:
    outcomes = await parts.scorer.score(sample, chosen, whole=whole)
    parts.telemetry.used(sample, outcomes)
    return outcomes
