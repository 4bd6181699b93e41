"""Interactions that wait for somebody before they go on."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from rag_eval_hooks.capture.conversation import thread_of
from rag_eval_hooks.capture.run import Interaction

__all__ = ["Parked"]


class Parked:
    """Interrupted interactions by their conversation, until they are resumed or given up.

    Args:
        give_up: Called with each that is not resumed.
        ttl_ns: Nanoseconds that one may wait.
        most: How many may wait; the oldest is given up for one more.
    """

    def __init__(self, give_up: Callable[[Interaction], None], ttl_ns: int, most: int) -> None:
        self._give_up = give_up
        self._ttl_ns = ttl_ns
        self._most = most
        self._waiting: OrderedDict[str, Interaction] = OrderedDict()

    def park(self, interaction: Interaction) -> None:
        """Keeps one; where no thread is known nothing can resume it, so it is given up."""
        conversation = thread_of(interaction.root.name, interaction.metadata)
        if conversation is None:
            self._give_up(interaction)
            return
        earlier = self._waiting.pop(conversation, None)
        interaction.opened = time.time_ns()
        self._waiting[conversation] = interaction
        if earlier is not None:
            self._give_up(earlier)
        if len(self._waiting) > self._most:
            self._give_up_oldest()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def chars(self) -> int:
        """Characters that they hold."""
        return sum(interaction.chars for interaction in list(self._waiting.values()))

    def take(self, conversation: str) -> Interaction | None:
        """The one that waits in a conversation, which then waits no longer."""
        return self._waiting.pop(conversation, None)

    def sweep(self, oldest_allowed: int) -> None:
        """Gives up what waits since before a time; nanoseconds since the epoch."""
        while self._waiting:
            try:
                oldest = next(iter(self._waiting.values()))
            except (StopIteration, RuntimeError):
                return
            if oldest.opened > oldest_allowed:
                return
            self._give_up_oldest()

    def close(self) -> None:
        """Gives up all that wait, and from now on each that would."""
        self._most = 0
        while self._waiting:
            self._give_up_oldest()

    def _give_up_oldest(self) -> None:
        try:
            _, oldest = self._waiting.popitem(last=False)
        except KeyError:
            # Another thread was faster.
            return
        self._give_up(oldest)
