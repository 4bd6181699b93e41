"""From an offered interaction to delivered scores: decide, hold, queue, evaluate, deliver."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from opentelemetry.trace import SpanContext

from rag_eval_hooks import semconv
from rag_eval_hooks.config import RagEvalConfig
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.pipeline.clock import Clock
from rag_eval_hooks.pipeline.delivery import Delivery
from rag_eval_hooks.pipeline.evaluator import Evaluator
from rag_eval_hooks.pipeline.exit import ExitHook
from rag_eval_hooks.pipeline.ledger import Ledger, Stats
from rag_eval_hooks.pipeline.outbound import Outbound
from rag_eval_hooks.pipeline.sampler import Decision, RatioSampler
from rag_eval_hooks.pipeline.scorer import Scorer
from rag_eval_hooks.quiet import quiet
from rag_eval_hooks.sample import Sample, Status
from rag_eval_hooks.score import Cause, NotScored, Outcomes, Score
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.sinks.base import Sink
from rag_eval_hooks.sinks.held_span import HeldSpan, SpanHolder
from rag_eval_hooks.sinks.limits import Attributes
from rag_eval_hooks.sinks.telemetry import Telemetry

__all__ = ["Offer", "Pipeline"]

_STOP_TIMEOUT = 2.0
"""Seconds for cancelled work and for the closing of sinks and judges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An ended interaction, before anything expensive was done with it.

    Attributes:
        key: What the sampler decides by: the trace id, or any unique id.
        status: How the interaction ended.
        sample: Builds the sample; called in the evaluator, only when it is sampled.
        size: Characters that it keeps in memory while it waits.
        held: The RAG span with its true end time, where one is recorded.
    """

    key: str
    status: Status
    sample: Callable[[], Sample]
    size: int
    held: HeldSpan | None = None


class Closable(Protocol):
    """A judge, an embedder, a token scorer."""

    @property
    def name(self) -> str: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Work:
    offer: Offer
    decision: Decision
    ticket: int


class Pipeline:
    """Everything behind `offer`. Thread-safe.

    Args:
        config: Limits and rates.
        scorer: Makes what evaluates a sample.
        parts: What it is made of; closed at shutdown.
        sinks: Where outcomes go besides telemetry.
        telemetry: Makes what sends spans, events and metrics.
        tick: Called a few times a second, once a sample was accepted.
        outbound: Makes what begins and flushes the sinks that send in the background.
    """

    def __init__(
        self,
        config: RagEvalConfig,
        scorer: Callable[[Incidents], Scorer],
        parts: Sequence[Closable],
        sinks: Sequence[Sink],
        telemetry: Callable[[Incidents], Telemetry],
        tick: Callable[[], None],
        outbound: Callable[[Incidents], Outbound] | None = None,
    ) -> None:
        self.incidents = Incidents()
        self._config = config
        self._parts = parts
        self._sinks = sinks
        self._external_tick = tick
        self._sampler = RatioSampler(config.sample_rate)
        self._scorer = scorer(self.incidents)
        self._telemetry = telemetry(self.incidents)
        self._outbound = None if outbound is None else outbound(self.incidents)
        self.reset()
        self._telemetry.watch(self)

    def reset(self) -> None:
        """Fresh books, queue and thread: what a forked child needs, whose thread is gone."""
        self.incidents.reset()
        self._ledger = Ledger()
        self._holder = SpanHolder(
            hold_timeout=self._config.hold_timeout,
            max_held=self._config.max_held,
            incidents=self.incidents,
        )
        self._delivery = Delivery(self._sinks, self.incidents, self._config.sink_timeout)
        if self._outbound is not None:
            self._outbound.open()
        self._exit = ExitHook(self, self._config.exit_timeout)
        self._clock = Clock(self._tick)
        self._evaluator: Evaluator[_Work] = Evaluator(
            self._evaluate,
            on_end=self._on_end,
            on_close=self._close,
            queue_size=self._config.queue_size,
            queue_chars=self._config.queue_chars,
            concurrency=self._config.evaluator_concurrency,
        )

    def offer(self, offer: Offer) -> bool:
        """Decides about an interaction and queues it. Never blocks.

        Returns:
            Whether it will be evaluated.
        """
        if offer.status is not Status.OK:
            self._ledger.dropped(offer.status.value)
            self._end(offer.held, _refusal(offer.status))
            return False
        decision = self._sampler.decide(offer.key)
        if not decision.sampled:
            self._ledger.sampled_out()
            self._end(offer.held, {semconv.EVAL_STATUS: EvalStatus.SAMPLED_OUT.value})
            return False
        return self._accept(_Work(offer, decision, self._ledger.accepted()))

    def _accept(self, work: _Work) -> bool:
        self._exit.arm()
        held = work.offer.held
        if held is not None and self._config.hold:
            # Held before it is queued: the evaluator may be done before submit returns.
            self._holder.hold(held)
        else:
            self._end(held, {})
        reason = self._start_clock() or self._evaluator.submit(work, work.offer.size)
        if reason is None:
            return True
        self._ledger.settle_dropped(work.ticket, reason)
        if held is not None:
            self._holder.finish(held, _dropped(reason))
        return False

    def _start_clock(self) -> str | None:
        try:
            self._clock.start()
        except RuntimeError:
            return "no_thread"
        return None

    def hold(self, held: HeldSpan) -> None:
        """Begins to hold a span whose interaction may still be offered."""
        self._start_clock()
        self._holder.hold(held)

    def refuse(self, reason: str) -> None:
        """Enters an interaction that could not be offered."""
        self._ledger.dropped(reason)

    def evaluate(self, sample: Sample) -> Future[Outcomes]:
        """The outcomes of a sample, beside the queue: no sampling, no sinks, no books."""
        return self._evaluator.run(self._evaluate_inline(sample))

    def stats(self) -> Stats:
        """The books at this moment."""
        return self._ledger.snapshot(self.incidents.counts())

    def outcomes(self) -> Mapping[tuple[str, str | None], int]:
        """The settled samples of the books by outcome and reason."""
        stats = self.stats()
        return {
            ("scored", None): stats.scored,
            ("sampled_out", None): stats.sampled_out,
            **{("dropped", reason): count for reason, count in stats.dropped.items()},
            **{("failed", cause): count for cause, count in stats.failed.items()},
        }

    def waiting(self) -> int:
        """Samples in the queue at this moment."""
        return len(self._evaluator)

    def flush(self, timeout: float | None) -> bool:
        """Waits for all that was accepted so far; False when `timeout` seconds did not suffice."""
        deadline = None if timeout is None else time.monotonic() + timeout
        finished = self._ledger.wait(timeout)
        if self._outbound is None:
            return finished
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return self._outbound.flush(left) and finished

    def shutdown(self, timeout: float) -> bool:
        """Refuses new samples, finishes what is pending within `timeout` seconds, ends.

        What is not finished by then is dropped as `shutdown`, held spans end. Idempotent.

        Returns:
            Whether everything pending was finished.
        """
        self._exit.disarm()
        self._evaluator.close()
        finished = self.flush(timeout)
        self._evaluator.stop(_STOP_TIMEOUT)
        self._clock.stop()
        self._holder.close()
        return finished

    def before_fork(self) -> None:
        """Ends held spans in the parent: in the child they would be exported a second time."""
        self._holder.release_all(EvalStatus.FORK)

    async def _evaluate(self, work: _Work) -> None:
        try:
            with quiet():
                await self._evaluate_sample(work)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the metric's edge: even an exit ends here
            self.incidents.report("evaluation", error)
            self._finish(work, {semconv.EVAL_STATUS: EvalStatus.ERROR.value})
            self._ledger.settle_failed(work.ticket, Cause.METRIC_FAILED.value)

    def _on_end(self, work: _Work) -> None:
        """Whatever ended the work: what is not settled by then was cancelled."""
        self._ledger.settle_dropped(work.ticket, "shutdown")

    async def _evaluate_sample(self, work: _Work) -> None:
        start, began = time.time_ns(), time.monotonic_ns()
        try:
            sample = work.offer.sample()
        except Exception as error:  # noqa: BLE001 - the host's edge: it reads the host's objects
            self.incidents.report("capture", error)
            self._ledger.settle_dropped(work.ticket, "capture_failed")
            self._finish(work, _dropped("capture_failed"))
            return
        outcomes = await self._scorer.score(sample)
        evaluation = self._telemetry.evaluated(
            sample,
            outcomes,
            probability=work.decision.probability,
            start=start,
            # The wall clock may be set meanwhile; what the evaluation took must stay true.
            end=start + time.monotonic_ns() - began,
        )
        self._telemetry.publish(evaluation, functools.partial(self._finish, work))
        await self._delivery.deliver(sample, outcomes)
        self._settle(work.ticket, outcomes)

    async def _evaluate_inline(self, sample: Sample) -> Outcomes:
        with quiet():
            return await self._scorer.score(sample)

    def _settle(self, ticket: int, outcomes: Outcomes) -> None:
        if any(isinstance(outcome, Score) for outcome in outcomes.values()):
            self._ledger.settle_scored(ticket)
            return
        causes = [o.cause for o in outcomes.values() if isinstance(o, NotScored)]
        failures = [cause for cause in causes if cause.is_failure]
        # No outcome at all: the sample feeds no metric.
        cause = next(iter(failures or causes), Cause.MISSING_INPUT)
        self._ledger.settle_failed(ticket, cause.value)

    def _finish(
        self, work: _Work, attributes: Attributes, links: Sequence[SpanContext] = ()
    ) -> None:
        if work.offer.held is not None:
            self._holder.finish(work.offer.held, attributes, links)

    def _end(self, held: HeldSpan | None, attributes: Attributes) -> None:
        # One of another instrumentor's may be held since it ended.
        if held is not None and not self._holder.finish(held, attributes):
            self._holder.end(held, attributes)

    def _tick(self) -> None:
        self._holder.expire()
        self._external_tick()

    async def _close(self) -> None:
        await self._delivery.close()
        for part in self._parts:
            try:
                await part.aclose()
            except Exception as error:  # noqa: BLE001 - a judge can be the user's own code
                self.incidents.report(f"close {part.name}", error)


def _refusal(status: Status) -> Attributes:
    if status is Status.ABANDONED:
        return {semconv.EVAL_STATUS: EvalStatus.ABANDONED.value}
    return _dropped(status.value)


def _dropped(reason: str) -> Attributes:
    return {semconv.EVAL_STATUS: EvalStatus.DROPPED.value, semconv.EVAL_REASON: reason}
