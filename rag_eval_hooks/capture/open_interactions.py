"""Interactions whose root has not ended: which of them never will."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Hashable, Iterator
from itertools import islice

from rag_eval_hooks.capture.bounded import oldest
from rag_eval_hooks.capture.records import Interaction, RunKind

__all__ = ["OpenInteractions"]

_MAX_CHARS = 400_000_000
"""Characters of text that all open interactions may hold together."""


class OpenInteractions(dict[Hashable, Interaction]):
    """Open interactions by the id of their root, in order of start. Takes no lock.

    Whoever takes one out reports it: a root's end and a sweep may race.
    """

    def old(self, oldest_allowed: int) -> Iterator[Interaction]:
        """Yield interactions that started too long ago, each until it is taken out."""
        while (first := oldest(self)) is not None and first.opened <= oldest_allowed:
            yield first

    def beyond(self, most: int) -> Iterator[Interaction]:
        """Yield the oldest interactions while there are too many, each until it is taken out."""
        while len(self) >= most and (first := oldest(self)) is not None:
            yield first

    def large(self) -> Iterator[Interaction]:
        """Yield the oldest interactions while all together hold too much text."""
        held = [(one, one.chars) for one in list(self.values())]
        excess = sum(chars for _, chars in held) - _MAX_CHARS
        for interaction, chars in held:
            if excess <= 0:
                return
            excess -= chars
            yield interaction

    def left(self, most: int | None = None) -> Iterator[Interaction]:
        """Yield interactions that were cancelled without an event, among the first ones."""
        opened: list[Interaction] = []
        with contextlib.suppress(RuntimeError):
            opened = list(islice(self.values(), most))
        yield from filter(_is_left, opened)


def _is_left(interaction: Interaction) -> bool:
    """Return whether the task that began an open interaction will never end it.

    A stream may be read on by another task. A model's call by itself is never a sample, so that
    any end of its task is its end. A batch reports its beginning in a task of its own, which shows
    no cancellation: it goes on while somebody holds what its end is reported by.
    """
    held = interaction.task
    if held is None:
        return False
    if not isinstance(held, asyncio.AbstractEventLoop):
        if not held.done():
            return False
        if held.cancelled() or interaction.root.kind is RunKind.MODEL:
            return True
        # What it returned may be what the end is reported by.
        interaction.task = held = held.get_loop()
    return held.is_closed() or (interaction.id is not None and interaction.id() is None)
