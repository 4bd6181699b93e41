"""Value classes for calls to the judge, embedder and token scorer, and for their usage."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

_BYTES_PER_TOKEN: Final = 3  # in UTF-8; real tokens are usually longer


@dataclass(frozen=True, slots=True)
class Usage:
    """Number, tokens and cost of judge calls.

    If several metrics use the same call, each metric counts an equal fraction of the call.

    Attributes:
        calls: Number of judge requests, including retries but not embedding requests.
        input_tokens: Tokens of prompts and embedded texts. Unreported tokens count as 0.
        output_tokens: Tokens of replies. Unreported tokens count as 0.
        cost: Cost in the price table's currency, or None if the model has no price.
    """

    calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cost: float | None = None

    def __add__(self, other: Self) -> Self:
        cost = other.cost if self.cost is None else self.cost + (other.cost or 0.0)
        return type(self)(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            cost,
        )

    def share(self, parts: int) -> Self:
        read, written = self.input_tokens / parts, self.output_tokens / parts
        cost = None if self.cost is None else self.cost / parts
        return type(self)(self.calls / parts, read, written, cost)


UNUSED: Final = Usage()


def tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


class Operation(StrEnum):
    CHAT = "chat"
    DECISION = "decision"
    EMBEDDINGS = "embeddings"
    TOKEN_SCORE = "token_score"
    ENTAILMENT = "entailment"


class CallOutcome(StrEnum):
    OK = "ok"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    ERROR = "error"  # unreachable endpoint, internal error, or denied access
    CANCELLED = "cancelled"  # the evaluation timed out, or the evaluator shut down


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    operation: Operation = Operation.CHAT
    provider: str | None = None  # in OpenTelemetry's GenAI conventions
    local: bool = False  # whether the model runs on this machine

    @property
    def model(self) -> str:
        kind, _, model = self.name.partition(":")
        return self.name if self.local else model or kind


@dataclass(slots=True)
class Call:
    """One call to a model, including the client's retries, but without prompt and reply.

    `start` and `end` are nanoseconds since the epoch. Unknown token counts are 0. `error` is the
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
