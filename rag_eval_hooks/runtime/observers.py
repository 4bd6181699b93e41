"""Observers of every request in one fixed order, and the one way to end a request."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence

from opentelemetry.trace import SpanContext

from rag_eval_hooks import semconv
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import Attributes, Column, Ending, HeldSpan, Observer, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Status
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.telemetry.rag_span import SpanHolder
from rag_eval_hooks.telemetry.telemetry import Telemetry

__all__ = ["Observers", "SpansAndTelemetry"]


class Observers:
    """Calls all observers of a request, in order. Thread-safe.

    An observer that raises is counted; the next one is called all the same.
    """

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        self._settling = threading.Lock()
        self.follow(())

    def follow(self, observers: Sequence[Observer]) -> None:
        """Take the observers, in order; a moment that one does not override is not called."""
        self._moments: dict[str, list[Callable[..., None]]] = {
            name: [
                getattr(one, name)
                for one in observers
                if getattr(type(one), name) is not getattr(Observer, name)
            ]
            for name in ("accepted", "begun", "evaluated", "settled")
        }

    def accepted(self, request: Request) -> None:
        request.accepted = True
        self._call("accepted", request)

    def begun(self, request: Request) -> None:
        self._call("begun", request)

    def evaluated(self, request: Request, evaluation: Evaluation) -> None:
        self._call("evaluated", request, evaluation)

    def settle(self, request: Request, ending: Ending) -> None:
        """End a request, once: every later call for it is ignored."""
        with self._settling:
            if request.ending is not None:
                return
            request.ending = ending
        try:
            self._call("settled", request, ending)
        except BaseException:
            # A signal handler of the application raised; observers take an end twice.
            self._call("settled", request, ending)
            raise

    def _call(self, moment: str, *arguments: object) -> None:
        for call in self._moments[moment]:
            try:
                call(*arguments)
            except Exception as error:  # noqa: BLE001 - a later observer must see the request
                self._incidents.report("observer", error)


class SpansAndTelemetry(Observer):
    """RAG spans that wait for their scores, and the signals of every evaluation.

    One observer, because the waiting span links to evaluation spans that have to exist before it
    ends.
    """

    def __init__(self, holder: SpanHolder, telemetry: Telemetry, *, hold: bool) -> None:
        self._holder = holder
        self._telemetry = telemetry
        self._hold = hold

    def accepted(self, request: Request) -> None:
        if request.span is not None and self._hold:
            self._holder.hold(request.span)
        elif request.span is not None:
            self._end(request.span, {})

    def evaluated(self, request: Request, evaluation: Evaluation) -> None:
        if request.by_feedback:
            self._telemetry.publish_late(evaluation)
            return
        finish = None
        if request.span is not None:
            finish = functools.partial(self._finish, request, request.span, evaluation)
        if request.outcomes is None:
            self._telemetry.publish(evaluation, finish)
        else:
            self._telemetry.finish(evaluation, finish)

    def settled(self, request: Request, ending: Ending) -> None:
        if request.span is None:
            return
        attributes = _attributes(request, ending)
        if request.accepted:
            self._holder.finish(request.span, attributes)
        else:
            self._end(request.span, attributes)

    def _finish(
        self,
        request: Request,
        span: HeldSpan,
        evaluation: Evaluation,
        attributes: Attributes,
        links: Sequence[SpanContext],
    ) -> bool:
        ending = _attributes(request, Ending.of(evaluation))
        return self._holder.finish(span, {**attributes, **ending}, links)

    def _end(self, span: HeldSpan, attributes: Attributes) -> None:
        # A span of another instrumentor may be held since it ended.
        if not self._holder.finish(span, attributes):
            self._holder.end(span, attributes)


def _attributes(request: Request, ending: Ending) -> Attributes:
    """Return the attributes that tell on a RAG span why it has no scores."""
    status, more = None, {}
    if ending.column is Column.SAMPLED_OUT:
        status, more = EvalStatus.SAMPLED_OUT, {semconv.EVAL_SAMPLED_BY: ending.reason}
    elif ending.column is Column.SHIPPED:
        status = EvalStatus.SHIPPED
    elif ending.column is Column.FAILED and ending.evaluation is None:
        status = EvalStatus.ERROR
    elif ending.column is Column.DROPPED and request.status is Status.ABANDONED:
        status = EvalStatus.ABANDONED
    elif ending.column is Column.DROPPED and ending.is_left:
        status = EvalStatus.SHUTDOWN
    elif ending.column is Column.DROPPED:
        status, more = EvalStatus.DROPPED, {semconv.EVAL_REASON: ending.reason}
    return {} if status is None else {semconv.EVAL_STATUS: status.value, **more}
