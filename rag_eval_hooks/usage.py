"""`Usage`: number of calls, tokens and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

K = TypeVar("K")
_BYTES_PER_TOKEN = 3
"""UTF-8 bytes per token in estimates.

Real tokens are usually longer. So estimates are too high, and the budget holds.
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Judge calls with their tokens and cost. Metrics share a call in equal parts.

    Attributes:
        calls: Number of judge requests, including retries. Embedding requests do not count, because
            many samples share them.
        input_tokens: Tokens of prompts and embedded texts as the endpoint reported; 0 if
            unreported.
        output_tokens: Tokens of replies as the endpoint reported; 0 if unreported.
        cost: Cost in the price table's currency, or None if the model has no price.
    """

    calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cost: float | None = None

    def __add__(self, other: Self) -> Self:
        """Return the sum. If one cost is unknown, the sum has the other cost."""
        cost = other.cost if self.cost is None else self.cost + (other.cost or 0.0)
        return type(self)(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            cost,
        )

    def share(self, parts: int) -> Self:
        """Return one of `parts` equal parts of this usage."""
        if parts == 1:
            return self
        return type(self)(
            self.calls / parts,
            self.input_tokens / parts,
            self.output_tokens / parts,
            None if self.cost is None else self.cost / parts,
        )


def total_by_key(one: Mapping[K, Usage], other: Mapping[K, Usage]) -> Mapping[K, Usage]:
    if not one or not other:
        return one or other
    total = dict(one)
    for key, used in other.items():
        total[key] = total[key] + used if key in total else used
    return total


def tokens(text: str) -> int:
    """Estimate the number of tokens in a text. The estimate tends to be too high."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)
