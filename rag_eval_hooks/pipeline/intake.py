"""Intake of requests: from ended interactions to submitted work, off the request's thread."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rag_eval_hooks.capture import Assembler, Interaction, SpanWriter, traits_of_interaction
from rag_eval_hooks.capture.request_span import RequestSpan
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import Session
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.work import Work

__all__ = ["RequestIntake"]

_MOST_WAITING = 1000
"""Requests that may wait for the background thread."""


@dataclass(frozen=True, slots=True)
class _EndedRequest:
    """One ended request.

    Attributes:
        interaction: Everything that was recorded of it.
        session: Redacts its sample and its spans with the same placeholders.
        span: The span that stands for it.
    """

    interaction: Interaction
    session: Session
    span: RequestSpan


class RequestIntake:
    """Starts the span of each ended request, and submits the request later. Thread-safe.

    Rules and sampling take time that a request does not have. Whoever calls `drain` submits the
    requests, or the request that finds the queue full; none is lost.

    Args:
        assembler: Builds samples and redacts them.
        spans: Writes RAG spans and their children.
        incidents: Counts exceptions of the application's objects.
        submit: Submits a request.
        watch: Starts the thread that calls `tick`; returns False if there is none.
        refuse: Counts a request that cannot be submitted, with the reason.
    """

    def __init__(
        self,
        assembler: Assembler,
        spans: SpanWriter,
        incidents: Incidents,
        *,
        submit: Callable[[Work], object],
        watch: Callable[[], bool],
        refuse: Callable[[str], None],
    ) -> None:
        self._assembler = assembler
        self._spans = spans
        self._incidents = incidents
        self._submit = submit
        self._watch = watch
        self._refuse = refuse
        self._start()

    def _start(self) -> None:
        self._waiting: deque[_EndedRequest] = deque()
        # Reentrant: a rule of the application may ask for statistics, which drains the queue.
        self._submitting = threading.RLock()

    def forked(self) -> None:
        """Forget all requests in a forked child: the parent submits them."""
        self._start()
        self._spans.forked()

    def add(self, interaction: Interaction) -> None:
        """Start the span of an ended interaction, and queue it for submission. Never raises."""
        try:
            session = self._assembler.session()
            redact = functools.partial(self._assembler.attributes, session)
            span = self._spans.begin(interaction, redact)
        except Exception as error:  # noqa: BLE001 - the host's edge: its objects and processors
            self._count(error)
            return
        self._waiting.append(_EndedRequest(interaction, session, span))
        will_tick = self._watch()
        # The span of another instrumentor waits for the decision.
        if not will_tick or span.is_foreign:
            self.tick()
        elif len(self._waiting) > _MOST_WAITING:
            self.drain()

    def drain(self) -> None:
        """Submit all requests, including those that another thread is submitting."""
        with self._submitting, contextlib.suppress(IndexError):
            while True:
                self._submit_one(self._waiting.popleft())

    def tick(self, deadline: float | None = None) -> bool:
        """Submit all requests, and write spans that wait until a time of the monotonic clock.

        Returns:
            Whether no span waits.
        """
        self.drain()
        return self._spans.drain(deadline)

    def _submit_one(self, request: _EndedRequest) -> None:
        try:
            work = self._work(request)
        except Exception as error:  # noqa: BLE001 - the host's edge: its objects
            self._count(error)
        else:
            self._submit(work)

    def _count(self, error: Exception) -> None:
        self._incidents.report("capture", error)
        self._refuse("capture_failed")

    def _work(self, request: _EndedRequest) -> Work:
        interaction, session, span = request.interaction, request.session, request.span
        trace_id, span_id = span.trace_id, span.span_id

        def build() -> Sample:
            # Spans first: sample and spans share the numbers of their placeholders.
            span.complete()
            return self._assembler.sample(interaction, session, trace_id, span_id)

        run_id = id_of(interaction.root.id)
        return Work(
            trace_id or run_id,
            build,
            status=interaction.status,
            size=interaction.chars,
            ids=(run_id,) if trace_id is None else (trace_id, run_id),
            trace_id=trace_id,
            span_id=span_id,
            rag_span=span.held,
            traits=functools.partial(traits_of_interaction, interaction),
        )
