"""Joins feedback with finished requests."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rag_eval_hooks.decision import RATE_LIMIT, Decision
from rag_eval_hooks.delivery.outbox_file import FEEDBACK, Job
from rag_eval_hooks.evaluation.worker import Work
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.memory import Memory
from rag_eval_hooks.own_requests import suppressed
from rag_eval_hooks.request import Column, Ending, Observer, Request, given_id
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.runtime.process import accept, end, process
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored

if TYPE_CHECKING:
    from rag_eval_hooks.runtime.pipeline import Pipeline

_UNREADABLE: Final = ("capture_failed", "redaction_failed")
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_CAPACITY: Final = 64
_PAUSE_S: Final = 1.0  # seconds until this process looks for feedback again
_PATIENCE_S: Final = 60.0  # seconds for which the request's process can claim the feedback
_MOST_WAITING: Final = 1000  # per minute, so that feedback for invalid ids cannot fill the spool


@dataclass(slots=True, eq=False)
class _Item:
    feedback: Feedback
    request: Request | None = None
    is_delivered: bool = False

    @property
    def size(self) -> int:
        return len(self.feedback.reference or "") + len(self.feedback.label or "")


class FeedbackDesk(Observer):
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline, self._parts = pipeline, pipeline.parts
        self._books, self._worker = pipeline.books, pipeline.worker
        self._outbox, self._delivery = pipeline.outbox, pipeline.delivery
        self._memory = Memory()
        self._lock = threading.Lock()
        # Feedback that waits for the end of its request.
        self._waiting: list[_Item] = []
        # Times at which feedback went to the spool in the last minute.
        self._passed_on: deque[float] = deque()
        self._look_at = 0.0
        self._outbox.consume(
            FEEDBACK, lambda: _CAPACITY if time.monotonic() >= self._look_at else 0, self._take
        )

    def give(self, name: object, given: Mapping[str, Any], refusal: str | None) -> bool:
        try:
            feedback = Feedback(
                score=given["score"],
                label=self._pipeline.assembler.label(given["label"]),
                reference=self._pipeline.assembler.reference(given["reference"]),
            )
            key = given_id(name)
            outcome = self._join(key, feedback, refusal) or refusal or self._pass_on(key, feedback)
        except BaseException as error:  # noqa: BLE001 - the application may pass any object
            self._books.note("feedback", "invalid")
            self._parts.incidents.report("feedback", error)
            return False
        self._books.note("feedback", outcome)
        if outcome == "shutdown":
            self._parts.incidents.mistake("feedback after shutdown", "Call shutdown() last")
        elif outcome in ("alone", "unknown"):
            advice = "Pass a trace id or sample id"
            self._parts.incidents.mistake("feedback for an unknown id", advice)
        return outcome in ("joined", "alone", "passed_on")

    def _join(self, key: str, feedback: Feedback, refusal: str | None = None) -> str | None:
        if (request := self._memory.find(key)) is None:
            return None
        return refusal or self._begin(_Item(feedback, request)) or "joined"

    def _begin(self, item: _Item) -> str | None:
        refusal: str | None = "cancelled"
        try:
            self._books.begin(item)
            refusal = self._queue(item)
        finally:
            if refusal is not None:
                self._books.end(item)
        return refusal

    def _queue(self, item: _Item) -> str | None:
        with self._lock:
            if item.request is not None and item.request.ending is None:
                if len(self._waiting) >= self._parts.config.queue_size:
                    return "queue_full"
                self._waiting.append(item)
                return None
        return self._worker.reserve(item.size) or self._worker.put(self._work(item))

    def _work(self, item: _Item) -> Work:
        return Work(partial(self._process, item), partial(self._end, item), item.size)

    def _pass_on(self, name: str, feedback: Feedback) -> str:
        if not name:
            return "unknown"
        now = time.monotonic()
        while self._passed_on and self._passed_on[0] < now - _PATIENCE_S:
            self._passed_on.popleft()
        if not self._outbox.is_durable or len(self._passed_on) >= _MOST_WAITING:
            return self._deliver_alone(name, feedback)
        self._passed_on.append(now)
        text = json.dumps({"name": name, "feedback": asdict(feedback)})
        # Any process may claim the job, because another process may know the request.
        self._outbox.put(Job({FEEDBACK}, lambda: text, left={FEEDBACK}))
        return "passed_on"

    def _deliver_alone(self, name: str, feedback: Feedback) -> str:
        trace_id, sample_id = (name, None) if _TRACE_ID.fullmatch(name) else (None, name)
        item = _Item(replace(feedback, trace_id=trace_id, sample_id=sample_id))
        return self._begin(item) or "alone"

    def _take(self, job: Job) -> bool:
        try:
            stored: dict[str, Any] = json.loads(job.encode())
            name, feedback = stored["name"], Feedback(**stored["feedback"])
        except (ValueError, KeyError, TypeError) as error:
            self._parts.incidents.report("spool", error)
        else:
            outcome = self._join(name, feedback)
            if outcome is None and time.time() - job.accepted >= _PATIENCE_S:
                outcome = self._deliver_alone(name, feedback)
            if outcome not in ("joined", "alone"):
                # Another process knows the request, or this process has no room now.
                self._look_at = time.monotonic() + _PAUSE_S
                return False
            self._books.note("feedback", outcome)
        self._outbox.end(job, FEEDBACK)
        return True

    def accepted(self, request: Request) -> None:
        if not request.by_feedback:
            self._memory.add(request)

    def evaluated(self, request: Request, evaluation: Evaluation) -> None:
        # Store the sample's id now, because a sink may call `feedback` with this id.
        if not request.by_feedback:
            self._remember(request, evaluation)

    def settled(self, request: Request, ending: Ending) -> None:
        if request.by_feedback:
            return
        decision, keeps_all = request.decision, self._parts.selection.has_feedback_rules
        left_out = ending.column is Column.SAMPLED_OUT or ending.reason == RATE_LIMIT
        has_text = decision is not None and ending.reason not in _UNREADABLE
        has_text = has_text and (keeps_all or not left_out)
        if not request.accepted:
            chosen = keeps_all or (decision is not None and decision.sampled)
            self._memory.add(request, with_text=has_text and chosen)
        elif not has_text or not self._memory.keeps_text(request):
            self._memory.strip(request)
        request.span = None
        if not request.is_final:
            # Drop the scores to save memory, because requests stay here for a long time.
            request.ending = replace(ending, evaluation=None)
        with self._lock:
            items = [one for one in self._waiting if one.request is request]
            for item in items:
                self._waiting.remove(item)
        for item in items:
            if self._worker.put(self._work(item), reserved=False) is not None:
                self._end(item)

    # The methods below run on the worker's thread.

    async def _process(self, item: _Item) -> None:
        try:
            with suppressed(self._parts.incidents):
                request, sample, feedback = item.request, None, item.feedback
                if request is not None:
                    sample = self._sample(request)
                    feedback = replace(
                        feedback,
                        sample_id=None if sample is None else sample.sample_id,
                        trace_id=request.trace_id,
                        span_id=request.span_id,
                    )
                self._delivery.put_feedback(feedback)
                item.is_delivered = True
                self._parts.telemetry.feedback(feedback)
                if request is not None and sample is not None:
                    await self._evaluate_asked(feedback, request, sample)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a metric may even call `sys.exit`
            self._parts.incidents.report("feedback", error)

    async def _evaluate_asked(self, feedback: Feedback, request: Request, sample: Sample) -> None:
        decision, ask = request.decision, self._parts.selection.asked_by
        asked = decision and ask(feedback, sample, decision, request.evaluated)
        if not asked:
            return
        with_reference, wanted, fed = asked
        # Update before the first await. Other feedback then does not evaluate these metrics again.
        request.evaluated |= fed
        ending = await self._run_as_request(request, with_reference, wanted)
        if ending is None or (evaluation := ending.evaluation) is None:
            request.evaluated -= fed
        else:
            self._remember(request, evaluation)

    async def _run_as_request(
        self, ended: Request, sample: Sample, decision: Decision
    ) -> Ending | None:
        request = Request(key=next(iter(ended.ids), ""), build=lambda: sample, decision=decision)
        request.is_final = request.by_feedback = True
        if (refused := self._pipeline.admit(request, decision)) is not None:
            self._pipeline.settle(request, refused)
            return request.ending
        accept(self._pipeline, request)
        try:
            await process(self._pipeline, request)
        finally:
            end(self._pipeline, request)
        return request.ending

    def _remember(self, request: Request, evaluation: Evaluation) -> None:
        unanswered = (Cause.MISSING_INPUT, Cause.SAMPLED_OUT)
        request.evaluated |= {
            name
            for name, outcome in evaluation.outcomes.items()
            if not (isinstance(outcome, NotScored) and outcome.cause in unanswered)
        }
        self._memory.update(request, evaluation.sample)

    def _end(self, item: _Item, _: object = None) -> None:
        if not item.is_delivered:
            self._parts.incidents.count("feedback is lost")
        self._books.end(item)

    def _sample(self, request: Request) -> Sample | None:
        if not self._memory.keeps_text(request):
            return None
        try:
            sample = request.judged_sample()
        except Exception as error:  # noqa: BLE001 - it reads the application's objects
            self._parts.incidents.report("feedback", error)
            self._memory.strip(request)
            return None
        self._memory.update(request, sample)
        return sample
