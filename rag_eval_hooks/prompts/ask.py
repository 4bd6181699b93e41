"""What a task still has to learn from a judge, and what one reply told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts.prompt import Prompt

__all__ = ["Ask", "Items", "Reading", "ReplyError", "Values"]

Items: TypeAlias = Mapping[Finding, tuple[str, ...]]
"""The items of each finding by their keys, such as `a1`; a finding without items is left out."""
Values: TypeAlias = Mapping[Finding, Mapping[str, Any]]
"""The content of each item, by the same keys."""


class ReplyError(ValueError):
    """A reply of which nothing can be used. Its text tells the judge why, without content."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reply told.

    Attributes:
        values: Items with a valid content.
        problems: What was wrong with the others, for the judge; holds no content of the sample.
    """

    values: Values
    problems: tuple[str, ...] = ()


class Ask(Protocol):
    """One task as questions to a language model: pure, and open to asking for a part of it."""

    def items(self) -> Items:
        """Everything that a judge has to be asked for this task."""
        ...

    def prompt(self, items: Items, problems: Sequence[str] = ()) -> Prompt:
        """The prompt for these items.

        Args:
            items: A part of `items()`.
            problems: What was wrong with the last reply.
        """
        ...

    def read(self, items: Items, reply: str) -> Reading:
        """What the reply says about the items asked for.

        Raises:
            ReplyError: It is not one JSON object.
        """
        ...

    def content(self, kind: Finding, values: Mapping[str, Any]) -> Any:
        """The finding, from the contents of all of its items."""
        ...
