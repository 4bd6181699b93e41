"""Keeps interrupted requests of a conversation, which may resume later."""

from __future__ import annotations

import atexit
import contextlib
import time
import weakref
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeAlias

from rag_eval_hooks.capture.bounded import oldest
from rag_eval_hooks.capture.conversation import thread_of
from rag_eval_hooks.capture.records import Interaction, Run, RunKind
from rag_eval_hooks.sample import Status

__all__ = ["Fits", "Suspensions"]

Fits: TypeAlias = Callable[[Interaction], bool]
"""Returns whether a suspended request is about to resume."""


class Suspensions:
    def __init__(self, report: Callable[[Interaction], None], most: int) -> None:
        self._report = report
        self._most = most
        # By root id, with the conversation. The thread that removes an entry owns it.
        self._waiting: dict[Hashable, tuple[str, Interaction]] = {}
        # During interpreter exit no hook can be registered.
        with contextlib.suppress(RuntimeError):
            atexit.register(_close, weakref.ref(self))

    def add(self, interaction: Interaction) -> None:
        """Keep a request with a thread id. Nothing can resume a request without a thread id."""
        root = interaction.root
        conversation = thread_of(root.name, interaction.metadata)
        if conversation is not None:
            interaction.opened = time.time_ns()
            self._waiting[root.id] = conversation, interaction
            if len(self._waiting) > self._most:
                self._give_up_oldest()
        elif interaction.status is Status.INTERRUPTED:
            self._report(interaction)

    def reduce(self, interaction: Interaction) -> None:
        """Keep only the parts of a failed attempt that a retry needs.

        Keep nothing of a successful request with documents, because nothing interrupted that
        request.
        """
        is_done = interaction.status is Status.OK and interaction.retrieves
        if self._remove(interaction) and not is_done:
            self.add(_remainder(interaction))

    def resume(self, run: Run, conversation: str, fits: Fits) -> bool:
        """Continue a conversation's suspended request with an outermost run.

        An interrupted request becomes part of the run. A failed attempt is already counted, so the
        run only gets its question and documents. Returns whether exactly one request matched.
        """
        fitting = self._fitting(conversation, fits)
        interrupted = [one for one in fitting if one.status is Status.INTERRUPTED]
        chosen = (
            interrupted if len(interrupted) == 1 else [o for o in fitting if o not in interrupted]
        )
        if len(chosen) != 1 or not self._remove(chosen[0]):
            return False
        earlier, interaction = chosen[0], run.interaction
        if interrupted == chosen:
            run.start, interaction.otel = earlier.root.start, earlier.otel
        interaction.metadata = {**earlier.metadata, **interaction.metadata}
        interaction.pending.appendleft(partial(_continue, interaction, earlier))
        return True

    def renew(self, conversation: str, fits: Fits) -> None:
        for interaction in self._fitting(conversation, fits):
            self._give_up(interaction)

    def sweep(self, oldest_allowed: float) -> None:
        """Drop the requests that were suspended before a time, in nanoseconds since the epoch."""
        while self._give_up_oldest(oldest_allowed):
            pass

    def close(self) -> None:
        self._most = 0
        self.sweep(float("inf"))

    def interrupted(self) -> list[Interaction]:
        waiting = [one for _, one in list(self._waiting.values())]
        return [one for one in waiting if one.status is Status.INTERRUPTED]

    def _fitting(self, conversation: str, fits: Fits) -> list[Interaction]:
        waiting = [one for name, one in list(self._waiting.values()) if name == conversation]
        return list(filter(fits, waiting))

    def _give_up(self, interaction: Interaction) -> None:
        if self._remove(interaction) and interaction.status is Status.INTERRUPTED:
            self._report(interaction)

    def _give_up_oldest(self, opened_before: float = float("inf")) -> bool:
        first = oldest(self._waiting)
        if first is None or first[1].opened > opened_before:
            return False
        self._give_up(first[1])
        return True

    def _remove(self, interaction: Interaction) -> bool:
        return self._waiting.pop(interaction.root.id, None) is not None


def _close(reference: weakref.ref[Suspensions]) -> None:
    if (suspensions := reference()) is not None:
        suspensions.close()


def _continue(interaction: Interaction, earlier: Interaction) -> None:
    earlier.read()
    if earlier.status is Status.INTERRUPTED:
        interaction.root.query = earlier.root.query or interaction.root.query
        interaction.absorb(earlier)
    else:
        interaction.absorb(_remainder(earlier))


def _remainder(broken: Interaction) -> Interaction:
    giving = {found.run for found in broken.lists if not found.run.within(RunKind.RETRIEVER)}
    kept = broken.part([run for run in broken.runs if run is broken.root or run in giving])
    for run in kept.runs:
        run.prompt, run.text, run.parent = (), None, None
    # The sample of the failed request has these runs.
    kept.runs, kept.prompted = kept.runs[:1], {}
    return kept
