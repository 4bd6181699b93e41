"""Where texts stand in prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Place", "Prompts"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text stands: the number of the prompt, and the span in it."""

    prompt: int
    start: int
    length: int

    def holds(self, other: Place) -> bool:
        """Whether the other place lies within this one."""
        ends = self.start + self.length, other.start + other.length
        return self.prompt == other.prompt and self.start <= other.start and ends[1] <= ends[0]


class Prompts:
    """Several prompts in which texts are looked for.

    Args:
        texts: With folded white space, in order.
        question: What the user asked, folded. In a conversation earlier turns stand before it,
            with documents of their own; what stands behind it is of this turn.
    """

    def __init__(self, texts: Sequence[str], question: str) -> None:
        self._texts = [(text, text.rfind(question) if question else -1) for text in texts]

    def find(self, text: str) -> Place | None:
        """The first place of a text behind the question, else the first at all."""
        for number, (prompt, asked) in enumerate(self._texts):
            start = prompt.find(text, asked) if asked > 0 else -1
            if start < 0:
                start = prompt.find(text)
            if start >= 0:
                return Place(number, start, len(text))
        return None
