"""Amounts of calls, tokens and money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

__all__ = ["Usage", "tokens", "total_by_key"]

K = TypeVar("K")
_BYTES_PER_TOKEN = 3
"""UTF-8 bytes per token: three Latin characters, one and a half Arabic or Cyrillic ones, or one
Chinese one. A low estimate, so that the budget holds with any tokenizer."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Judge calls, their tokens and cost. Shared calls count in fractions.

    Attributes:
        calls: Judge requests sent, including retries. Embedding requests, which many samples share,
            do not count.
        input_tokens: Number of tokens of prompts and embedded texts, as the endpoint reported; 0 if
            unreported.
        output_tokens: Number of tokens of replies.
        cost: Money in the currency of the price table, or None without a price for the model.
    """

    calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cost: float | None = None

    def __add__(self, other: Self) -> Self:
        """Return the sum. The cost is known if either cost is known."""
        cost = other.cost if self.cost is None else self.cost + (other.cost or 0.0)
        return type(self)(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            cost,
        )

    def share(self, parts: int) -> Self:
        """Return one of `parts` equal parts."""
        if parts == 1:
            return self
        return type(self)(
            self.calls / parts,
            self.input_tokens / parts,
            self.output_tokens / parts,
            None if self.cost is None else self.cost / parts,
        )


def total_by_key(one: Mapping[K, Usage], other: Mapping[K, Usage]) -> Mapping[K, Usage]:
    """Return the sum of two usages for each key."""
    if not one or not other:
        return one or other
    total = dict(one)
    for key, used in other.items():
        total[key] = total[key] + used if key in total else used
    return total


def tokens(text: str) -> int:
    """Estimate the tokens of a text, rather too many than too few."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)
