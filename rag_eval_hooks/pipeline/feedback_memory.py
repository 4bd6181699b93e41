"""Ended requests that a later feedback can join."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import RATE_LIMIT, Decision
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.request import Column, Ending, Observer, Request
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcomes

__all__ = ["FeedbackMemory", "RecentRequest", "answered"]

_UNREADABLE = ("capture_failed", "redaction_failed")
"""Reasons of requests of which no sample can be built."""


@dataclass(slots=True, eq=False)
class RecentRequest:
    """Request that a feedback can join.

    Attributes:
        ids: Trace id, sample id and run id by which it is known.
        trace_id: Trace id of its RAG span, or None.
        span_id: Span id of its RAG span, or None.
        decision: The sampler's decision, or None if it was never asked.
        build: Returns the sample; None if only the ids are kept.
        size: Characters that `build` keeps in memory.
        evaluated: Ids of the metrics that need no further evaluation.
        done: Set when its own evaluation is over; None if there is none.
        deadline: Seconds on the memory's clock at which it is forgotten.
    """

    ids: tuple[str, ...]
    trace_id: str | None = None
    span_id: str | None = None
    decision: Decision | None = None
    build: Callable[[], Sample] | None = None
    size: int = 0
    evaluated: frozenset[str] = frozenset()
    done: Future[None] | None = None
    deadline: float = field(default=0.0)


class FeedbackMemory(Observer):
    """Bounded memory of ended requests. Thread-safe.

    The oldest requests leave first. If the texts exceed the limit, the oldest requests lose their
    samples and keep their ids. Of several requests with one id, as of two interactions in one
    trace, the latest is found.

    Args:
        size: Requests at most; 0 remembers none.
        chars: Characters of text in all of them at most.
        ttl: Seconds for which each is remembered.
        clock: Returns monotonic seconds.
        keeps_all: Whether samples that were not chosen are kept too, because a feedback may ask
            for their evaluation.
    """

    def __init__(
        self,
        size: int,
        chars: int,
        ttl: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        keeps_all: bool = False,
    ) -> None:
        self._size = size
        self._chars = chars
        self._ttl = ttl
        self._clock = clock
        self._keeps_all = keeps_all
        self._lock = threading.Lock()
        # In order of arrival, which is the order of their deadlines.
        self._requests: OrderedDict[RecentRequest, None] = OrderedDict()
        # The requests among them that keep a text, in the same order.
        self._with_text: OrderedDict[RecentRequest, None] = OrderedDict()
        self._by_id: dict[str, RecentRequest] = {}
        self._chars_kept = 0
        # Requests that were accepted and are not settled.
        self._pending: dict[Request, RecentRequest] = {}

    @classmethod
    def of(cls, config: RagEvalConfig, *, keeps_all: bool) -> FeedbackMemory:
        """Return a memory with the limits of the settings."""
        return cls(
            limits.FEEDBACK_SAMPLES,
            limits.FEEDBACK_CHARS,
            limits.FEEDBACK_SECONDS,
            keeps_all=keeps_all,
        )

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self._requests)

    @property
    def chars(self) -> int:
        """Characters kept."""
        return self._chars_kept

    def accepted(self, work: Request) -> None:
        """Remember a request that is going to be evaluated."""
        if self._size and not work.by_feedback:
            request = _request(work, whole=True)
            request.done = Future()
            self._pending[work] = request
            self.add(request)

    async def begun(self, work: Request) -> None:
        """Remember the id of the sample, by which a sink may give feedback at once."""
        request = self._pending.get(work)
        if request is not None:
            self.identify(request, id_of(work.sample().sample_id))

    async def evaluated(self, work: Request, evaluation: Evaluation) -> None:
        """Remember which metrics have an outcome."""
        request = self._pending.get(work)
        if request is not None:
            request.decision = work.decision
            self.update(request, evaluation.sample, answered(evaluation.outcomes))

    def settled(self, work: Request, ending: Ending) -> None:
        """Keep of a request what a feedback can use, and let waiting feedback join it."""
        if not self._size or work.by_feedback:
            return
        request = self._pending.pop(work, None)
        if request is None:
            chosen = work.decision is not None and work.decision.sampled
            kept = self._keeps_all or (chosen and ending.reason != RATE_LIMIT)
            self.add(_request(work, whole=work.decision is not None and kept))
            return
        if ending.reason in _UNREADABLE:
            self.strip(request)
        elif ending.column is Column.SAMPLED_OUT or ending.reason == RATE_LIMIT:
            request.decision = work.decision
            if self._keeps_all:
                self.update(request, work.judged_sample(), ())
            else:
                self.strip(request)
        if request.done is not None:
            request.done.set_result(None)

    def add(self, request: RecentRequest) -> None:
        """Remember a request; one with more text than the limit is kept without it."""
        if not self._size or not request.ids:
            return
        if request.size > self._chars:
            request.build, request.size = None, 0
        with self._lock:
            request.deadline = self._clock() + self._ttl
            self._requests[request] = None
            self._resize(request, request.build, request.size, before=0)
            for name in request.ids:
                self._by_id[name] = request
            self._trim()

    def find(self, names: Iterable[str]) -> RecentRequest | None:
        """Return the latest request with one of the ids, or None if none is remembered."""
        with self._lock:
            self._trim()
            requests = (self._by_id.get(name) for name in names)
            return next((request for request in requests if request is not None), None)

    def update(self, request: RecentRequest, sample: Sample, evaluated: Iterable[str]) -> None:
        """Keep a request's sample, and note metrics that need no further evaluation."""
        with self._lock:
            request.evaluated |= frozenset(evaluated)
            if request not in self._requests:
                return
            if sample.chars <= self._chars:
                self._resize(request, lambda: sample, sample.chars, before=request.size)
            else:
                self._resize(request, None, 0, before=request.size)
            self._trim()

    def identify(self, request: RecentRequest, name: str) -> None:
        """Add an id to a request."""
        with self._lock:
            if name not in request.ids and request in self._requests:
                request.ids = (*request.ids, name)
                self._by_id[name] = request

    def strip(self, request: RecentRequest) -> None:
        """Drop all but the ids of a request."""
        with self._lock:
            if request in self._requests:
                self._resize(request, None, 0, before=request.size)
            request.build, request.size = None, 0

    def _resize(
        self, request: RecentRequest, build: Callable[[], Sample] | None, size: int, *, before: int
    ) -> None:
        self._chars_kept += size - before
        request.build, request.size = build, size
        if size:
            self._with_text[request] = None
        else:
            self._with_text.pop(request, None)

    def _trim(self) -> None:
        now = self._clock()
        while self._requests:
            oldest = next(iter(self._requests))
            if len(self._requests) <= self._size and oldest.deadline > now:
                break
            self._forget(oldest)
        while self._chars_kept > self._chars:
            oldest = next(iter(self._with_text))
            self._resize(oldest, None, 0, before=oldest.size)

    def _forget(self, request: RecentRequest) -> None:
        del self._requests[request]
        self._chars_kept -= request.size
        self._with_text.pop(request, None)
        for name in request.ids:
            if self._by_id.get(name) is request:
                del self._by_id[name]


def answered(outcomes: Outcomes) -> list[str]:
    """Return the metrics that a feedback need not ask for again."""
    unanswered = (Cause.MISSING_INPUT, Cause.SAMPLED_OUT)
    return [
        name
        for name, outcome in outcomes.items()
        if not (isinstance(outcome, NotScored) and outcome.cause in unanswered)
    ]


def _request(work: Request, *, whole: bool) -> RecentRequest:
    return RecentRequest(
        ids=work.ids,
        trace_id=work.trace_id,
        span_id=work.span_id,
        decision=work.decision,
        build=work.judged_sample if whole else None,
        size=work.size if whole else 0,
    )
