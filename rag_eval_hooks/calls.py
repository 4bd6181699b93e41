"""Records calls to judge, embedder and token scorer for logs, spans and metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

__all__ = ["Call", "CallLog", "CallOutcome", "Caller", "Operation"]

_MAX_LOGGED: Final = 500
"""Calls logged per evaluation. Later calls are only counted."""


class Operation(StrEnum):
    """Purpose of a call."""

    CHAT = "chat"
    DECISION = "decision"
    EMBEDDINGS = "embeddings"
    TOKEN_SCORE = "token_score"
    ENTAILMENT = "entailment"


class CallOutcome(StrEnum):
    """Outcome of a call that was sent."""

    OK = "ok"
    """A reply arrived, readable or not."""
    RATE_LIMITED = "rate_limited"
    """The endpoint asks for fewer calls."""
    TIMEOUT = "timeout"
    REFUSED = "refused"
    """The endpoint rejected this request."""
    ERROR = "error"
    """The endpoint was unreachable, had an internal error, or denied access."""
    CANCELLED = "cancelled"
    """The sample's time ran out, or the evaluator shut down."""


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
        """Name of the model without its kind. A local model has its full name."""
        kind, _, model = self.name.partition(":")
        return self.name if self.local else model or kind


@dataclass(slots=True)
class Call:
    """One call without content, including all retries of its client.

    `start` and `end` are nanoseconds since the epoch. Unknown tokens are 0. `error` is the HTTP
    status or the type of the exception.
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


@dataclass(slots=True)
class CallLog:
    """The first 500 calls of one evaluation, in the order in which they finished."""

    calls: list[Call] = field(default_factory=list)
    omitted: int = 0
    """Number of calls after the first 500."""

    def called(self, call: Call) -> None:
        """Add a call, or count it if the log is full."""
        if len(self.calls) < _MAX_LOGGED:
            self.calls.append(call)
        else:
            self.omitted += 1
