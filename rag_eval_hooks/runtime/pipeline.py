"""Pipeline of requests: decide, queue, evaluate, settle."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Container, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from rag_eval_hooks import semconv
from rag_eval_hooks.books import Books, Stats
from rag_eval_hooks.capture import Assembler, OtherInstrumentors, Recorder, SpanWriter
from rag_eval_hooks.config import limits
from rag_eval_hooks.evaluation.worker import QUEUE_FULL, Handler, Worker
from rag_eval_hooks.explanation import Explanation
from rag_eval_hooks.feedback import Feedback, id_of
from rag_eval_hooks.request import Ending, HeldSpan, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.runtime.build import Parts
from rag_eval_hooks.runtime.feedback import FeedbackDesk
from rag_eval_hooks.runtime.intake import Intake
from rag_eval_hooks.runtime.lifecycle import Clock, ExitHook
from rag_eval_hooks.runtime.observers import Observers, SpansAndTelemetry
from rag_eval_hooks.runtime.process import Processor, evaluate_inline
from rag_eval_hooks.runtime.spooled import Spooled
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.rate_limit import AdmittedShare
from rag_eval_hooks.sampling.selection import AskedMetrics
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.telemetry.other_span import OtherSpans
from rag_eval_hooks.telemetry.rag_span import SpanHolder
from rag_eval_hooks.telemetry.self_metrics import Gauge, Reading, readings
from rag_eval_hooks.threads import at_fork

__all__ = ["Pipeline"]

_POLL_S: Final = 0.25
_STOP_TIMEOUT: Final = 2.0
"""Seconds for cancelled work and for the closing of sinks and judges."""


class Pipeline:
    """Everything behind `RagEval`. Thread-safe.

    A forked child makes its own locks and queues at the first use, because gevent may replace them
    between the fork and the first request. Threads start at the first use in any process.

    Args:
        parts: Decide, evaluate, publish.

    Attributes:
        assembler: Builds samples and redacts them.
        recorder: Records the runs of frameworks.
        others: Spans of other instrumentors.
        instrumentors: Registry of other instrumentors.
        is_closed: True after `shutdown`, in children that are forked later, too.
    """

    def __init__(self, parts: Parts) -> None:
        config, incidents = parts.config, parts.incidents
        self.parts = parts
        self.is_closed = False
        self.assembler = Assembler(
            config,
            parts.redactor,
            incidents,
            None if parts.references is None else parts.references.before_redaction,
        )
        spans = SpanWriter(
            parts.tracer_provider,
            mode=config.spans,
            capture_content=config.capture_content,
            content_max_length=limits.CONTENT_CHARS,
            incidents=incidents,
        )
        self._intake = Intake(self, self.assembler, spans, incidents)
        self.others = OtherSpans(most=limits.HELD_SPANS, hold=self._hold)
        self.instrumentors = OtherInstrumentors(config.spans, self.others, incidents)
        self.recorder = Recorder(
            self._intake.add,
            ttl=limits.INTERACTION_SECONDS,
            max_open=limits.OPEN_INTERACTIONS,
            max_chars=limits.INTERACTION_CHARS,
            max_text_chars=self.assembler.text_chars,
            on_wait=self.watch,
            incidents=incidents,
        )
        self.recorder.span_content = config.capture_content
        leaves_out = parts.selection.leaves_out
        if leaves_out is not None and config.spans in ("sampled", "none"):
            self.recorder.left_out.decide_by(leaves_out, self._intake.add_left_out)
            self._intake.leaves_out = leaves_out
        self._is_ready = False
        self._inherited: list[object] = []
        self._building = threading.Lock()
        parts.telemetry.watch(self._read_state)
        at_fork(before=self._before_fork, in_child=self._after_fork)
        # At once, because a sink may turn out to be a wrong setting.
        self._ready()
        self._spooled.look_back()

    def _ready(self) -> None:
        """Build what belongs to this process, once."""
        if self._is_ready:
            return
        with self._building:
            if not self._is_ready:
                self._build()
                self._is_ready = True

    def _build(self) -> None:
        parts, config = self.parts, self.parts.config
        self._books = Books(limits.EXPLAINED_TRACES)
        self._queued = AdmittedShare()
        self._exit = ExitHook(self, config.exit_timeout)
        self._clock = Clock(self._tick, parts.incidents)
        self._holder = SpanHolder(
            hold_timeout=config.hold_timeout, max_held=limits.HELD_SPANS, incidents=parts.incidents
        )
        fleet, mark = parts.fleet, parts.redactor.mark
        self._remote = None if fleet is None else fleet.publisher(parts.incidents, mark)
        self._worker = Worker(
            on_close=parts.close,
            queue_size=config.queue_size,
            queue_chars=limits.QUEUE_CHARS,
            concurrency=limits.SHIPPED_SAMPLES if self._remote else config.judge_concurrency,
            incidents=parts.incidents,
        )
        self._spooled = Spooled(
            parts, capacity=self._capacity, resume=self._resume, settle=self._settle
        )
        self._delivery = self._spooled.delivery
        self._desk = FeedbackDesk(
            parts, self._delivery, self._books, self._worker, self._evaluate_asked
        )
        spans = SpansAndTelemetry(self._holder, parts.telemetry, hold=config.hold_timeout > 0)
        observers = (spans, self._desk, self._spooled, self._books)
        self._observers = Observers(observers, parts.incidents)
        self._processor = Processor(
            parts, self._observers, self._books, self._spooled, self._remote
        )
        self._requests = Handler(self._processor.process, self._processor.end)
        self._gauges: dict[str, Gauge] = {
            semconv.METRIC_OPEN_SIZE: lambda: self.recorder.opened()[0],
            semconv.METRIC_OPEN_CAPACITY: lambda: limits.OPEN_INTERACTIONS,
            semconv.METRIC_OPEN_TEXT: lambda: self.recorder.opened()[1],
            semconv.METRIC_QUEUE_SIZE: self._worker.__len__,
            semconv.METRIC_QUEUE_CAPACITY: lambda: config.queue_size,
            semconv.METRIC_QUEUE_TEXT: lambda: self._worker.waiting_chars,
            semconv.METRIC_HELD_SIZE: self._holder.__len__,
            semconv.METRIC_HELD_CAPACITY: lambda: limits.HELD_SPANS,
            **self._spooled.gauges(),
        }
        self._has_threads = False
        if self.is_closed:
            self._refuse_all()
            self._clock.stop()
            self._spooled.stop(0)

    # Forks

    def _before_fork(self) -> None:
        """End held spans: parent and child would export them both."""
        if self._is_ready:
            self._holder.release_all(EvalStatus.FORK)

    def _after_fork(self) -> None:
        """Leave threads, locks and requests to the parent, and build anew at the next use."""
        if self._is_ready:
            self._exit.disarm()
            self._inherited.append(self._spooled)
        self._is_ready = False
        self._building = threading.Lock()
        self.parts.forked()
        self.recorder.forked()
        self.others.forked()
        self._intake.forked()

    # Submission, in the request's thread or in that of the timer

    def offer(self, given: Any) -> bool:
        """Submit a sample of the application's; see `RagEval.offer`."""
        try:
            sample = Sample.of(given)
            request = Request.of(sample, lambda: self.assembler.own(sample))
        except BaseException as error:  # noqa: BLE001 - the host's edge: it may pass anything
            self.refuse("capture_failed")
            self.parts.incidents.report("offer", error)
            return False
        return self.submit(request)

    def submit(self, request: Request) -> bool:
        """Decide about a request and queue it. Never blocks.

        Returns:
            Whether it will be evaluated.
        """
        try:
            self._ready()
            ending = self._decide(request) or self._queue(request)
        except BaseException as error:  # noqa: BLE001 - the host's edge: a signal handler may raise
            self._observers.settle(request, Ending.dropped("cancelled"))
            self.parts.incidents.report("submit", error)
            return False
        if ending is not None:
            self._observers.settle(request, ending)
        return ending is None

    def _decide(self, request: Request) -> Ending | None:
        """Decide about a request; return its end if it is not to be evaluated."""
        selection = self.parts.selection
        decision = request.decision = selection.decide(request)
        if decision is None:
            return Ending.dropped(request.status.value)
        return None if selection.is_open(request) else self._processor.admit(request, decision)

    def _queue(self, request: Request) -> Ending | None:
        """Queue a request; return its end if it is refused."""
        size = request.size
        if not (self._has_threads or self._start_threads()):
            return Ending.dropped("shutdown" if self.is_closed else "no_thread")
        reason = self._worker.reserve(size)
        if reason in (None, QUEUE_FULL) and not request.is_recovered:
            share = self._queued.count(admitted=reason is None)
            if share is not None and share < 1.0 and request.decision is not None:
                request.decision = request.decision.admitted(share)
        if reason is None:
            try:
                self._observers.accepted(request)
            except BaseException:
                self._worker.release(size)
                raise
            reason = self._worker.put(self._requests, request, size)
        return None if reason is None else Ending.dropped(reason)

    def take(self, request: Request) -> bool:
        """Queue a request that another process decided about; see `RagEval.take`."""
        self._ready()
        if not (self._has_threads or self._start_threads()):
            return False
        assert request.decision is not None
        request.decision = request.decision.limited_to(self.parts.scorer.metric_ids)
        self._observers.accepted(request)
        # Its batch bounds how many there are.
        reason = self._worker.put(self._requests, request, request.size, reserved=False)
        if reason is not None:
            self._observers.settle(request, Ending.dropped(reason))
        return reason is None

    def refuse(self, reason: str, request: Request | None = None) -> None:
        """Count a request that is not decided, and end its span; None if it could not be read."""
        self._ready()
        self._observers.settle(request or Request(key="", build=None), Ending.dropped(reason))

    def watch(self) -> bool:
        """Start the timer; return False after `shutdown`, or if no thread can be started."""
        self._ready()
        return self._has_threads or self._start_threads()

    def _start_threads(self) -> bool:
        """Arm the exit hook and start the timer; return False if the system has no thread."""
        if self.is_closed:
            return False
        self._exit.arm()
        try:
            self._spooled.start()
        except RuntimeError:
            return False
        self._has_threads = self._clock.start()
        return self._has_threads

    def _hold(self, held: HeldSpan) -> None:
        """Hold a span of another instrumentor whose request may still be submitted."""
        self.watch()
        self._holder.hold(held)

    # Recovery, in the spool's thread

    def _capacity(self) -> int:
        """Return how many samples of the spool may wait: none while the broker is down."""
        is_down = self._remote is not None and self._remote.is_down
        return 0 if is_down else self._worker.capacity()

    def _resume(self, request: Request) -> bool:
        """Queue a recovered sample, decided as in the process that left it."""
        assert request.probability is not None
        request.decision = self.parts.selection.decided_before(
            request, request.probability, request.reason
        )
        ending = self._queue(request)
        if ending is not None and request.accepted:
            self._observers.settle(request, Ending.dropped("spooled"))
        return ending is None

    def _settle(self, request: Request, ending: Ending) -> None:
        self._observers.settle(request, ending)

    async def _evaluate_asked(self, ended: Request, asked: AskedMetrics) -> Evaluation | None:
        return await self._processor.evaluate_asked(ended, asked)

    # The public object's questions

    def drain(self) -> None:
        """Submit the requests that have ended so far."""
        self._ready()
        self.recorder.sweep()
        self._intake.drain()

    def feedback(
        self, name: object, *, score: float | None, label: str | None, reference: str | None
    ) -> bool:
        """Queue feedback on a request; see `RagEval.feedback`."""
        self._ready()
        try:
            given = Feedback(
                score=score,
                label=self.assembler.label(label),
                reference=self.assembler.reference(reference),
            )
            key = id_of(name)
        except BaseException as error:  # noqa: BLE001 - the host's edge: it may pass anything
            self._books.note("feedback", "invalid")
            self.parts.incidents.report("feedback", error)
            return False
        self.drain()
        return self._desk.join((key,), given, self._feedback_refusal)

    def _feedback_refusal(self) -> str | None:
        if self._has_threads or self._start_threads():
            return None
        return "shutdown" if self.is_closed else "no_thread"

    def evaluate(self, sample: Sample, chosen: Container[str] | None = None) -> Future[Outcomes]:
        """Return the outcomes of a sample, beside the queue: no sampling, no sinks, no counts."""
        self._ready()
        return self._worker.run(evaluate_inline(self.parts, sample, chosen))

    def stats(self) -> Stats:
        """Return the statistics of everything offered so far, as of one moment."""
        self.drain()
        return replace(self._snapshot(), without_retrieval=self.recorder.ended.unretrieved)

    def _snapshot(self) -> Stats:
        return self._books.snapshot(
            self.parts.incidents.counts(),
            recovered=self._spooled.recovered,
            undurable=self._spooled.undurable,
        )

    def spooled(self) -> Mapping[str, int]:
        """Return the counts of the spool, of all processes; empty if there is none to read."""
        self.drain()
        return self._spooled.books()

    def explain(self, name: object) -> tuple[Explanation, ...]:
        """Explain the samples of a trace, or a request without retrieved text."""
        self.drain()
        key = id_of(name)
        if found := self._books.explain(key):
            return found
        if not self.recorder.ended.explains(key):
            return ()
        return (Explanation(key=key, outcome="not offered", reason="without_retrieval"),)

    def _read_state(self, instrument: str) -> Iterable[Reading]:
        self._ready()
        return readings(instrument, self._snapshot, self._gauges)

    def _tick(self) -> None:
        self._holder.expire()
        self._delivery.check()
        self._worker.revive()
        self.recorder.sweep(at_once=self._clock.is_awaited)
        self._intake.tick()

    def flush(self, timeout: float | None) -> bool:
        """Wait for everything accepted so far; return False if `timeout` seconds are too few."""
        self._ready()
        deadline = None if timeout is None else time.monotonic() + timeout

        def left() -> float | None:
            return None if deadline is None else max(0.0, deadline - time.monotonic())

        written = self._clock.call(left())
        # The disk first: it takes milliseconds, and its samples outlive an expired timeout.
        self._spooled.drain(left())
        finished = self._books.wait(left()) and self._spooled.drain(left())
        finished = self._delivery.flush(left()) and finished
        return self._spooled.drain(left()) and finished and written

    def shutdown(self, timeout: float) -> bool:
        """Refuse new requests, finish what is pending within `timeout` seconds, and end.

        Requests that are not finished by then stay in the spool, or are dropped as `shutdown`;
        held spans end. Idempotent.

        Returns:
            Whether everything pending was finished.
        """
        self._ready()
        deadline = time.monotonic() + timeout
        self.recorder.close()
        self._clock.call(timeout)
        self.is_closed = True
        self._refuse_all()
        finished = self.flush(max(0.0, deadline - time.monotonic()))
        self._spooled.drain(_STOP_TIMEOUT)
        self._worker.stop(_STOP_TIMEOUT)
        self._delivery.close()
        if self._remote is not None:
            self._remote.close()
        self._spooled.stop(_STOP_TIMEOUT)
        self._clock.call(_STOP_TIMEOUT)
        self._clock.stop()
        self._holder.close()
        return finished

    def _refuse_all(self) -> None:
        self._exit.disarm()
        self._worker.close()

    def close_abandoned(self) -> None:
        """Finish and end in a thread of its own, once nobody can use the pipeline any more."""
        if not self._is_ready or self.is_closed:
            return
        # Until it is flushed, the end of the process still waits for it.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._finish, name="rag-eval-hooks-close", daemon=True).start()

    def _finish(self) -> None:
        while len(self.recorder):
            time.sleep(_POLL_S)
        self.flush(self.parts.config.exit_timeout)
        self.shutdown(0.0)
