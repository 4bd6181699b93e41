"""Answers of a model to a finding's items, and the order of the calls that ask for them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast

from rag_eval_hooks.prompts import Ask
from rag_eval_hooks.score import NotScored
from rag_eval_hooks.usage import Usage

T = TypeVar("T")

Request: TypeAlias = tuple[Ask, Sequence[str]]
"""A finding and the keys of the items to ask for in one prompt."""
_MOST_LEADS = 256
"""Beginnings of prompts that are remembered."""
_LONGEST_LEAD = 5.0
"""Seconds after which the others follow anyway: by then the first reply has begun, or is late."""


@dataclass(slots=True)
class Answers:
    """Contents that a model gave for the items of one finding."""

    values: dict[str, Any] = field(default_factory=dict)
    flawed: set[str] = field(default_factory=set)
    """Items whose content came with a warning once, and that are asked for once more."""
    failure: NotScored | None = None
    """Why asking ended early."""
    problem: str = ""
    """Problem of the last reply, without content."""
    usage: Usage = field(default_factory=Usage)

    def open(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return the items without a content, or with a flaw that asking again may repair."""
        return tuple(key for key in keys if key not in self.values or key in self.flawed)

    def take(self, values: Mapping[str, Any]) -> None:
        """Take over valid contents; a second content for an item is final, flawed or not."""
        for key, content in values.items():
            is_new = bool(getattr(content, "warning", "")) and key not in self.values
            (self.flawed.add if is_new else self.flawed.discard)(key)
            self.values[key] = content

    def absorb(self, other: Answers) -> None:
        """Add the failure, problem and usage of a further request."""
        self.failure = other.failure or self.failure
        self.problem = other.problem or self.problem
        self.usage += other.usage


class Stagger:
    """Lets the first of several calls that begin alike go ahead.

    A provider has a prompt's beginning in its cache once the first reply to it has begun; calls
    that are sent before are charged in full. A call that fails lets the others go too.
    """

    def __init__(self) -> None:
        self._leads: OrderedDict[int, asyncio.Event] = OrderedDict()

    async def run(self, prefix: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, after the first one with the same beginning; None for a call of its own."""
        if prefix is None:
            return await call()
        key = hash((prefix, id(asyncio.get_running_loop())))
        if (lead := self._leads.get(key)) is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(lead.wait(), _LONGEST_LEAD)
            return await call()
        lead = self._leads[key] = asyncio.Event()
        if len(self._leads) > _MOST_LEADS:
            self._leads.popitem(last=False)
        try:
            return await call()
        finally:
            lead.set()


async def gathered(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of all parts; the first error is raised once all have ended."""
    results = await asyncio.gather(*parts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[T]", results)
