"""`Request`: the state of one captured request, from capture to its outcome."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

from opentelemetry.trace import SpanContext

from rag_eval_hooks.decision import Decision, Traits
from rag_eval_hooks.errors import wrong_type
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample, Status
from rag_eval_hooks.score import Cause, NotScored

Attributes: TypeAlias = Mapping[str, str | float | int | bool | list[str]]

BROKER_DOWN: Final = "broker"  # drop reasons
BUDGET: Final = "budget"
PARTIAL: Final = "partial"  # failure reason


class EndableSpan(Protocol):
    def is_recording(self) -> bool: ...

    def set_attributes(self, attributes: Attributes) -> None: ...

    def add_link(self, context: SpanContext) -> None: ...

    def end(self, end_time: int | None = None) -> None: ...


@dataclass(slots=True, eq=False)
class HeldSpan:
    span: EndableSpan
    end_time: int  # nanoseconds since the epoch
    deadline: float = 0.0  # monotonic time in seconds at which the span ends without scores


class Column(StrEnum):
    # Each value is the name of a field of `Stats`.
    SCORED = "scored"
    SAMPLED_OUT = "sampled_out"
    DROPPED = "dropped"
    FAILED = "failed"
    SHIPPED = "shipped"


@dataclass(frozen=True, slots=True)
class Ending:
    column: Column
    reason: str = ""
    evaluation: Evaluation | None = None
    probability: float | None = None

    @classmethod
    def dropped(cls, reason: str) -> Ending:
        return cls(Column.DROPPED, reason)

    @classmethod
    def of(cls, evaluation: Evaluation) -> Ending:
        if evaluation.scores:
            if evaluation.lacks_judge:
                return cls(Column.FAILED, PARTIAL, evaluation)
            return cls(Column.SCORED, evaluation=evaluation)
        causes = [one.cause for one in evaluation.outcomes.values() if isinstance(one, NotScored)]
        if Cause.OVER_BUDGET in causes:
            return cls(Column.DROPPED, BUDGET, evaluation)
        # Sampled-out metrics do not explain why the other metrics have no score.
        chosen = [cause for cause in causes if cause is not Cause.SAMPLED_OUT]
        failures = [cause for cause in chosen if cause.is_failure]
        # If there are no outcomes, every metric lacks an input.
        cause = next(iter(failures or chosen), Cause.MISSING_INPUT)
        return cls(Column.FAILED, cause.value, evaluation)

    @property
    def is_left(self) -> bool:
        return self.reason in ("spooled", "shutdown")

    @property
    def missing(self) -> dict[str, NotScored]:
        outcomes = {} if self.evaluation is None else self.evaluation.outcomes
        return {name: one for name, one in outcomes.items() if isinstance(one, NotScored)}


@dataclass(slots=True, eq=False, kw_only=True)
class Request:
    # Once a request is in the queue, only the evaluator thread changes the request.
    key: str  # trace id or another unique id, which the sampler hashes
    build: Callable[[], Sample] | None  # runs once, outside the application's thread
    status: Status = Status.OK
    size: int = 0  # characters that the request keeps in memory
    ids: tuple[str, ...] = ()  # accepted by `feedback` and `explain`
    trace_id: str | None = None
    span_id: str | None = None
    span: HeldSpan | None = None
    traits: Callable[[], Traits] = Traits
    accepted_at: float = field(default_factory=time.time)
    decision: Decision | None = None  # None before sampling, or if no metric applies to the status
    is_final: bool = False  # another process or feedback made the decision
    by_feedback: bool = False
    is_shipped: bool = False
    accepted: bool = False
    ending: Ending | None = None
    is_counted: bool = False
    evaluated: frozenset[str] = frozenset()  # ids of metrics that feedback must not request again
    is_recovered: bool = False  # the request comes from the spool
    entry: Any = None
    sampling_key: str | None = None  # key for the sampler if the request was sampled at its start
    _sample: Sample | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, sample: Sample, build: Callable[[], Sample] | None = None) -> Request:
        ids = tuple(map(id_of, filter(None, (sample.trace_id, sample.sample_id))))
        return cls(
            key=next(iter(ids), ""),
            build=build,
            _sample=None if build else sample,
            status=sample.status,
            size=sample.chars,
            ids=ids,
            trace_id=sample.trace_id,
            span_id=sample.span_id,
            traits=lambda: Traits.of(sample),
        )

    def sample(self) -> Sample:
        with self._lock:
            if self._sample is None:
                if self.build is None:
                    raise LookupError("The request has released its sample.")
                self._sample = self.build()
                if (name := id_of(self._sample.sample_id)) not in self.ids:
                    self.ids = (*self.ids, name)
                # `build` may keep many objects of the framework alive.
                self.build, self.traits = None, Traits
            return self._sample

    def judged_sample(self) -> Sample:
        sample = self.sample()
        return replace(sample, answer=None) if sample.status is Status.ERROR else sample

    def keep(self, sample: Sample) -> None:
        with self._lock:
            self.build, self._sample = None, sample

    def release(self) -> None:
        with self._lock:
            self.build, self._sample, self.traits = None, None, Traits


class Observer:
    """Receives each event of a request. No method may block."""

    def accepted(self, request: Request) -> None:
        """The pipeline accepted the request for evaluation. Any thread may call this method."""

    def evaluated(self, request: Request, evaluation: Evaluation) -> None:
        """The request has an evaluation result. The worker's thread calls this method."""

    def settled(self, request: Request, ending: Ending) -> None:
        """The request has its final outcome. Any thread may call this method.

        If a signal handler interrupts the call with an exception, the pipeline repeats the call.
        """


def id_of(value: object) -> str:
    if isinstance(value, uuid.UUID):
        return value.hex
    if isinstance(value, int):
        return f"{value:032x}"
    text = str(value).strip()
    try:
        return uuid.UUID(text.lower().removeprefix("0x")).hex
    except ValueError:
        return text


def given_id(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str | uuid.UUID):
        raise wrong_type("The id", "a trace id, or a sample's sample_id", value)
    return id_of(value)
