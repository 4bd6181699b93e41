"""The queue of finished requests that wait for sampling."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rag_eval_hooks.capture import Interaction, SpanWriter, traits_of_interaction
from rag_eval_hooks.capture.answering import question_of
from rag_eval_hooks.capture.assembler import interaction_of
from rag_eval_hooks.capture.bounded import LeavesOut, LeftOut
from rag_eval_hooks.capture.spans import RequestSpan, application_span
from rag_eval_hooks.decision import Traits
from rag_eval_hooks.redaction import Session
from rag_eval_hooks.request import Request, id_of
from rag_eval_hooks.sample import Sample, Status, sample_of

if TYPE_CHECKING:
    from rag_eval_hooks.runtime.pipeline import Pipeline

_MOST_WAITING: Final = 1000  # above this number, application threads also submit requests
_MOST_STUCK: Final = 10_000  # maximum number of waiting requests while a rule hangs
_READING_S: Final = 2.0  # seconds after which reading in another thread counts as hanging
_PATIENCE_S: Final = 0.5  # seconds after which a rule in another thread counts as hanging
_POLL_S: Final = 0.001


# Thread-safe without a lock, because a hanging sampling rule would never release the lock.
class Intake:
    def __init__(self, pipeline: Pipeline, spans: SpanWriter) -> None:
        self._pipeline, self._spans = pipeline, spans
        self._assembler, self._incidents = pipeline.assembler, pipeline.parts.incidents
        self.leaves_out: LeavesOut | None = None
        self.forked()

    def forked(self) -> None:
        self._waiting: deque[Callable[[], Request | None]] = deque()
        # Threads of running submissions, and times after which the submissions count as hanging.
        self._submitting: dict[object, tuple[int, float]] = {}
        self._spans.forked()

    def add(self, interaction: Interaction) -> None:
        if not interaction.is_readable:
            self._pipeline.refuse("capture_failed")
            return
        self._waiting.append(partial(self._captured, interaction))
        # Decide now, because another instrumentor's span waits for the decision.
        others = interaction.others
        self._added(at_once=others is not None and others.span is not None)

    def add_left_out(self, left: LeftOut) -> None:
        self._waiting.append(partial(_sampled_out, left))
        self._added(at_once=False)

    def _added(self, *, at_once: bool) -> None:
        try:
            if not self._pipeline.watch() or at_once:
                self.tick()
            elif len(self._waiting) > _MOST_STUCK and self._submitting:
                # A rule hangs in another thread, so drop a request.
                self._submit_next(refusal="queue_full")
            elif len(self._waiting) > _MOST_WAITING and not self._submitting:
                self._submit_next()
                self._submit_next()
        except Exception as error:  # noqa: BLE001 - it runs the application's span processors
            self._incidents.report("capture", error)

    def submit(self, given: object, fields: Mapping[str, Any]) -> bool:
        request = None
        try:
            sample = sample_of("submit", given, fields)
            if not sample.question.strip():
                self._incidents.mistake("submit: the question is blank", "pass the user's question")
            for name in self._pipeline.parts.scorer.needed:
                if getattr(sample, name) is None:
                    self._incidents.mistake(f"submit: the sample has no {name}", f"pass {name}=...")
            request = self._own_request(sample)
            is_accepted = self._pipeline.submit(request)
            if request.ending is not None and request.ending.reason in ("shutdown", "no_thread"):
                # No background thread runs, so write the spans now.
                self._spans.drain()
            return is_accepted
        except BaseException as error:  # noqa: BLE001 - the application may pass any object
            self._pipeline.refuse("capture_failed", request)
            self._incidents.report("submit", error)
            return False

    def _own_request(self, sample: Sample) -> Request:
        has_ids = sample.trace_id is not None or sample.span_id is not None
        if has_ids or not self._spans.has_trace:
            own = partial(self._assembler.own, sample) if self._assembler.changes else None
            return Request.of(sample, own)
        interaction, session = interaction_of(sample), self._assembler.session()
        # Use the sample's own key, because the samples of a batch may share a trace.
        interaction.sampling_key = id_of(sample.sample_id)
        span = self._span(interaction, session)
        named = replace(sample, trace_id=span.trace_id, span_id=span.span_id)

        def build() -> Sample:
            span.complete()
            return self._assembler.own(named, session)

        request = Request.of(named, build)
        request.span, request.sampling_key = span.held, interaction.sampling_key
        return request

    def drain(self) -> None:
        while self._submit_next():
            pass
        me = threading.get_ident()
        for key in tuple(self._submitting):
            while (held := self._submitting.get(key)) is not None and held[0] != me:
                if time.monotonic() > held[1]:
                    break
                time.sleep(_POLL_S)

    def tick(self) -> None:
        if self._waiting or self._submitting:
            self.drain()
        self._spans.drain()

    def _span(self, interaction: Interaction, session: Session) -> RequestSpan:
        if self.leaves_out is not None and interaction.status is Status.OK:
            # Use the run's id, because the trace id would come from our own span.
            key = interaction.sampling_key = interaction.sampling_key or id_of(interaction.root.id)
            if self.leaves_out(key, interaction.tags, interaction.metadata):
                return application_span(interaction.otel)
        return self._spans.begin(interaction, partial(self._assembler.attributes, session))

    def _submit_next(self, refusal: str | None = None) -> bool:
        key, request, me = object(), None, threading.get_ident()
        try:
            self._submitting[key] = me, time.monotonic() + _READING_S
            try:
                make = self._waiting.popleft()
            except IndexError:
                return False
            request = make()
            if request is None:
                return True
            self._submitting[key] = me, time.monotonic() + _PATIENCE_S
            if refusal is None:
                self._pipeline.submit(request)
            else:
                self._pipeline.refuse(refusal, request)
        except BaseException as error:  # noqa: BLE001 - it runs the application's code
            self._pipeline.refuse("capture_failed", request)
            self._incidents.report("capture", error)
        finally:
            self._submitting.pop(key, None)
        return True

    def _captured(self, interaction: Interaction) -> Request | None:
        if not self._pipeline.recorder.ended.decide(interaction):
            return None
        session = self._assembler.session()
        request = self._request(interaction, session, self._span(interaction, session))
        if interaction.status is Status.OK and not question_of(interaction)[0].strip():
            self._pipeline.refuse("no_question", request)
            return None
        return request

    def _request(self, interaction: Interaction, session: Session, span: RequestSpan) -> Request:
        trace_id, span_id = span.trace_id, span.span_id

        def build() -> Sample:
            # Write the spans first, because redaction numbers its placeholders in this order.
            span.complete()
            return self._assembler.sample(interaction, session, trace_id, span_id)

        ids = _ids(trace_id, interaction.root.id)
        return Request(
            key=ids[0],
            build=build,
            status=interaction.status,
            size=interaction.chars,
            ids=ids,
            trace_id=trace_id,
            span_id=span_id,
            span=span.held,
            traits=partial(traits_of_interaction, interaction),
            sampling_key=interaction.sampling_key,
        )


def _ids(trace_id: str | None, run_id: object) -> tuple[str, ...]:
    return (id_of(run_id),) if trace_id is None else (trace_id, id_of(run_id))


def _sampled_out(left: LeftOut) -> Request:
    ids = _ids(left.trace_id, left.id)
    return Request(
        key=ids[0],
        build=None,
        status=left.status,
        ids=ids,
        trace_id=left.trace_id,
        traits=partial(Traits, tags=left.tags, metadata=left.metadata),
        sampling_key=left.key,
    )
