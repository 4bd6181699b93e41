"""Amounts of calls, tokens and money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

__all__ = ["Usage", "tokens", "total_by_key"]

K = TypeVar("K")
_BYTES_PER_TOKEN = 3
"""Of UTF-8: three Latin characters, one and a half Arabic or Cyrillic ones, or one Chinese one.
A low estimate of what a token holds, so that the budget is kept by any tokeniser in use."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Judge calls, their tokens and cost. A part of a shared call is a fraction of it.

    Attributes:
        calls: Judge requests that were sent, retries and repeated questions included; requests for
            embeddings, which many samples share, are not among them.
        input_tokens: Tokens of prompts and of embedded texts, as the endpoint counted them; 0
            where it does not count.
        output_tokens: Tokens of replies.
        cost: Money in the currency of the price table, or None without a price for the model.
    """

    calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cost: float | None = None

    def __add__(self, other: Self) -> Self:
        """Return the sum; a cost is known as soon as that of one part is."""
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
