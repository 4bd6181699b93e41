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
    """Purpose of a call."""

    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    TOKEN_SCORE = "token_score"
    ENTAILMENT = "entailment"


class CallOutcome(StrEnum):
    """Outcome of a call that was sent."""

    OK = "ok"
    """There was a reply, readable or not."""
    RATE_LIMITED = "rate_limited"
    """The endpoint wants fewer calls."""
    TIMEOUT = "timeout"
    REFUSED = "refused"
    """The endpoint refused this request."""
    ERROR = "error"
    """The endpoint could not be reached, had an internal error, or denied access."""
    CANCELLED = "cancelled"
    """The sample's time ran out, or the evaluator ended."""


class BreakerState(StrEnum):
    """State of a circuit breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    """One call is let through as a probe."""


@dataclass(frozen=True, slots=True)
class GateState:
    """State of a gate at one moment.

    Attributes:
        limit: Calls that may be in flight at once.
        in_flight: Calls that are.
        waiting: Calls that wait for a slot.
        breaker: State of the circuit breaker.
    """

    limit: int
    in_flight: int
    waiting: int
    breaker: BreakerState


@dataclass(frozen=True, slots=True)
class Caller:
    """Model that is called.

    Attributes:
        name: Kind and model, such as `openai:gpt-4o-mini`.
        operation: Purpose of the calls.
        provider: Provider by the GenAI conventions, or None if unknown.
        local: True for a model that runs in the evaluator itself.
    """

    name: str
    operation: Operation = Operation.CHAT
    provider: str | None = None
    local: bool = False

    @property
    def model(self) -> str:
        """Name of the model without its kind; all of the name for a local model."""
        kind, _, model = self.name.partition(":")
        return self.name if self.local else model or kind


@dataclass(slots=True)
class Call:
    """One call without its content; each retry is a call of its own.

    Attributes:
        caller: Model that is called.
        outcome: Outcome of the call.
        start: Time of sending, in nanoseconds since the epoch.
        end: Time of the end, in nanoseconds since the epoch.
        response_model: Name of the model that replied, as the endpoint reports it.
        response_id: The reply's id.
        input_tokens: Tokens of the prompt; 0 for unknown.
        output_tokens: Tokens of the reply; 0 for unknown.
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
        """Duration in seconds."""
        return (self.end - self.start) / 1e9


class Gated(Protocol):
    """Part that limits the calls to one model."""

    def state(self) -> GateState:
        """Return the present state; may be called from any thread."""
        ...


class CallWatch(Protocol):
    """Observer of all calls of an evaluator. Raises nothing, never waits."""

    def called(self, call: Call) -> None:
        """Record a call that has ended. Calls of local models are not reported."""
        ...

    def passes(self, caller: Caller, gate: Gated) -> None:
        """Record the gate of a model; reported with each call."""
        ...


@dataclass(slots=True)
class CallLog:
    """Calls of one evaluation, in the order in which they ended.

    Attributes:
        calls: The first 500 calls.
        omitted: Number of further calls.
    """

    calls: list[Call] = field(default_factory=list)
    omitted: int = 0

    def called(self, call: Call) -> None:
        """Add a call, or count it if the log is full."""
        if len(self.calls) < _MAX_LOGGED:
            self.calls.append(call)
        else:
            self.omitted += 1
