"""The pipeline of a request, from sampling to outcome."""

from __future__ import annotations

import threading
import time
from collections.abc import Container, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.books import Books, Stats
from rag_eval_hooks.capture import Assembler, OtherInstrumentors, Recorder, SpanWriter
from rag_eval_hooks.config import limits
from rag_eval_hooks.decision import RATE_LIMIT, AdmittedShare, Decision, RateLimit
from rag_eval_hooks.delivery.dispatch import Dispatch
from rag_eval_hooks.delivery.outbox import Outbox
from rag_eval_hooks.delivery.outbox_file import EVALUATE
from rag_eval_hooks.evaluation.worker import QUEUE_FULL, Work, Worker
from rag_eval_hooks.explanation import Explanation
from rag_eval_hooks.request import Column, Ending, HeldSpan, Observer, Request, given_id
from rag_eval_hooks.runtime.build import Parts
from rag_eval_hooks.runtime.feedback_desk import FeedbackDesk
from rag_eval_hooks.runtime.intake import Intake
from rag_eval_hooks.runtime.lifecycle import ExitHook
from rag_eval_hooks.runtime.process import accept, end, evaluate_inline, process, recover
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.telemetry.held_spans import OtherSpans
from rag_eval_hooks.threads import Loop, at_fork

_TICK_S: Final = 0.25
_ADVICE: Final = "The request is not evaluated. Call shutdown() only at the end of the process"


class Pipeline:
    """The implementation of `RagEval`. Thread-safe."""

    def __init__(self, parts: Parts) -> None:
        config, incidents = parts.config, parts.incidents
        self.parts = parts
        self.holder, self.is_closed, self.is_ready = parts.telemetry.holder, False, False
        golden = None if parts.references is None else parts.references.completed
        self.assembler = Assembler(config, parts.redactor, incidents, golden)
        spans = SpanWriter(parts.tracer_provider, config, incidents)
        self.intake = Intake(self, spans)
        self.others = OtherSpans(self._hold)
        self.instrumentors = OtherInstrumentors(config.spans, self.others, incidents)
        self.recorder = Recorder(
            self.intake.add,
            max_text_chars=self.assembler.text_chars,
            on_wait=self.watch,
            incidents=incidents,
        )
        self.recorder.span_content = config.capture_content
        if (leaves_out := parts.selection.leaves_out) and config.spans in ("sampled", "none"):
            self.recorder.decide_by(leaves_out, self.intake.add_left_out)
            self.intake.leaves_out = leaves_out
        self._inherited: list[object] = []
        self._building = threading.Lock()
        parts.telemetry.watch(self)
        at_fork(before=self._before_fork, in_child=self._after_fork)
        # Create the sinks now, so that a wrong setting raises at start-up.
        self.ready()
        self.outbox.recover()

    def ready(self) -> None:
        if not self.is_ready:
            with self._building:
                if not self.is_ready:
                    self._build()
                    self.is_ready = True

    def _build(self) -> None:
        parts, config, incidents = self.parts, self.parts.config, self.parts.incidents
        self._queued, self._limit = AdmittedShare(), RateLimit(config.rate_limit)
        self._settling = threading.Lock()
        self._exit = ExitHook(self, config.exit_timeout)
        self._is_stopped = False
        self._clock = Loop("rag-eval-hooks-clock", self._tick, partial(incidents.report, "clock"))
        self.books = Books(limits.EXPLAINED_REQUESTS)
        self.remote: Any = parts.fleet and parts.fleet(incidents, parts.redactor.mark)
        self.worker = Worker(
            on_close=parts.close,
            queue_size=config.queue_size,
            queue_chars=limits.QUEUE_CHARS,
            concurrency=limits.SHIPPED_SAMPLES if self.remote else config.judge_concurrency,
            incidents=incidents,
        )
        path = Path(config.spool) if config.spool else None
        self.outbox = Outbox(path, max_bytes=limits.SPOOL_BYTES, incidents=incidents)
        self.delivery = Dispatch(
            parts.sinks,
            config,
            incidents,
            self.outbox,
            revive=parts.revive,
            mark=parts.redactor.mark,
            tracer_provider=parts.tracer_provider,
        )
        self.recovered = 0
        self.outbox.consume(EVALUATE, self._capacity, partial(recover, self))
        self._desk = FeedbackDesk(self)
        # `flush` waits for `books`, so `books` must come last.
        self._observers: tuple[Observer, ...] = (parts.telemetry, self._desk, self.books)
        if self.is_closed:
            self.close()
            self.stop()
            self.outbox.close(0)

    def _before_fork(self) -> None:
        # Otherwise, both processes would export the held spans.
        if self.is_ready:
            self.holder.release_all(EvalStatus.FORK)

    def _after_fork(self) -> None:
        if self.is_ready:
            self._exit.disarm()
            self._inherited.append(self.outbox)
        # Build on first use, because gevent may replace threads and locks after the fork.
        self.is_ready = False
        self._building = threading.Lock()
        parts = self.parts
        for part in (parts.incidents, parts.telemetry, self.recorder, self.others, self.intake):
            part.forked()

    def submit(self, request: Request) -> bool:
        """Queue a request without blocking. Return False if the request was not queued."""
        try:
            self.ready()
            ending = self._decide(request) or self.queue(request)
            if ending is not None:
                self.settle(request, ending)
            return ending is None
        except BaseException as error:  # noqa: BLE001 - a signal handler may raise
            self.settle(request, Ending.dropped("cancelled"))
            self.parts.incidents.report("submit", error)
            return False

    def _decide(self, request: Request) -> Ending | None:
        if request.is_final and request.decision is not None:
            request.decision = request.decision.limited_to(self.parts.scorer.metric_ids)
            return None
        selection = self.parts.selection
        if (decision := selection.decide(request)) is None:
            return Ending.dropped(request.status.value)
        request.decision = decision
        return None if selection.is_open(request) else self.admit(request, decision)

    def admit(self, request: Request, decision: Decision) -> Ending | None:
        request.decision = decision
        self.books.note("decisions", decision.reason)
        if not decision.sampled:
            reason, chance = decision.top.reason, decision.probability
            return Ending(Column.SAMPLED_OUT, reason, probability=chance)
        if self._limit.active:
            if (share := self._limit.admit()) is None:
                self.books.note("decisions", RATE_LIMIT)
                return Ending.dropped(RATE_LIMIT)
            request.decision = decision.admitted(share)
        return None

    def queue(self, request: Request) -> Ending | None:
        if refusal := self._refusal():
            if self.is_closed:
                self.parts.incidents.mistake("request after shutdown", _ADVICE)
            return Ending.dropped(refusal)
        reason = self.worker.reserve(request.size)
        if reason in (None, QUEUE_FULL) and not (request.is_recovered or request.is_final):
            share = self._queued.count(admitted=reason is None)
            if share is not None and share < 1.0 and request.decision is not None:
                request.decision = request.decision.admitted(share)
        if reason is None:
            try:
                accept(self, request)
            except BaseException:
                self.worker.release(request.size)
                raise
            work = Work(partial(process, self, request), partial(end, self, request), request.size)
            reason = self.worker.put(work)
        return None if reason is None else Ending.dropped(reason)

    def settle(self, request: Request, ending: Ending) -> None:
        with self._settling:
            if request.ending is not None:
                return
            request.ending = ending
        try:
            self._settle(request, ending)
        except BaseException:
            # A signal handler raised during the calls. Observers accept repeated calls.
            self._settle(request, ending)
            raise

    def _settle(self, request: Request, ending: Ending) -> None:
        job = request.entry
        if job is not None and EVALUATE in job.consumers and not ending.is_left:
            self.outbox.end(job, EVALUATE)
        self.tell("settled", request, ending)

    def tell(self, moment: str, *arguments: object) -> None:
        for observer in self._observers:
            try:
                getattr(observer, moment)(*arguments)
            except Exception as error:  # noqa: BLE001 - a later observer must see the request
                self.parts.incidents.report("observer", error)

    def refuse(self, reason: str, request: Request | None = None) -> None:
        self.ready()
        self.settle(request or Request(key="", build=None), Ending.dropped(reason))

    def watch(self) -> bool:
        self.ready()
        return self._refusal() is None

    def _refusal(self) -> str | None:
        if self.is_closed:
            return "shutdown"
        if not self._clock.is_running:
            self._exit.arm()
            return None if self.outbox.start() and self._clock.start() else "no_thread"
        return None

    def _hold(self, held: HeldSpan) -> None:
        self.watch()
        self.holder.hold(held)

    def _capacity(self) -> int:
        return 0 if self.remote and self.remote.is_down else self.worker.capacity()

    def drain(self) -> None:
        self.ready()
        self.recorder.sweep()
        self.intake.drain()

    def feedback(self, name: object, **given: Any) -> bool:
        self.drain()
        return self._desk.give(name, given, self._refusal())

    def evaluate(self, sample: Sample, chosen: Container[str] | None = None) -> Outcomes:
        self.ready()
        return self.worker.run(partial(evaluate_inline, self.parts, sample, chosen))

    async def aevaluate(self, sample: Sample, chosen: Container[str] | None = None) -> Outcomes:
        self.ready()
        return await self.worker.run_async(partial(evaluate_inline, self.parts, sample, chosen))

    def stats(self) -> Stats:
        self.drain()
        return replace(self.snapshot(), without_retrieval=self.recorder.ended.unretrieved)

    def snapshot(self) -> Stats:
        counts = self.parts.incidents.counts()
        return self.books.snapshot(counts, self.recovered, self.outbox.undurable)

    def spooled(self) -> Mapping[str, int]:
        self.drain()
        return self.outbox.counts()

    def explain(self, name: object) -> tuple[Explanation, ...]:
        self.drain()
        key = given_id(name)
        if found := self.books.explain(key):
            return found
        if not self.recorder.ended.explains(key):
            advice = "Pass a trace id or sample id of this process"
            self.parts.incidents.mistake("explain: the id is unknown", advice)
            return ()
        return (Explanation(key=key, outcome="not offered", reason="without_retrieval"),)

    def _tick(self) -> float | None:
        self.holder.release_all(EvalStatus.TIMEOUT, time.monotonic())
        self.delivery.check()
        self.worker.revive()
        self.recorder.sweep()
        self.intake.tick()
        self.recorder.join(at_once=self._clock.is_asked or not self._clock.is_running)
        self.intake.tick()
        return None if self._is_stopped else _TICK_S

    def tick(self, timeout: float) -> bool:
        if self._clock.is_running and not self._clock.is_current:
            return self._clock.ask(timeout)
        try:
            self._tick()
        except Exception as error:  # noqa: BLE001 - no caller would see the error
            self.parts.incidents.report("clock", error)
        return True

    def stop(self) -> None:
        self._is_stopped = True
        self._clock.wake()

    def close(self) -> None:
        self.is_closed = True
        self._exit.disarm()
        self.worker.close()
