"""Interface of a task to a language model: items, prompts and readings."""

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
    """Reply of which nothing can be used. The text tells the judge why, without content.

    Args:
        text: Problem of the reply.
        usage: Usage of the reply, if the transport knows it; by default one call.
    """

    def __init__(self, text: str, usage: Usage | None = None) -> None:
        super().__init__(text)
        self.usage = usage or Usage(calls=1)


@dataclass(frozen=True, slots=True)
class Reading:
    """Contents of one reply.

    Attributes:
        values: Valid contents by item.
        problems: Problems of the others, for the judge; without content of the sample.
    """

    values: Values
    problems: tuple[str, ...] = ()


class Ask(Protocol):
    """Task as questions to a language model. Any part of its items can be asked for."""

    def items(self) -> Items:
        """Return all items that a judge has to be asked for."""
        ...

    def possible(self, kind: Finding) -> bool:
        """Tell if the task has the texts that the finding is made from."""
        ...

    def prompt(self, items: Items, problems: Sequence[str] = ()) -> Prompt:
        """Make the prompt for these items.

        Args:
            items: A part of `items()`.
            problems: Problems of the last reply.
        """
        ...

    def read(self, items: Items, reply: str) -> Reading:
        """Read the contents of the items from a reply.

        Raises:
            ReplyError: It is not one JSON object.
        """
        ...

    def content(self, kind: Finding, values: Mapping[str, Any]) -> Any:
        """Make the finding from the contents of all of its items."""
        ...


def only_lines(items: Items, every: Items) -> list[str]:
    """Make a line for each finding of which only some items are asked for."""
    return [
        f"- {kind.value}: only for {', '.join(keys)}."
        for kind, keys in items.items()
        if len(keys) < len(every[kind])
    ]
