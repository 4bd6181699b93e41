"""Observers of every request in one fixed order, and the one way to end a request."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

from opentelemetry.trace import SpanContext

from rag_eval_hooks import semconv
from rag_eval_hooks.request import Column, Ending, HeldSpan, Observer, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Status
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.telemetry.attribute_limits import Attributes
from rag_eval_hooks.telemetry.rag_span import SpanHolder
from rag_eval_hooks.telemetry.telemetry import Telemetry

__all__ = ["Observers", "SpansAndTelemetry"]


class Observers:
    """Tells all observers of a request, in order. Thread-safe.

    Args:
        observers: In the order in which they are called.
        stats: Called last, because `flush` returns once it has settled everything.
    """

    def __init__(self, observers: Sequence[Observer], stats: Observer) -> None:
        self._stats = stats
        self._others = tuple(observers)
        self._all = (*self._others, stats)
        # A coroutine that does nothing costs as much as a small metric.
        self._on_begun = [o for o in self._all if type(o).begun is not Observer.begun]
        self._on_evaluated = [o for o in self._all if type(o).evaluated is not Observer.evaluated]
        self._settling = threading.Lock()

    def accepted(self, work: Request) -> None:
        """Announce a request that has its slot in the queue."""
        work.accepted = True
        for observer in self._all:
            observer.accepted(work)

    async def begun(self, work: Request) -> None:
        """Announce a request whose sample is evaluated next."""
        for observer in self._on_begun:
            await observer.begun(work)

    async def evaluated(self, work: Request, evaluation: Evaluation) -> None:
        """Announce the evaluation of a request."""
        for observer in self._on_evaluated:
            await observer.evaluated(work, evaluation)

    def settle(self, work: Request, ending: Ending) -> None:
        """End a request, once: every later call for it is ignored."""
        with self._settling:
            if work.ending is not None:
                return
            work.ending = ending
        try:
            for observer in self._others:
                observer.settled(work, ending)
        finally:
            # Counted even if another observer raises: `flush` would wait for it for ever.
            self._stats.settled(work, ending)


class SpansAndTelemetry(Observer):
    """RAG spans that wait for their scores, and the signals of every evaluation.

    One observer, because the waiting span links to evaluation spans that have to exist before it
    ends.

    Args:
        holder: Holds RAG spans.
        telemetry: Publishes evaluations.
        hold: Whether RAG spans wait for their scores.
    """

    def __init__(self, holder: SpanHolder, telemetry: Telemetry, *, hold: bool) -> None:
        self._holder = holder
        self._telemetry = telemetry
        self._hold = hold

    def accepted(self, work: Request) -> None:
        """Hold the RAG span, or end it if spans do not wait."""
        if work.span is None:
            return
        if self._hold:
            self._holder.hold(work.span)
        else:
            self._end(work.span, {})

    async def evaluated(self, work: Request, evaluation: Evaluation) -> None:
        """Publish an evaluation, unless the process that evaluated it did so already."""
        if work.by_feedback:
            self._telemetry.publish_late(evaluation)
            return
        finish = functools.partial(self._finish, work, _attributes(work, Ending.of(evaluation)))
        if work.outcomes is None:
            self._telemetry.publish(evaluation, finish)
        else:
            self._telemetry.finish(evaluation, finish)

    def settled(self, work: Request, ending: Ending) -> None:
        """End the RAG span with the reason, if nothing has ended it before."""
        if work.span is None:
            return
        attributes = _attributes(work, ending)
        if work.accepted:
            self._holder.finish(work.span, attributes)
        else:
            self._end(work.span, attributes)

    def _finish(
        self,
        work: Request,
        ending: Attributes,
        attributes: Attributes,
        links: Sequence[SpanContext],
        events: Sequence[Attributes],
    ) -> bool:
        if work.span is None:
            return False
        return self._holder.finish(work.span, {**attributes, **ending}, links, events)

    def _end(self, span: HeldSpan, attributes: Attributes) -> None:
        # A span of another instrumentor may be held since it ended.
        if not self._holder.finish(span, attributes):
            self._holder.end(span, attributes)


def _attributes(work: Request, ending: Ending) -> Attributes:
    """Return the attributes that tell on a RAG span why it has no scores."""
    if ending.column is Column.SAMPLED_OUT:
        status = EvalStatus.SAMPLED_OUT.value
        return {semconv.EVAL_STATUS: status, semconv.EVAL_SAMPLED_BY: ending.reason}
    if ending.column is Column.SHIPPED:
        return {semconv.EVAL_STATUS: EvalStatus.SHIPPED.value}
    if ending.column is Column.DROPPED:
        if work.status is Status.ABANDONED:
            return {semconv.EVAL_STATUS: EvalStatus.ABANDONED.value}
        if ending.reason in ("shutdown", "spooled"):
            return {semconv.EVAL_STATUS: EvalStatus.SHUTDOWN.value}
        status = EvalStatus.DROPPED.value
        return {semconv.EVAL_STATUS: status, semconv.EVAL_REASON: ending.reason}
    if ending.column is Column.FAILED and ending.evaluation is None:
        return {semconv.EVAL_STATUS: EvalStatus.ERROR.value}
    return {}
