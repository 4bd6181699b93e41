"""The record of a request, from capture or submission to its outcome."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

from opentelemetry.trace import SpanContext

from rag_eval_hooks.decision import Decision, Traits
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample, Status
from rag_eval_hooks.score import Cause, NotScored, Outcomes

__all__ = [
    "BROKER_DOWN",
    "BUDGET",
    "PARTIAL",
    "Attributes",
    "Column",
    "EndableSpan",
    "Ending",
    "HeldSpan",
    "Observer",
    "Request",
]

Attributes: TypeAlias = Mapping[str, str | float | int | bool | list[str]]

BROKER_DOWN: Final = "broker"
"""Reason of samples that the Celery broker did not accept."""
BUDGET: Final = "budget"
"""Reason of metrics rejected by the budget, and of samples left without a score."""
PARTIAL: Final = "partial"
"""Reason of samples whose judge failed, and whose scores all need no judge."""


class EndableSpan(Protocol):
    """Our span, or a stand-in for another instrumentor's span."""

    def is_recording(self) -> bool: ...

    def set_attributes(self, attributes: Attributes) -> None: ...

    def add_link(self, context: SpanContext) -> None: ...

    def add_event(
        self, name: str, attributes: Attributes | None = None, timestamp: int | None = None
    ) -> None: ...

    def end(self, end_time: int | None = None) -> None: ...


@dataclass(slots=True, eq=False)
class HeldSpan:
    """RAG span of a finished request that waits for scores. Never a current span."""

    span: EndableSpan
    end_time: int
    """End of the request in nanoseconds since the epoch."""
    deadline: float = 0.0
    """Monotonic time in seconds at which the span ends without scores."""


class Column(StrEnum):
    """Columns of the statistics in which a request can end."""

    SCORED = "scored"
    SAMPLED_OUT = "sampled_out"
    DROPPED = "dropped"
    FAILED = "failed"
    SHIPPED = "shipped"
    """A worker on another machine evaluates and counts the request."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Outcome of a request: its column, and its evaluation or the reason of its absence."""

    column: Column
    reason: str = ""
    evaluation: Evaluation | None = None
    probability: float | None = None

    @classmethod
    def dropped(cls, reason: str) -> Ending:
        return cls(Column.DROPPED, reason)

    @classmethod
    def failed(cls, cause: Cause) -> Ending:
        return cls(Column.FAILED, cause.value)

    @classmethod
    def sampled_out(cls, decision: Decision) -> Ending:
        return cls(Column.SAMPLED_OUT, decision.because, probability=decision.probability)

    @classmethod
    def of(cls, evaluation: Evaluation) -> Ending:
        """Return the outcome of an evaluated request: scored, rejected by the budget, or failed."""
        if evaluation.scores:
            if evaluation.lacks_judge:
                return cls(Column.FAILED, PARTIAL, evaluation)
            return cls(Column.SCORED, evaluation=evaluation)
        causes = [one.cause for one in evaluation.outcomes.values() if isinstance(one, NotScored)]
        if Cause.OVER_BUDGET in causes:
            return cls(Column.DROPPED, BUDGET, evaluation)
        # A metric that was sampled out does not explain why the sampled metrics lack a score.
        chosen = [cause for cause in causes if cause is not Cause.SAMPLED_OUT]
        failures = [cause for cause in chosen if cause.is_failure]
        # Without any outcome, the sample lacks the inputs of every metric.
        cause = next(iter(failures or chosen), Cause.MISSING_INPUT)
        return cls(Column.FAILED, cause.value, evaluation)

    @property
    def is_left(self) -> bool:
        """Whether the disk may keep the sample for the next process."""
        return self.reason in ("spooled", "shutdown")

    @property
    def entry(self) -> str:
        """Column and reason as one text: `scored`, `sampled_out`, `dropped:<reason>`, ..."""
        if self.column in (Column.DROPPED, Column.FAILED):
            return f"{self.column.value}:{self.reason}"
        return self.column.value

    @property
    def missing(self) -> dict[str, NotScored]:
        outcomes = {} if self.evaluation is None else self.evaluation.outcomes
        return {name: one for name, one in outcomes.items() if isinstance(one, NotScored)}


@dataclass(slots=True, eq=False, kw_only=True)
class Request:
    """One captured request or submitted sample. Compared by identity.

    The request's thread creates it. Once queued, only the worker's thread writes to it.
    """

    key: str
    """The sampler's hash input: the trace id, or any unique id."""
    build: Callable[[], Sample] | None
    """Builds the sample, once, off the request's thread."""
    status: Status = Status.OK
    size: int = 0
    """Number of characters kept in memory until the request is settled."""
    ids: tuple[str, ...] = ()
    """Ids for `feedback` and `explain`."""
    trace_id: str | None = None
    span_id: str | None = None
    span: HeldSpan | None = None
    traits: Callable[[], Traits] = Traits
    accepted_at: float = field(default_factory=time.time)
    decision: Decision | None = None
    """None before the sampler decides, and for a status that is not evaluated."""
    is_final: bool = False
    """Whether another process or a feedback has made the final decision."""
    by_feedback: bool = False
    """Whether a feedback requested this evaluation of a finished request."""
    is_shipped: bool = False
    accepted: bool = False
    ending: Ending | None = None
    is_counted: bool = False
    """Whether the books have recorded the outcome."""
    evaluated: frozenset[str] = frozenset()
    """Ids of the metrics that a feedback need not request again."""
    is_recovered: bool = False
    """True if a process that has ended accepted it."""
    outcomes: Outcomes | None = None
    """Outcomes that another process has already published, or None."""
    entry: Any = None
    """Job in the outbox, or None."""
    sampling_key: str | None = None
    """Hash input in place of `key`, if the request was sampled at its start."""
    _sample: Sample | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, sample: Sample, build: Callable[[], Sample] | None = None) -> Request:
        """Return the request of an existing sample.

        Args:
            sample: The sample that the sampler decides about.
            build: Builds the sample to evaluate, if it differs.
        """
        names = (sample.trace_id, sample.sample_id)
        return cls(
            key=id_of(sample.trace_id or sample.sample_id),
            build=build or (lambda: sample),
            status=sample.status,
            size=sample.chars,
            ids=tuple([id_of(name) for name in names if name]),
            trace_id=sample.trace_id,
            span_id=sample.span_id,
            traits=lambda: Traits.of(sample),
        )

    def sample(self) -> Sample:
        """Return the sample, always the same object; every call raises an error of `build`."""
        with self._lock:
            if self._sample is None:
                if self.build is None:
                    raise LookupError("the sample was released")
                self._sample = self.build()
                # Both may keep all of the framework's objects alive.
                self.build, self.traits = None, Traits
            return self._sample

    def judged_sample(self) -> Sample:
        """Return the sample to evaluate: without the partial answer of a failed request."""
        sample = self.sample()
        return replace(sample, answer=None) if sample.status is Status.ERROR else sample

    def keep(self, sample: Sample) -> None:
        with self._lock:
            self.build, self._sample = None, sample

    def release(self) -> None:
        with self._lock:
            self.build, self._sample, self.traits = None, None, Traits


class Observer:
    """Base of classes that follow every request. Subclasses override the methods they need.

    The calls for one request have this order: `accepted`, `begun`, `evaluated`, `settled`. A
    request rejected at submission gets only `settled`. Observers are called in a fixed order. An
    exception is counted, and the next observer is still called.
    """

    def accepted(self, request: Request) -> None:
        """Handle a request that got a slot in the queue. Request's thread; never blocks."""

    def begun(self, request: Request) -> None:
        """Handle a request whose sample was built and is evaluated next. Worker's thread."""

    def evaluated(self, request: Request, evaluation: Evaluation) -> None:
        """Handle the evaluation of a request. Worker's thread."""

    def settled(self, request: Request, ending: Ending) -> None:
        """Handle the outcome of a request. Either thread; never blocks.

        Called again only if the application's signal handler interrupted the first call.
        """
