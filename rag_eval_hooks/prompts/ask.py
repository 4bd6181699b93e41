"""What a task still has to learn from a judge, and what one reply told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts.prompt import Prompt
from rag_eval_hooks.usage import Usage

__all__ = ["WHOLE", "Ask", "Items", "Reading", "ReplyError", "Values", "only_lines"]

Items: TypeAlias = Mapping[Finding, tuple[str, ...]]
"""The items of each finding by their keys, such as `a1`; a finding without items is left out."""
Values: TypeAlias = Mapping[Finding, Mapping[str, Any]]
"""The content of each item, by the same keys."""
WHOLE = "whole"
"""The one key of a finding that is given as a whole or not at all."""


class ReplyError(ValueError):
    """A reply of which nothing can be used. Its text tells the judge why, without content.

    Args:
        text: What was wrong with it.
        usage: What the reply took, where the transport knows; by default one call.
    """

    def __init__(self, text: str, usage: Usage | None = None) -> None:
        super().__init__(text)
        self.usage = usage or Usage(calls=1)


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

    def possible(self, kind: Finding) -> bool:
        """Whether the task has the texts that the finding is made from."""
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


def only_lines(items: Items, every: Items) -> list[str]:
    """A line for each finding of which only some items are asked for."""
    return [
        f"- {kind.value}: only for {', '.join(keys)}."
        for kind, keys in items.items()
        if len(keys) < len(every[kind])
    ]
