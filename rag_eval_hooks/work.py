"""One record of a request from submission to its end, and the observers of its way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from opentelemetry.trace import SpanContext

from rag_eval_hooks.decision import Decision, Traits
from rag_eval_hooks.ending import Ending, Evaluation
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.sample import Sample, Status
from rag_eval_hooks.score import Outcomes

__all__ = ["Attributes", "EndableSpan", "HeldSpan", "Observer", "Work"]

Attributes: TypeAlias = Mapping[str, str | float | int | bool | list[str]]


class EndableSpan(Protocol):
    """A span of ours, or a stand-in for a span of another instrumentor."""

    def is_recording(self) -> bool:
        """Return whether what is set will be exported: it has not ended."""
        ...

    def set_attributes(self, attributes: Attributes) -> None:
        """Set attributes."""
        ...

    def add_link(self, context: SpanContext) -> None:
        """Add a link."""
        ...

    def add_event(
        self, name: str, attributes: Attributes | None = None, timestamp: int | None = None
    ) -> None:
        """Add an event."""
        ...

    def end(self, end_time: int | None = None) -> None:
        """End the span."""
        ...


@dataclass(slots=True, eq=False)
class HeldSpan:
    """RAG span whose request is over and that has not ended yet.

    Attributes:
        span: The span; never current in any context.
        end_time: End of the request in nanoseconds since the epoch.
        deadline: Seconds on the monotonic clock at which it ends without scores.
    """

    span: EndableSpan
    end_time: int
    deadline: float = field(default=0.0)


class Work:
    """One request, or one sample of the application's own, from submission to its end.

    Compared by identity. The request's thread creates it; from `Observer.accepted` on, the
    evaluator's thread is its only writer.

    Args:
        key: Key that the sampler hashes: the trace id, or any unique id.
        build: Builds the sample; called at most once, in the evaluator or the spool's thread.
        status: Status with which the request ended.
        size: Characters that it keeps in memory until it is settled.
        ids: Ids by which feedback and `explain` find it.
        trace_id: 32 hex digits of the RAG span's trace, or None.
        span_id: 16 hex digits of the RAG span, or None.
        rag_span: The RAG span with its true end time, if one is recorded.
        traits: Returns what rules compare; called only if there are rules.
        accepted_at: Seconds since the epoch; the time of creation by default.
        probability: Inclusion probability when a process that has ended accepted it, or None.
        reason: Reason of that choice.
        outcomes: Outcomes that such a process had evaluated already, or None.
        sinks: Sinks that still lack these outcomes, with the position of a resumable one before
            its delivery.
        tries: Evaluations of it that were begun before, none of which ended.

    Attributes:
        decision: The sampler's decision; None before it, or if its status is not evaluated.
        is_final: Whether another process decided for good.
        by_feedback: Whether a feedback asked for this evaluation of an ended request.
        accepted: Whether it was queued.
        ending: Its end, once it is settled.
        entry: Handle of the spool, or None.
    """

    __slots__ = (
        "_build",
        "_lock",
        "_sample",
        "accepted",
        "accepted_at",
        "by_feedback",
        "decision",
        "ending",
        "entry",
        "ids",
        "is_final",
        "key",
        "outcomes",
        "probability",
        "rag_span",
        "reason",
        "sinks",
        "size",
        "span_id",
        "status",
        "trace_id",
        "traits",
        "tries",
    )

    def __init__(
        self,
        key: str,
        build: Callable[[], Sample],
        *,
        status: Status = Status.OK,
        size: int = 0,
        ids: tuple[str, ...] = (),
        trace_id: str | None = None,
        span_id: str | None = None,
        rag_span: HeldSpan | None = None,
        traits: Callable[[], Traits] = Traits,
        accepted_at: float | None = None,
        probability: float | None = None,
        reason: str = "",
        outcomes: Outcomes | None = None,
        sinks: Mapping[str, int | None] | None = None,
        tries: int = 0,
    ) -> None:
        self.key = key
        self.status = status
        self.size = size
        self.ids = ids
        self.trace_id = trace_id
        self.span_id = span_id
        self.rag_span = rag_span
        self.traits = traits
        self.accepted_at = time.time() if accepted_at is None else accepted_at
        self.probability = probability
        self.reason = reason
        self.outcomes = outcomes
        self.sinks: Mapping[str, int | None] = sinks or {}
        self.tries = tries
        self.decision: Decision | None = None
        self.is_final = False
        self.by_feedback = False
        self.accepted = False
        self.ending: Ending | None = None
        self.entry: Any = None
        self._build: Callable[[], Sample] | None = build
        self._sample: Sample | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, sample: Sample, build: Callable[[], Sample] | None = None) -> Work:
        """Return the work of a sample that exists already.

        Args:
            sample: The sample that the decision is about.
            build: Builds the sample to evaluate, if that is another one.
        """
        return cls(
            key=id_of(sample.trace_id or sample.sample_id),
            build=build or (lambda: sample),
            status=sample.status,
            size=sample.chars,
            ids=tuple(map(id_of, filter(None, (sample.trace_id, sample.sample_id)))),
            trace_id=sample.trace_id,
            span_id=sample.span_id,
            traits=lambda: Traits.of(sample),
        )

    @property
    def is_recovered(self) -> bool:
        """True if a process that has ended accepted it."""
        return self.probability is not None

    def sample(self) -> Sample:
        """Return the sample, always the same one. Thread-safe.

        Raises:
            Exception: Whatever building it raises; raised anew by every call.
        """
        with self._lock:
            if self._sample is None:
                if self._build is None:
                    raise LookupError("the sample was released")
                self._sample = self._build()
                # The builder may keep all objects alive that the framework handed over.
                self._build = None
            return self._sample

    def judged_sample(self) -> Sample:
        """Return the sample as it is evaluated: the partial answer of a failed request is left out.

        Raises:
            Exception: Whatever building the sample raises.
        """
        sample = self.sample()
        return replace(sample, answer=None) if sample.status is Status.ERROR else sample

    def release(self) -> None:
        """Drop the sample, once nobody needs it any more, so that a reference keeps no text."""
        with self._lock:
            self._build = self._sample = None


class Observer:
    """Base of the concerns that follow every request; each overrides the moments it needs.

    For one request the moments come in this order: `accepted`, `begun`, `evaluated`, `settled`.
    A request that is refused at submission has `settled` alone. Observers are called in the order
    of one tuple, and raise nothing.
    """

    def accepted(self, work: Work) -> None:
        """React to a request that has its slot in the queue. Request's thread; never blocks."""

    async def begun(self, work: Work) -> None:
        """React to a request whose sample was built and is evaluated next. Evaluator's thread."""

    async def evaluated(self, work: Work, evaluation: Evaluation) -> None:
        """React to the evaluation of a request. Evaluator's thread."""

    def settled(self, work: Work, ending: Ending) -> None:
        """React to the end of a request, exactly once. Either thread; never blocks."""
