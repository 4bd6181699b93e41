"""Interactions that stopped and may be resumed."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeAlias

from rag_eval_hooks.capture.bounded import oldest
from rag_eval_hooks.capture.conversation import thread_of
from rag_eval_hooks.capture.records import Interaction, Run, RunKind
from rag_eval_hooks.sample import Status

__all__ = ["Fits", "Suspensions"]

Fits: TypeAlias = Callable[[Interaction], bool]
"""Tells whether a suspended interaction of a conversation is the one that is resumed."""


class Suspensions:
    """Interactions that wait for somebody, and what is left of those that broke off.

    Args:
        give_up: Called with each that waited for somebody and is not resumed.
        most: How many of each may wait; the oldest is given up for one more.
    """

    def __init__(self, give_up: Callable[[Interaction], None], most: int) -> None:
        self._interrupted = _Waiting(give_up, most)
        # These are counted already, so nothing happens when they are given up.
        self._broken_off = _Waiting(lambda _: None, most)
        self._closes_at_exit = False

    def interrupted(self, interaction: Interaction) -> None:
        """Keep an interaction that waits for somebody."""
        if not self._closes_at_exit:
            self._closes_at_exit = True
            # None can be registered while the interpreter ends.
            with contextlib.suppress(RuntimeError):
                atexit.register(_close, weakref.ref(self))
        self._interrupted.add(interaction)

    def broken_off(self, interaction: Interaction) -> None:
        """Keep an interaction that may be tried again. It is reported as well."""
        self._broken_off.add(interaction)

    def reduce(self, interaction: Interaction) -> None:
        """Keep of an interaction that broke off, and was read, only what a further try needs.

        One that ended well with documents was not interrupted, so nothing of it is kept.
        """
        is_done = interaction.status is Status.OK and interaction.retrieves
        self._broken_off.replace(interaction, None if is_done else _remainder(interaction))

    def resume(self, run: Run, conversation: str, fits: Fits) -> bool:
        """Continue with an outermost run what was suspended in a conversation.

        An interrupted interaction becomes a part of the run's. One that broke off is counted
        already: the run takes over its question and its documents. Nothing happens where nothing
        fits, or more than one.

        Returns:
            Whether anything was continued.
        """
        interaction = run.interaction
        if (earlier := self._interrupted.take(conversation, fits)) is not None:
            run.start, interaction.otel = earlier.root.start, earlier.otel
        else:
            earlier = self._broken_off.take(conversation, fits)
        if earlier is None:
            return False
        interaction.metadata = {**earlier.metadata, **interaction.metadata}
        interaction.pending.appendleft(partial(_continue, interaction, earlier))
        return True

    def renew(self, conversation: str, fits: Fits) -> None:
        """Give up what was suspended in a conversation that goes on with a new question."""
        self._interrupted.give_up_fitting(conversation, fits)
        self._broken_off.give_up_fitting(conversation, fits)

    def sweep(self, oldest_allowed: int) -> None:
        """Give up those that have waited since before a time, in nanoseconds since the epoch."""
        self._interrupted.sweep(oldest_allowed)
        self._broken_off.sweep(oldest_allowed)

    def close(self) -> None:
        """Give up all that wait for somebody, and from now on each that would."""
        self._interrupted.close()

    @property
    def chars(self) -> int:
        """Characters of text that interrupted interactions hold."""
        return self._interrupted.chars

    def __len__(self) -> int:
        """Return how many wait for somebody."""
        return len(self._interrupted)


def _close(reference: weakref.ref[Suspensions]) -> None:
    suspensions = reference()
    if suspensions is not None:
        suspensions.close()


class _Waiting:
    """Interactions by conversation, until they are resumed or given up.

    Several may wait in one conversation: two pipelines of one name may share a thread.

    Args:
        give_up: Called with each that is not resumed.
        most: How many may wait; the oldest is given up for one more.
    """

    def __init__(self, give_up: Callable[[Interaction], None], most: int) -> None:
        self._give_up = give_up
        self._most = most
        self._waiting: OrderedDict[Hashable, Interaction] = OrderedDict()
        self._conversations: dict[str, tuple[Interaction, ...]] = {}
        self._lock = threading.Lock()

    def add(self, interaction: Interaction) -> None:
        """Keep an interaction; without a thread nothing can resume it, so it is given up."""
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
        """Return how many wait."""
        return len(self._waiting)

    @property
    def chars(self) -> int:
        """Characters that they hold."""
        return sum(interaction.chars for interaction in list(self._waiting.values()))

    def take(self, conversation: str, fits: Fits) -> Interaction | None:
        """Take out the only one in a conversation that fits.

        Where several fit nobody knows which one is resumed, and None is returned.
        """
        fitting = [one for one in self._conversations.get(conversation, ()) if fits(one)]
        return fitting[0] if len(fitting) == 1 and self._remove(fitting[0]) else None

    def give_up_fitting(self, conversation: str, fits: Fits) -> None:
        """Give up those in a conversation that fit: it goes on without them."""
        for one in self._conversations.get(conversation, ()):
            if fits(one) and self._remove(one):
                self._give_up(one)

    def sweep(self, oldest_allowed: int) -> None:
        """Give up those that have waited since before a time, in nanoseconds since the epoch."""
        while (first := oldest(self._waiting)) is not None and first.opened <= oldest_allowed:
            self._give_up_oldest()

    def close(self) -> None:
        """Give up all that wait, and from now on each that would."""
        self._most = 0
        while self._waiting:
            self._give_up_oldest()

    def replace(self, interaction: Interaction, remainder: Interaction | None) -> None:
        """Keep something else in place of one that waits, or nothing."""
        if self._remove(interaction) and remainder is not None:
            self.add(remainder)

    def _give_up_oldest(self) -> None:
        first = oldest(self._waiting)
        if first is not None and self._remove(first):
            self._give_up(first)

    def _remove(self, interaction: Interaction) -> bool:
        """Take one out, and return whether it waited: only one caller gets it."""
        with self._lock:
            if self._waiting.pop(interaction.root.id, None) is None:
                return False
            conversation = _conversation(interaction) or ""
            beside = self._conversations.pop(conversation, ())
            if rest := tuple(one for one in beside if one is not interaction):
                self._conversations[conversation] = rest
            return True


def _continue(interaction: Interaction, earlier: Interaction) -> None:
    """Take over what an interaction left that was interrupted, or broke off."""
    earlier.read()
    if earlier.status is Status.INTERRUPTED:
        interaction.root.query = earlier.root.query or interaction.root.query
        interaction.absorb(earlier)
    else:
        interaction.absorb(_remainder(earlier))


def _remainder(broken: Interaction) -> Interaction:
    """Return a copy with only what a further try needs: question and documents."""
    giving = {found.run for found in broken.lists if not found.run.within(RunKind.RETRIEVER)}
    kept = broken.part([run for run in broken.runs if run is broken.root or run in giving])
    for run in kept.runs:
        run.prompt, run.text, run.parent = (), None, None
    # Its runs are in the sample of the request that broke off.
    kept.runs, kept.prompted = kept.runs[:1], {}
    return kept


def _conversation(interaction: Interaction) -> str | None:
    return thread_of(interaction.root.name, interaction.metadata)
