"""Pipeline of requests: decide, queue, evaluate, settle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import Future

from rag_eval_hooks import semconv
from rag_eval_hooks.books import Books, Stats
from rag_eval_hooks.config import limits
from rag_eval_hooks.decision import RATE_LIMIT
from rag_eval_hooks.evaluation.worker import QUEUE_FULL, Evaluator
from rag_eval_hooks.explanation import Explanation
from rag_eval_hooks.feedback import Feedback, id_of
from rag_eval_hooks.pipeline.feedback_memory import FeedbackMemory
from rag_eval_hooks.pipeline.feedback_processor import FeedbackProcessor, FeedbackWork
from rag_eval_hooks.pipeline.lifecycle import Clock, ExitHook
from rag_eval_hooks.pipeline.observers import Observers, SpansAndTelemetry
from rag_eval_hooks.pipeline.processor import Processor
from rag_eval_hooks.pipeline.shipping import shipper_of
from rag_eval_hooks.pipeline.spooled import Spooled
from rag_eval_hooks.pipeline.wiring import Parts
from rag_eval_hooks.request import Ending, HeldSpan, Request
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.rate_limit import AdmittedShare
from rag_eval_hooks.score import Cause, Outcomes
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.suppress import suppressed
from rag_eval_hooks.telemetry.rag_span import SpanHolder
from rag_eval_hooks.telemetry.self_metrics import Gauge

__all__ = ["Pipeline"]

_STOP_TIMEOUT = 2.0
"""Seconds for cancelled work and for the closing of sinks and judges."""


class Pipeline:
    """Everything behind `RagEval.offer`, for one process. Thread-safe.

    A forked child makes a new one of the same parts; this one stays the parent's.

    Args:
        parts: Decide, evaluate, publish.
        tick: Called a few times a second once `watch` was called, before all that is pending is
            waited for, and once more at the end.
        closed: Whether to be shut down from the start, as in a child of a process that was.

    Attributes:
        is_closed: True after `shutdown`.
        gauges: Functions that return the present size or limit of what the pipeline holds, by
            instrument.
    """

    def __init__(
        self,
        parts: Parts,
        tick: Callable[[bool], None],
        *,
        closed: bool = False,
    ) -> None:
        config = parts.config
        self._parts = parts
        self._external_tick = tick
        self._exit = ExitHook(self, config.exit_timeout)
        self._clock = Clock(self._tick, parts.incidents)
        self._stats = Books(limits.EXPLAINED_TRACES)
        self._holder = SpanHolder(
            hold_timeout=config.hold_timeout, max_held=limits.HELD_SPANS, incidents=parts.incidents
        )
        self._spooled = Spooled(
            parts,
            capacity=self._capacity,
            resume=self._resume,
            settle=lambda work, ending: self._observers.settle(work, ending),
        )
        self._delivery = self._spooled.delivery
        self._memory = FeedbackMemory.of(config, keeps_all=parts.selection.has_feedback_rules)
        self._observers = Observers(
            (
                SpansAndTelemetry(self._holder, parts.telemetry, hold=config.hold_timeout > 0),
                self._memory,
                self._spooled,
            ),
            self._stats,
        )
        self._shipper = shipper_of(parts)
        self._processor = Processor(
            parts, self._observers, self._spooled, self._stats, self._shipper
        )
        self._evaluator = self._new_evaluator()
        self._feedback = FeedbackProcessor(
            parts,
            memory=self._memory,
            processor=self._processor,
            observers=self._observers,
            delivery=self._delivery,
            stats=self._stats,
            evaluator=self._evaluator,
        )
        self._queued = AdmittedShare()
        self.gauges = self._new_gauges()
        self.is_closed = False
        if closed:
            self._refuse_all()
            self._clock.stop()
            self._spooled.stop(0)
        else:
            self._spooled.look_back()

    def _new_evaluator(self) -> Evaluator[Request | FeedbackWork]:
        config = self._parts.config
        return Evaluator(
            self._process,
            on_end=self._on_end,
            on_close=self._parts.close,
            queue_size=config.queue_size,
            queue_chars=limits.QUEUE_CHARS,
            concurrency=(
                config.judge_concurrency if self._shipper is None else limits.SHIPPED_SAMPLES
            ),
        )

    def _new_gauges(self) -> dict[str, Gauge]:
        config = self._parts.config
        return {
            semconv.METRIC_QUEUE_SIZE: lambda: len(self._evaluator),
            semconv.METRIC_QUEUE_CAPACITY: lambda: config.queue_size,
            semconv.METRIC_QUEUE_TEXT: lambda: self._evaluator.waiting_chars,
            semconv.METRIC_HELD_SIZE: lambda: len(self._holder),
            semconv.METRIC_HELD_CAPACITY: lambda: limits.HELD_SPANS,
            **self._spooled.gauges(),
        }

    def submit(self, work: Request) -> bool:
        """Decide about a request and queue it. Never blocks.

        Returns:
            Whether it will be evaluated.
        """
        decision = work.decision = self._parts.selection.decide(work)
        if decision is None:
            return self._refuse(work, Ending.dropped(work.status.value))
        if not self._parts.selection.is_open(work):
            self._stats.note("decisions", decision.reason)
            if not decision.sampled:
                return self._refuse(work, Ending.sampled_out(decision))
            work.decision = self._processor.admit(decision)
            if work.decision is None:
                work.decision = decision
                return self._refuse(work, Ending.dropped(RATE_LIMIT))
        reason = self._queue(work)
        return reason is None or self._refuse(work, Ending.dropped(reason))

    def _refuse(self, work: Request, ending: Ending) -> bool:
        self._observers.settle(work, ending)
        return False

    def _queue(self, work: Request) -> str | None:
        """Queue a request; return the reason if it is refused."""
        reason = self._start_threads() or self._evaluator.reserve(work.size)
        if reason in (None, QUEUE_FULL) and not work.is_recovered:
            share = self._queued.count(admitted=reason is None)
            if share is not None and share < 1.0 and work.decision is not None:
                work.decision = work.decision.admitted(share)
        if reason is None:
            self._observers.accepted(work)
            reason = self._evaluator.put(work, work.size)
        return reason

    def _resume(self, work: Request) -> bool:
        """Queue a recovered sample, decided as in the process that left it."""
        assert work.probability is not None
        work.decision = self._parts.selection.decided_before(work, work.probability, work.reason)
        reason = self._queue(work)
        if reason is not None and work.accepted:
            self._observers.settle(work, Ending.dropped("spooled"))
        return reason is None

    def take(self, work: Request) -> bool:
        """Queue a request that another process decided about.

        Returns:
            Whether it will be evaluated; False after `shutdown`.
        """
        if self.is_closed or self._start_threads() is not None:
            return False
        assert work.decision is not None
        work.decision = work.decision.limited_to(self._parts.scorer.metric_ids)
        self._observers.accepted(work)
        # Its batch bounds how many there are.
        reason = self._evaluator.put(work, work.size, reserved=False)
        return reason is None or self._refuse(work, Ending.dropped(reason))

    def _capacity(self) -> int:
        """Return how many samples of the spool may wait: none while the broker is down."""
        is_down = self._shipper is not None and self._shipper.is_down
        return 0 if is_down else self._evaluator.capacity()

    def refuse(self, reason: str, work: Request | None) -> None:
        """Count a request that is not decided, and end its span; None if it could not be read."""
        unread = Sample(question="")
        self._observers.settle(
            work or Request(key="", build=lambda: unread), Ending.dropped(reason)
        )

    def hold(self, held: HeldSpan) -> None:
        """Hold a span whose interaction may still be submitted."""
        self.watch()
        self._holder.hold(held)

    def watch(self) -> bool:
        """Begin to call `tick`.

        Returns:
            Whether it will be called; False after `shutdown`, or if no thread can be started.
        """
        return self._start_threads() is None and self._clock.ticks

    def _start_threads(self) -> str | None:
        """Arm the exit hook and start the threads; return `no_thread` if the system has none."""
        self._exit.arm()
        try:
            self._clock.start()
            self._spooled.start()
        except RuntimeError:
            return "no_thread"
        return None

    def feedback(self, names: Sequence[str], feedback: Feedback) -> bool:
        """Queue a feedback; return whether it joins a remembered request. Never blocks."""
        request = self._memory.find(names)
        if request is None:
            self._stats.note("feedback", "unknown")
            return False
        return self._feedback.join(FeedbackWork(feedback, request), self._start_threads())

    def refuse_feedback(self, error: Exception) -> None:
        """Count a feedback that is empty or of a wrong type."""
        self._parts.incidents.report("feedback", error)
        self._stats.note("feedback", "invalid")

    def evaluate(self, sample: Sample, chosen: Container[str] | None = None) -> Future[Outcomes]:
        """Return the outcomes of a sample, beside the queue: no sampling, no sinks, no counts."""
        return self._evaluator.run(self._processor.inline(sample, chosen))

    def stats(self) -> Stats:
        """Return the statistics at this moment."""
        return self._stats.snapshot(
            self._parts.incidents.counts(),
            recovered=self._spooled.recovered,
            undurable=self._spooled.undurable,
        )

    def spooled(self) -> Mapping[str, int]:
        """Return the counts of the spool, of all processes; empty if there is none to read."""
        return self._spooled.books()

    def explain(self, name: object) -> tuple[Explanation, ...]:
        """Return the explanations of the samples of a trace, or of one sample."""
        return self._stats.explain(id_of(name))

    def flush(self, timeout: float | None) -> bool:
        """Wait for everything accepted so far; return False if `timeout` seconds are too few."""
        deadline = None if timeout is None else time.monotonic() + timeout

        def left() -> float | None:
            return None if deadline is None else max(0.0, deadline - time.monotonic())

        written = self._clock.call(left())
        # The disk first: it takes milliseconds, and its samples outlive an expired timeout.
        self._spooled.drain(left())
        finished = self._stats.wait(left()) and self._spooled.drain(left())
        finished = self._delivery.flush(left()) and finished
        return self._spooled.drain(left()) and finished and written

    def shutdown(self, timeout: float) -> bool:
        """Refuse new requests, finish what is pending within `timeout` seconds, and end.

        Requests that are not finished by then stay in the spool, or are dropped as `shutdown`;
        held spans end. Idempotent.

        Returns:
            Whether everything pending was finished.
        """
        deadline = time.monotonic() + timeout
        self._clock.call(timeout)
        self._refuse_all()
        finished = self.flush(max(0.0, deadline - time.monotonic()))
        self._spooled.drain(_STOP_TIMEOUT)
        self._evaluator.stop(_STOP_TIMEOUT)
        self._delivery.close()
        if self._shipper is not None:
            self._shipper.close()
        self._spooled.stop(_STOP_TIMEOUT)
        self._clock.call(_STOP_TIMEOUT)
        self._clock.stop()
        self._holder.close()
        return finished

    def _refuse_all(self) -> None:
        self.is_closed = True
        self._exit.disarm()
        self._evaluator.close()

    def forking(self) -> None:
        """End held spans before a fork: parent and child would export them both."""
        self._holder.release_all(EvalStatus.FORK)

    def abandon(self) -> object:
        """Leave everything to the parent. In the child.

        Returns:
            What the child must keep alive without using it.
        """
        self._exit.disarm()
        return self._spooled

    async def _process(self, work: Request | FeedbackWork) -> None:
        try:
            with suppressed():
                if isinstance(work, FeedbackWork):
                    await self._feedback.process(work)
                else:
                    await self._processor.process(work)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the metric's edge: even an exit ends here
            self._parts.incidents.report("evaluation", error)
            if isinstance(work, Request):
                self._observers.settle(work, Ending.failed(Cause.METRIC_FAILED))

    def _on_end(self, work: Request | FeedbackWork) -> None:
        if isinstance(work, FeedbackWork):
            self._feedback.end(work)
        elif work.ending is None:
            # Not settled by now means cancelled.
            reason = "spooled" if self._spooled.holds(work) else "shutdown"
            self._observers.settle(work, Ending.dropped(reason))

    def _tick(self) -> None:
        self._holder.expire()
        self._delivery.check()
        self._external_tick(self._clock.is_awaited)
