"""The steps of an accepted request: store, evaluate, deliver and report the outcome."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Container
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rag_eval_hooks.calls import Call
from rag_eval_hooks.decision import Decision, highest
from rag_eval_hooks.delivery.codec import is_redacted_differently, sample_of, sample_to_text
from rag_eval_hooks.delivery.outbox_file import EVALUATE, Job
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.explanation import OutcomeTable
from rag_eval_hooks.judges.model_calls import in_call_context
from rag_eval_hooks.own_requests import suppressed
from rag_eval_hooks.request import BROKER_DOWN, Column, Ending, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.runtime.build import Parts
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.selection import with_sampling
from rag_eval_hooks.score import Cause, Outcomes

if TYPE_CHECKING:
    from rag_eval_hooks.runtime.pipeline import Pipeline

_MOST_CALLS: Final = 500  # judge calls in a trace
_MOST_TRIES: Final = 10  # number of crashed processes after which a sample is dropped


def accept(pipeline: Pipeline, request: Request) -> None:
    decision, mark = request.decision, pipeline.parts.redactor.mark
    request.accepted = True
    if request.is_recovered:
        pipeline.recovered += not request.entry.is_left
        request.entry.is_left = False
    elif pipeline.outbox.is_durable and decision is not None and not request.by_feedback:
        request.entry = Job(
            {EVALUATE},
            lambda: sample_to_text(request.sample(), decision, mark),
            request.accepted_at,
        )
        pipeline.outbox.put(request.entry)
    pipeline.tell("accepted", request)


async def process(pipeline: Pipeline, request: Request) -> None:
    if request.ending is not None:
        # A signal handler has already cancelled the submission.
        return
    try:
        with suppressed(pipeline.parts.incidents):
            ending = await _ending_of(pipeline, request)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - a metric may even call `sys.exit`
        pipeline.parts.incidents.report("evaluation", error)
        ending = Ending(Column.FAILED, Cause.METRIC_FAILED.value)
    pipeline.settle(request, ending)


def end(pipeline: Pipeline, request: Request, _: object = None) -> None:
    if request.ending is None:
        ending = Ending.dropped("shutdown")
        if request.entry is not None and request.entry.is_stored:
            ending = Ending.dropped("spooled")
        elif request.is_shipped:
            ending = Ending(Column.SHIPPED)
        else:
            advice = "Increase exit_timeout or the timeout of shutdown(), or set spool"
            pipeline.parts.incidents.count("shutdown dropped requests", detail=advice)
        pipeline.settle(request, ending)


def recover(pipeline: Pipeline, job: Job) -> bool:
    parts, refusal = pipeline.parts, "gave_up" if job.tries >= _MOST_TRIES else ""
    request = Request(key="", build=None)
    try:
        data = json.loads(job.encode())
        stored, decision = sample_of(data)
        is_outdated = is_redacted_differently(parts.redactor, data)
        request = Request.of(stored, partial(parts.redactor.again, stored) if is_outdated else None)
        # Metrics that the stored decision lacks get the decision's highest rate.
        ids, others = parts.scorer.metric_ids, highest(decision.shares)
        request.decision = decision.limited_to(ids, others)
    except Exception as error:  # noqa: BLE001 - another program may have changed the file
        parts.incidents.report("spool", error)
        refusal = "unreadable"
    request.entry, request.accepted_at = job, job.accepted
    request.is_recovered, request.is_counted = True, job.is_left
    if refusal:
        accept(pipeline, request)
        pipeline.settle(request, Ending.dropped(refusal))
        return True
    ending = pipeline.queue(request)
    if ending is not None and request.accepted:
        job.is_left = True
        pipeline.settle(request, Ending.dropped("spooled"))
    return ending is None


async def _ending_of(pipeline: Pipeline, request: Request) -> Ending:
    parts = pipeline.parts
    if request.is_recovered and pipeline.remote is None:
        # Count the attempt first, because the evaluation may crash this process.
        request.entry.tries += 1
        await pipeline.outbox.within_patience(pipeline.outbox.put(request.entry))
    try:
        sample = request.judged_sample()
    except Exception as error:  # noqa: BLE001 - it reads the application's objects
        origin = "redaction" if isinstance(error, RedactionError) else "capture"
        parts.incidents.report(origin, error)
        return Ending.dropped(f"{origin}_failed")
    assert request.decision is not None
    if not request.is_final and parts.selection.is_open(request):
        decision = await parts.selection.decide_after_sample(sample, request.decision)
        if (refused := pipeline.admit(request, decision)) is not None:
            return refused
    # Evaluate feedback's metrics here, because Celery workers do not.
    is_local, decision = pipeline.remote is None or request.by_feedback, request.decision
    evaluate = _evaluated if is_local else _shipped
    result = await evaluate(pipeline, request, sample, decision)
    if isinstance(result, Ending):
        return result
    chance = decision.probability or None
    evaluation = Evaluation(sample=sample, probability=chance, reason=decision.reason, **result)
    # A Celery worker's result must also reach this process's held span and sinks.
    return await _passed_on(pipeline, request, parts.telemetry.judged(evaluation))


async def _passed_on(pipeline: Pipeline, request: Request, evaluation: Evaluation) -> Ending:
    ending, delivery, job = Ending.of(evaluation), pipeline.delivery, None
    sinks = delivery.sinks_of(evaluation)
    if pipeline.outbox.is_durable:
        encode = delivery.encoder(evaluation)
        job = request.entry or Job(set(), encode, request.accepted_at)
        # Store the results before sinks receive them.
        stored = pipeline.outbox.end(job, EVALUATE, sinks, encode)
        if not await pipeline.outbox.within_patience(stored):
            # Another process has claimed the sample and delivers its results.
            return Ending.dropped("spooled")
        # `FeedbackDesk` keeps the request for an hour, so drop the result here.
        request.entry = None
    pipeline.tell("evaluated", request, evaluation)
    delivery.put(evaluation, sinks, job)
    return ending


async def _shipped(
    pipeline: Pipeline, request: Request, sample: Sample, decision: Decision
) -> dict[str, Any] | Ending:
    request.is_shipped = True
    result: dict[str, Any] | Ending
    result = await pipeline.remote.evaluate(sample, decision, request.accepted_at)
    if isinstance(result, Ending) and result.reason == BROKER_DOWN and request.entry:
        request.entry.is_left = True
        if pipeline.outbox.leave(request.entry, EVALUATE):
            return Ending.dropped("spooled")
    return result


async def _evaluated(
    pipeline: Pipeline, _: Request, sample: Sample, decision: Decision
) -> dict[str, Any]:
    parts, log = pipeline.parts, deque[Call](maxlen=_MOST_CALLS)
    start, began = time.time_ns(), time.monotonic_ns()
    calls = log if parts.config.trace_judge else None
    with in_call_context(budget=parts.budget, observer=parts.telemetry.calls, log=calls):
        scored = await parts.scorer.score(sample, decision.chosen)
        parts.telemetry.used(sample, scored)
    # Not the wall clock, because the system may adjust it during the evaluation.
    end = start + time.monotonic_ns() - began
    outcomes = OutcomeTable(with_sampling(scored, decision))
    return {"outcomes": outcomes, "start": start, "end": end, "log": log}


async def evaluate_inline(parts: Parts, sample: Sample, chosen: Container[str] | None) -> Outcomes:
    context = in_call_context(budget=parts.budget, observer=parts.telemetry.calls, log=None)
    with suppressed(parts.incidents), context:
        # Metrics that the caller named must report missing inputs.
        outcomes = await parts.scorer.score(sample, chosen, whole=chosen is not None)
        parts.telemetry.used(sample, outcomes)
    kept = {name: one for name, one in outcomes.items() if chosen is None or name in chosen}
    return OutcomeTable(kept)
