"""Intake of requests: from ended interactions to submitted work, off the request's thread."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rag_eval_hooks.capture import Assembler, Interaction, SpanWriter, traits_of_interaction
from rag_eval_hooks.capture.contexts.questions import question_of
from rag_eval_hooks.capture.request_span import RequestSpan
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.pipeline.pipeline import Pipeline
from rag_eval_hooks.redaction import Session
from rag_eval_hooks.request import Request
from rag_eval_hooks.sample import Sample, Status

__all__ = ["RequestIntake"]

_MOST_WAITING = 1000
"""Requests that may wait for the background thread before requests help it."""
_MOST_STUCK = 10_000
"""Requests that may wait while a rule of the application hangs in it."""
_HANGING_S = 0.1
"""Seconds that one request may take before a rule is taken to hang in it."""
_PATIENCE = 10
"""Times as long for which one thread waits for another that submits requests."""


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
        pipeline: Returns the pipeline of this process, which decides about the requests.
    """

    def __init__(
        self,
        assembler: Assembler,
        spans: SpanWriter,
        incidents: Incidents,
        pipeline: Callable[[], Pipeline],
    ) -> None:
        self._assembler = assembler
        self._spans = spans
        self._incidents = incidents
        self._pipeline = pipeline
        self._start()

    def _start(self) -> None:
        self._waiting: deque[_EndedRequest] = deque()
        # Reentrant: a rule of the application may ask for statistics, which drains the queue.
        self._submitting = threading.RLock()
        self._since: float | None = None

    def forked(self) -> None:
        """Forget all requests in a forked child: the parent submits them."""
        self._start()
        self._spans.forked()

    def add(self, interaction: Interaction) -> None:
        """Start the span of an ended interaction, and queue it for submission. Never raises."""
        if not interaction.is_readable:
            self._pipeline().refuse("capture_failed", None)
            return
        try:
            session = self._assembler.session()
            redact = functools.partial(self._assembler.attributes, session)
            span = self._spans.begin(interaction, redact)
        except Exception as error:  # noqa: BLE001 - the host's edge: its objects and processors
            self._count(error)
            return
        self._waiting.append(_EndedRequest(interaction, session, span))
        will_tick = self._pipeline().watch()
        # The span of another instrumentor waits for the decision.
        if not will_tick or span.is_foreign:
            self.tick()
        elif len(self._waiting) > _MOST_WAITING:
            self._relieve()

    def drain(self) -> None:
        """Submit all requests, including those that another thread is submitting.

        A rule of the application that hangs in that thread is not waited for.
        """
        if not self._take_turn():
            return
        try:
            with contextlib.suppress(IndexError):
                while True:
                    self._submit_one(self._waiting.popleft())
        finally:
            self._submitting.release()

    def _take_turn(self) -> bool:
        """Wait for another thread that submits; return False if a rule hangs in it."""
        for _ in range(_PATIENCE):
            since = self._since
            hangs = since is not None and time.monotonic() - since > _HANGING_S
            if self._submitting.acquire(timeout=0 if hangs else _HANGING_S):
                return True
            if hangs:
                return False
        return False

    def tick(self) -> None:
        """Submit all requests, and write the spans that wait."""
        self.drain()
        self._spans.drain()

    def _relieve(self) -> None:
        """Submit as many requests as keep the queue from growing, unless it is submitted now."""
        if self._submitting.acquire(blocking=False):
            try:
                for _ in range(2):
                    self._submit_one(self._waiting.popleft())
            finally:
                self._submitting.release()
        elif len(self._waiting) > _MOST_STUCK:
            self._pipeline().refuse("queue_full", self._work(self._waiting.popleft()))

    def _submit_one(self, request: _EndedRequest) -> None:
        self._since = time.monotonic()
        try:
            work = self._work(request)
        except Exception as error:  # noqa: BLE001 - the host's edge: its objects
            self._count(error)
        else:
            interaction = request.interaction
            if interaction.status is not Status.OK or question_of(interaction)[0].strip():
                self._pipeline().submit(work)
            else:
                self._pipeline().refuse("no_question", work)
        finally:
            self._since = None

    def _count(self, error: Exception) -> None:
        self._incidents.report("capture", error)
        self._pipeline().refuse("capture_failed", None)

    def _work(self, request: _EndedRequest) -> Request:
        interaction, session, span = request.interaction, request.session, request.span
        trace_id, span_id = span.trace_id, span.span_id

        def build() -> Sample:
            # Spans first: sample and spans share the numbers of their placeholders.
            span.complete()
            return self._assembler.sample(interaction, session, trace_id, span_id)

        run_id = id_of(interaction.root.id)
        return Request(
            key=trace_id or run_id,
            build=build,
            status=interaction.status,
            size=interaction.chars,
            ids=(run_id,) if trace_id is None else (trace_id, run_id),
            trace_id=trace_id,
            span_id=span_id,
            span=span.held,
            traits=functools.partial(traits_of_interaction, interaction),
        )
