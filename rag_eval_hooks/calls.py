"""Calls to judge and embedder as they are watched: who tells, who listens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

__all__ = [
    "BreakerState",
    "Call",
    "CallOutcome",
    "CallWatch",
    "Caller",
    "GateState",
    "Gated",
    "Operation",
    "current_watch",
    "watching",
]


class Operation(StrEnum):
    """What a call is for."""

    CHAT = "chat"
    EMBEDDINGS = "embeddings"


class CallOutcome(StrEnum):
    """How a call that was sent ended."""

    OK = "ok"
    """There was a reply; whether it can be read is another question."""
    RATE_LIMITED = "rate_limited"
    """The endpoint wants fewer calls."""
    TIMEOUT = "timeout"
    REFUSED = "refused"
    """The endpoint refused this request."""
    ERROR = "error"
    """It could not be reached, had a fault of its own, or let us in no more."""
    CANCELLED = "cancelled"
    """The sample's time was over, or the evaluator ended."""


class BreakerState(StrEnum):
    """Whether calls are made."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    """One call is made, to see."""


@dataclass(frozen=True, slots=True)
class GateState:
    """A gate at one moment.

    Attributes:
        limit: Calls that may be in flight at once.
        in_flight: Calls that are.
        waiting: Calls that wait.
        breaker: Whether calls are made.
    """

    limit: int
    in_flight: int
    waiting: int
    breaker: BreakerState


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is called.

    Attributes:
        name: Kind and model, such as `openai:gpt-4o-mini`.
        operation: What for.
    """

    name: str
    operation: Operation = Operation.CHAT


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was sent and has ended.

    Attributes:
        caller: Who was called.
        outcome: How it ended.
        seconds: From sending to the end; each retry is a call of its own.
    """

    caller: Caller
    outcome: CallOutcome
    seconds: float


class Gated(Protocol):
    """What lets calls through."""

    def state(self) -> GateState:
        """As of now; from any thread."""
        ...


class CallWatch(Protocol):
    """Who listens. Raises nothing, never waits."""

    def called(self, call: Call) -> None:
        """Takes note of a call."""
        ...

    def passes(self, caller: Caller, gate: Gated) -> None:
        """Takes note of the gate through which calls go; the same one is told with each."""
        ...


_watch: ContextVar[CallWatch | None] = ContextVar("rag_eval_hooks_watch", default=None)


@contextmanager
def watching(watch: CallWatch | None) -> Iterator[None]:
    """Every call in the block, and in tasks begun in it, is told to the watch."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def current_watch() -> CallWatch | None:
    """The watch of the evaluation that the caller runs in."""
    return _watch.get()
