"""From an offered interaction to delivered scores: decide, hold, queue, evaluate, deliver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future

from rag_eval_hooks import semconv
from rag_eval_hooks.books.explanations import Explanation
from rag_eval_hooks.books.stats import Ledger, Stats
from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import RATE_LIMIT, Decision
from rag_eval_hooks.delivery.delivery import Delivery
from rag_eval_hooks.delivery.redelivery import Redelivery
from rag_eval_hooks.delivery.sink import Sink
from rag_eval_hooks.evaluation.worker import Evaluator
from rag_eval_hooks.feedback import Feedback, id_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.pipeline.clock import Clock
from rag_eval_hooks.pipeline.endings import dropped, refusal, sampled_out
from rag_eval_hooks.pipeline.exit import ExitHook
from rag_eval_hooks.pipeline.feedback import FeedbackWork, Joining
from rag_eval_hooks.pipeline.feedback_memory import Recent
from rag_eval_hooks.pipeline.judging import Judging
from rag_eval_hooks.pipeline.makers import Closable, Makers
from rag_eval_hooks.pipeline.offer import Offer
from rag_eval_hooks.pipeline.process_sample import Course
from rag_eval_hooks.pipeline.spooled import Durable, Host
from rag_eval_hooks.pipeline.work import Work
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.spool.recovery import Recovered
from rag_eval_hooks.suppress import quiet
from rag_eval_hooks.telemetry.limits import Attributes
from rag_eval_hooks.telemetry.rag_span import HeldSpan, SpanHolder
from rag_eval_hooks.telemetry.self_metrics import Gauge, PipelineState, Reading

__all__ = ["Pipeline"]

_STOP_TIMEOUT = 2.0
"""Seconds for cancelled work and for the closing of sinks and judges."""


class Pipeline:
    """Everything behind `offer`. Thread-safe.

    Args:
        config: Limits and rates.
        makers: Make what decides, what evaluates a sample, and what it may cost.
        parts: What it is made of; closed at shutdown.
        sinks: Where outcomes go besides telemetry.
        redactor: Takes out of samples what must not leave.
        tick: Called a few times a second, once a sample was accepted or `watch` was called, and
            before all that is pending is waited for.

    Attributes:
        incidents: Where exceptions are counted.
        opened: Tells how many interactions are open, and how many characters they hold.
    """

    def __init__(
        self,
        config: RagEvalConfig,
        makers: Makers,
        parts: Sequence[Closable],
        sinks: Sequence[Sink],
        redactor: Redactor,
        tick: Callable[[], None],
    ) -> None:
        self.incidents = Incidents()
        self.opened: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._config = config
        self._parts = parts
        self._sinks = sinks
        self._external_tick = tick
        self._selection = makers.selection(self.incidents)
        self._scorer = makers.scorer(self.incidents)
        self._references = makers.references(self.incidents)
        self._budget = makers.budget(self.incidents)
        self._telemetry = makers.telemetry(self.incidents)
        self._outbound = makers.outbound(self.incidents)
        self._durable = Durable(
            config,
            self.incidents,
            Host(
                positions=lambda: self._delivery.positions(),
                room=lambda: self._evaluator.room(),
                work=self._recovered,
                submit=self._submit,
                reports=self._outbound.room,
                take_report=self._outbound.take,
                lost_reports=self._outbound.lost,
                redactor=redactor,
            ),
        )
        self.reset()
        self._telemetry.watch(self)
        self._durable.look_back()

    def reset(self) -> None:
        """Fresh books, queue and thread: what a forked child needs, whose thread is gone."""
        self.incidents.reset()
        self._telemetry.reset()
        self._ledger = Ledger(limits.EXPLAINED_TRACES)
        for part in (self._selection, self._references, self._budget):
            if part is not None:
                part.reset()
        self._holder = SpanHolder(
            hold_timeout=self._config.hold_timeout,
            max_held=limits.HELD_SPANS,
            incidents=self.incidents,
        )
        self._delivery = Delivery(self._sinks, self.incidents, self._config.sink_timeout)
        self._judging = Judging(
            self._scorer, self._references, self._budget, self._ledger, self._telemetry
        )
        self._joining = Joining(
            Recent.of(self._config),
            self._selection,
            self._judging,
            self._delivery,
            self._ledger,
            self.incidents,
            most=self._config.queue_size,
        )
        self._outbound.open(self._durable.store)
        self._exit = ExitHook(self, self._config.exit_timeout)
        self._clock = Clock(self._tick)
        self._durable.reset(self._ledger)
        self._course = self._new_course()
        self._evaluator: Evaluator[Work | FeedbackWork] = Evaluator(
            self._evaluate,
            on_end=self._on_end,
            on_close=self._close,
            queue_size=self._config.queue_size,
            queue_chars=limits.QUEUE_CHARS,
            concurrency=self._config.evaluator_concurrency,
        )
        self._state = PipelineState(self.stats, self._levels())

    def _levels(self) -> dict[str, Gauge]:
        evaluator, holder, config = self._evaluator, self._holder, self._config
        return {
            semconv.METRIC_QUEUE_SIZE: lambda: len(evaluator),
            semconv.METRIC_QUEUE_CAPACITY: lambda: config.queue_size,
            semconv.METRIC_QUEUE_TEXT: lambda: evaluator.waiting_chars,
            semconv.METRIC_HELD_SIZE: lambda: len(holder),
            semconv.METRIC_HELD_CAPACITY: lambda: limits.HELD_SPANS,
            semconv.METRIC_OPEN_SIZE: lambda: self.opened()[0],
            semconv.METRIC_OPEN_CAPACITY: lambda: limits.OPEN_INTERACTIONS,
            semconv.METRIC_OPEN_TEXT: lambda: self.opened()[1],
            **self._durable.levels(),
        }

    def _new_course(self) -> Course:
        return Course(
            selection=self._selection,
            judging=self._judging,
            joining=self._joining,
            telemetry=self._telemetry,
            delivery=self._delivery,
            redelivery=Redelivery.of(self._config, self._durable, self.incidents),
            durable=self._durable,
            ledger=self._ledger,
            holder=self._holder,
            incidents=self.incidents,
            trace_judge=self._config.trace_judge,
        )

    def offer(self, offer: Offer) -> bool:
        """Decides about an interaction and queues it. Waits for the disk alone, where asked to.

        Returns:
            Whether it will be evaluated and, where it is to be on disk by now, is.
        """
        decision = self._selection.decide(offer)
        if decision is None:
            return self._pass_over(offer, None, offer.status.value, refusal(offer.status))
        if self._selection.is_open(offer):
            return self._accept(offer, decision, is_open=True)
        self._ledger.note("decisions", decision.reason)
        if not decision.sampled:
            return self._pass_over(offer, decision, None, sampled_out(decision))
        admitted = self._selection.admitted(decision)
        if admitted is None:
            self._ledger.note("decisions", RATE_LIMIT)
            return self._pass_over(offer, decision, RATE_LIMIT, dropped(RATE_LIMIT))
        return self._accept(offer, admitted, is_open=False)

    def _pass_over(
        self, offer: Offer, decision: Decision | None, reason: str | None, told: Attributes
    ) -> bool:
        """Enters an interaction that is not evaluated: dropped for a reason, or sampled out."""
        self._joining.remember(offer, decision, accepted=False)
        if reason is not None or decision is None:
            self._ledger.dropped(reason or offer.status.value, offer.key, offer.ids)
        else:
            because, probability = decision.because, decision.probability
            self._ledger.sampled_out(offer.key, offer.ids, because, probability)
        self._end(offer.held, told)
        return False

    def feedback(self, names: Sequence[str], feedback: Feedback) -> bool:
        """Queues a feedback. Never blocks.

        Args:
            names: Ids by which the interaction may be known.
            feedback: What was said.

        Returns:
            Whether it joins an interaction that is still remembered.
        """
        entry = self._joining.find(names)
        if entry is None:
            self._ledger.note("feedback", "unknown")
            return False
        work = FeedbackWork(feedback, entry, self._ledger.errand())
        self._exit.arm()
        reason = self._start_threads() or self._joining.queue(work, self._evaluator.submit)
        if reason is not None:
            self._ledger.end_errand(work.ticket)
        self._ledger.note("feedback", reason or "joined")
        return reason is None

    def refuse_feedback(self, error: Exception) -> None:
        """Enters a feedback that says nothing, or something of a wrong type."""
        self.incidents.report("feedback", error)
        self._ledger.note("feedback", "invalid")

    def _accept(self, offer: Offer, decision: Decision, *, is_open: bool) -> bool:
        self._exit.arm()
        joinable = self._joining.remember(offer, decision, accepted=True)
        ticket = self._ledger.accepted(offer.key, offer.ids)
        work = Work(offer, decision, joinable, ticket, is_open)
        self._durable.enroll(work)
        if offer.held is not None and self._config.hold:
            # Held before it is queued: the evaluator may be done before submit returns.
            self._holder.hold(offer.held)
        else:
            self._end(offer.held, {})
        reason = self._submit(work, lambda: self._durable.put(work))
        if reason is None:
            return self._durable.confirmed(work)
        joinable.finish()
        self._ledger.settle_dropped(work.ticket, reason)
        self._course.finish(work, dropped(reason))
        return False

    def _submit(self, work: Work, on_taken: Callable[[], None]) -> str | None:
        self._exit.arm()
        return self._start_threads() or self._evaluator.submit(
            work, work.offer.size, on_taken=on_taken
        )

    def _start_threads(self) -> str | None:
        try:
            self._clock.start()
            self._durable.start()
        except RuntimeError:
            return "no_thread"
        return None

    def _recovered(self, found: Recovered, probability: float) -> Work:
        """The work of a sample that another process left, decided as it was there."""
        offer = Offer.of(found.entry.sample())
        decision = self._selection.decided_before(offer, probability, found.entry.reason)
        joinable = self._joining.remember(offer, decision, accepted=True)
        is_open = self._selection.is_open(offer)
        return Work(offer, decision, joinable, -1, is_open, found.entry, found)

    def hold(self, held: HeldSpan) -> None:
        """Begins to hold a span whose interaction may still be offered."""
        self._start_threads()
        self._holder.hold(held)

    def watch(self) -> bool:
        """Begin to call `tick`, which has something to look after.

        Returns:
            Whether it will be called; False after `shutdown`, or where no thread can be started.
        """
        self._exit.arm()
        return self._start_threads() is None and self._clock.ticks

    def refuse(self, reason: str) -> None:
        """Enters an interaction that could not be offered."""
        self._ledger.dropped(reason)

    def known(self, sample: Sample) -> Sample:
        """A sample with the reference of an equal golden question, before it is redacted."""
        return sample if self._references is None else self._references.known(sample)

    def evaluate(self, sample: Sample) -> Future[Outcomes]:
        """The outcomes of a sample, beside the queue: no sampling, no sinks, no books."""
        return self._evaluator.run(self._judging.inline(sample))

    def stats(self) -> Stats:
        """The books at this moment."""
        return self._durable.told(self._ledger.snapshot(self.incidents.counts()))

    def spooled(self) -> Mapping[str, int]:
        """The books of the spool: of all processes, ever; empty without one, or a readable one."""
        return self._durable.books()

    def read(self, instrument: str) -> Iterable[Reading]:
        """What an instrument of ours shows at this moment."""
        return self._state.read(instrument)

    def explain(self, name: object) -> tuple[Explanation, ...]:
        """What became of the samples of a trace, or of one, as far as it is remembered."""
        return self._ledger.explain(id_of(name))

    def flush(self, timeout: float | None) -> bool:
        """Waits for all that was accepted so far; False when `timeout` seconds did not suffice."""
        self._external_tick()
        began = time.monotonic()

        def left() -> float | None:
            return None if timeout is None else max(0.0, timeout - (time.monotonic() - began))

        # The disk first: it takes milliseconds, and what is on it outlives a time that runs out.
        self._durable.drain(left())
        finished = self._ledger.wait(left()) and self._durable.drain(left())
        finished = self._outbound.flush(left()) and finished
        return self._durable.drain(left()) and finished

    def shutdown(self, timeout: float) -> bool:
        """Refuses new samples, finishes what is pending within `timeout` seconds, ends.

        What is not finished by then is left in the spool, else dropped as `shutdown`; held spans
        end. Idempotent.

        Returns:
            Whether everything pending was finished.
        """
        self._external_tick()
        self._exit.disarm()
        self._evaluator.close()
        finished = self.flush(timeout)
        self._durable.drain(_STOP_TIMEOUT)
        self._course.redelivery.stop()
        self._evaluator.stop(_STOP_TIMEOUT)
        self._durable.stop(_STOP_TIMEOUT)
        self._clock.stop()
        self._external_tick()
        self._holder.close()
        return finished

    def before_fork(self) -> None:
        """Ends held spans in the parent: in the child they would be exported a second time."""
        self._holder.release_all(EvalStatus.FORK)
        self._durable.before_fork()

    def after_fork(self) -> None:
        """In the parent: goes on."""
        self._durable.after_fork()

    async def _evaluate(self, work: Work | FeedbackWork) -> None:
        try:
            with quiet():
                if isinstance(work, FeedbackWork):
                    await self._joining.handle(work)
                else:
                    await self._course.run(work)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the metric's edge: even an exit ends here
            self.incidents.report("evaluation", error)
            if isinstance(work, Work):
                self._course.fail(work)

    def _on_end(self, work: Work | FeedbackWork) -> None:
        if isinstance(work, FeedbackWork):
            self._joining.end(work)
        else:
            self._course.end(work)

    def _end(self, held: HeldSpan | None, attributes: Attributes) -> None:
        # One of another instrumentor's may be held since it ended.
        if held is not None and not self._holder.finish(held, attributes):
            self._holder.end(held, attributes)

    def _tick(self) -> None:
        self._holder.expire()
        self._external_tick()

    async def _close(self) -> None:
        await self._course.redelivery.close()
        await self._delivery.close()
        if self._budget is not None:
            self._budget.close()
        for part in self._parts:
            try:
                await part.aclose()
            except Exception as error:  # noqa: BLE001 - a judge can be the user's own code
                self.incidents.report(f"close {part.name}", error)
