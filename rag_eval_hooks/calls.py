"""Records of calls to the judge, embedder and token scorer, for logs, spans and metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_MAX_LOGGED: Final = 500
"""Maximum number of calls in the log. Later calls are only counted."""


class Operation(StrEnum):
    CHAT = "chat"
    DECISION = "decision"
    EMBEDDINGS = "embeddings"
    TOKEN_SCORE = "token_score"
    ENTAILMENT = "entailment"


class CallOutcome(StrEnum):
    OK = "ok"
    """A reply arrived, readable or not."""
    RATE_LIMITED = "rate_limited"
    """The endpoint rejected the call because of its rate limit."""
    TIMEOUT = "timeout"
    REFUSED = "refused"
    """The endpoint rejected this call as invalid."""
    ERROR = "error"
    """The endpoint was unreachable, had an internal error, or denied access."""
    CANCELLED = "cancelled"
    """The evaluation's timeout passed, or the evaluator shut down."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A model that receives calls.

    Attributes:
        name: Kind and model, such as `openai:gpt-4o-mini`.
        operation: Purpose of the calls.
        provider: Provider name in OpenTelemetry's GenAI conventions, or None if unknown.
        local: Whether the model runs on this machine, in the evaluator.
    """

    name: str
    operation: Operation = Operation.CHAT
    provider: str | None = None
    local: bool = False

    @property
    def model(self) -> str:
        kind, _, model = self.name.partition(":")
        return self.name if self.local else model or kind


@dataclass(slots=True)
class Call:
    """One call to a model, including the client's retries. Contains no texts.

    `start` and `end` are nanoseconds since the epoch. Token counts are 0 if unknown. `error` is the
    HTTP status or the exception's type.
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
        return (self.end - self.start) / 1e9


@dataclass(slots=True)
class CallLog:
    """The first 500 calls of one evaluation, ordered by finish time."""

    calls: list[Call] = field(default_factory=list)
    omitted: int = 0

    def called(self, call: Call) -> None:
        if len(self.calls) < _MAX_LOGGED:
            self.calls.append(call)
        else:
            self.omitted += 1
