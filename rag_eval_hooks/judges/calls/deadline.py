"""Until when a sample's questions may take, and what those took that were cut short by it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from rag_eval_hooks.errors import JudgeTimeout
from rag_eval_hooks.usage import Usage

__all__ = ["OUT_OF_TIME", "Tab", "charge", "charged_to", "deadline", "in_time", "late", "until"]

OUT_OF_TIME = "the sample's time ran out"


@dataclass(slots=True)
class Tab:
    """What was taken so far on somebody's account.

    Attributes:
        usage: The sum.
    """

    usage: Usage = field(default_factory=Usage)


_deadline: ContextVar[float | None] = ContextVar("rag_eval_deadline", default=None)
_tab: ContextVar[Tab | None] = ContextVar("rag_eval_tab", default=None)


@contextmanager
def until(when: float) -> Iterator[None]:
    """Sets the deadline of the block and of the tasks begun in it, in the loop's time."""
    token = _deadline.set(when)
    try:
        yield
    finally:
        _deadline.reset(token)


def deadline() -> float | None:
    """The deadline, or None."""
    return _deadline.get()


def in_time() -> bool:
    """Whether there is time left."""
    when = _deadline.get()
    return when is None or asyncio.get_running_loop().time() < when


@contextmanager
def charged_to(tab: Tab) -> Iterator[None]:
    """Has what is taken in the block put on this tab."""
    token = _tab.set(tab)
    try:
        yield
    finally:
        _tab.reset(token)


def charge(usage: Usage) -> None:
    """Puts something on the current tab, if there is one."""
    tab = _tab.get()
    if tab is not None:
        tab.usage += usage


def late(spent: Usage) -> JudgeTimeout:
    """The error of a question that was cut short, with what it took."""
    error = JudgeTimeout(OUT_OF_TIME)
    error.usage = spent
    return error
