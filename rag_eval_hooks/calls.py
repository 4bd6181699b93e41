"""Calls to judge, embedder and token scorer, as logs, spans and metrics see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

__all__ = [
    "BreakerState",
    "Call",
    "CallLog",
    "CallOutcome",
    "CallWatch",
    "Caller",
    "GateState",
    "Gated",
    "Operation",
]


_MAX_LOGGED: Final = 500
"""Calls logged for one evaluation; further ones are only counted."""


class Operation(StrEnum):
    """What a call is for."""

    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    TOKEN_SCORE = "token_score"


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
        provider: Who serves it, by the GenAI conventions, or None where that is unknown.
        local: Whether the model runs in the evaluator itself.
    """

    name: str
    operation: Operation = Operation.CHAT
    provider: str | None = None
    local: bool = False

    @property
    def model(self) -> str:
        """The model without its kind; all of the name where it runs here."""
        kind, _, model = self.name.partition(":")
        return self.name if self.local else model or kind


@dataclass(slots=True)
class Call:
    """A call, without what was asked and told; each retry is one of its own.

    Attributes:
        caller: Who is called.
        outcome: How it ended.
        start: When it was sent, in nanoseconds since the epoch.
        end: When it ended.
        response_model: The model that replied, as the endpoint tells it.
        response_id: The reply's id, likewise.
        input_tokens: Likewise; 0 for unknown.
        output_tokens: The same.
        error: HTTP status or type of what it raised, or None.
    """

    caller: Caller
    outcome: CallOutcome = CallOutcome.OK
    start: int = 0
    end: int = 0
    response_model: str | None = None
    response_id: str | None = None
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    error: str | None = None

    @property
    def seconds(self) -> float:
        """What it took."""
        return (self.end - self.start) / 1e9


class Gated(Protocol):
    """What lets calls through."""

    def state(self) -> GateState:
        """As of now; from any thread."""
        ...


class CallWatch(Protocol):
    """Who listens to all calls of an evaluator. Raises nothing, never waits."""

    def called(self, call: Call) -> None:
        """Takes note of a call that has ended; of models that run here none is told."""
        ...

    def passes(self, caller: Caller, gate: Gated) -> None:
        """Takes note of the gate through which calls go; the same one is told with each."""
        ...


@dataclass(slots=True)
class CallLog:
    """The calls of one evaluation, in the order of their ends.

    Attributes:
        calls: The first ones.
        omitted: How many more there were.
    """

    calls: list[Call] = field(default_factory=list)
    omitted: int = 0

    def called(self, call: Call) -> None:
        """Keeps a call, or that there was one more."""
        if len(self.calls) < _MAX_LOGGED:
            self.calls.append(call)
        else:
            self.omitted += 1
