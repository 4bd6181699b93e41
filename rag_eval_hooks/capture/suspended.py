"""Interactions that wait for somebody before they go on."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeAlias

from rag_eval_hooks.capture.conversation import thread_of
from rag_eval_hooks.capture.interaction import Interaction

__all__ = ["Fits", "Parked"]

Fits: TypeAlias = Callable[[Interaction], bool]
"""Whether one that waits in a conversation is the one that goes on."""


class Parked:
    """Interactions that stopped, by their conversation, until they are resumed or given up.

    Several may wait in one conversation: two pipelines of one name may share a thread.

    Args:
        give_up: Called with each that is not resumed.
        ttl_ns: Nanoseconds that one may wait.
        most: How many may wait; the oldest is given up for one more.
    """

    def __init__(self, give_up: Callable[[Interaction], None], ttl_ns: int, most: int) -> None:
        self._give_up = give_up
        self._ttl_ns = ttl_ns
        self._most = most
        self._waiting: OrderedDict[Hashable, Interaction] = OrderedDict()
        self._conversations: dict[str, tuple[Interaction, ...]] = {}
        self._lock = threading.Lock()

    def park(self, interaction: Interaction) -> None:
        """Keeps one; where no thread is known nothing can resume it, so it is given up."""
        conversation = _conversation(interaction)
        if conversation is None:
            self._give_up(interaction)
            return
        interaction.opened = time.time_ns()
        with self._lock:
            beside = self._conversations.get(conversation, ())
            self._conversations[conversation] = (*beside, interaction)
            self._waiting[interaction.root.id] = interaction
        if len(self._waiting) > self._most:
            self._give_up_oldest()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def chars(self) -> int:
        """Characters that they hold."""
        return sum(interaction.chars for interaction in list(self._waiting.values()))

    def take(self, conversation: str, fits: Fits) -> Interaction | None:
        """The only one in a conversation that fits, which then waits no longer.

        Where several fit nobody knows which one goes on, and none does.
        """
        found = [one for one in self._conversations.get(conversation, ()) if fits(one)]
        return found[0] if len(found) == 1 and self._remove(found[0]) else None

    def pass_over(self, conversation: str, fits: Fits) -> None:
        """Gives up those in a conversation that fit: it goes on without them."""
        for one in self._conversations.get(conversation, ()):
            if fits(one) and self._remove(one):
                self._give_up(one)

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
            oldest = next(iter(self._waiting.values()))
        except (StopIteration, RuntimeError):
            # Another thread was faster.
            return
        if self._remove(oldest):
            self._give_up(oldest)

    def _remove(self, interaction: Interaction) -> bool:
        """Whether it waited: whoever takes it out has it."""
        with self._lock:
            if self._waiting.pop(interaction.root.id, None) is None:
                return False
            conversation = _conversation(interaction) or ""
            beside = self._conversations.pop(conversation, ())
            if rest := tuple(one for one in beside if one is not interaction):
                self._conversations[conversation] = rest
            return True


def _conversation(interaction: Interaction) -> str | None:
    return thread_of(interaction.root.name, interaction.metadata)
