"""Results that a sink did not take: they stay in the spool, and are delivered again."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Final

from rag_eval_hooks.backoff import Backoff
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery.delivery import Line, Missed
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.pipeline.spooled import Spooled
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcome, Outcomes, Score
from rag_eval_hooks.spool.entry import Entry
from rag_eval_hooks.suppress import quiet
from rag_eval_hooks.work import Ending, Evaluation

__all__ = ["Redelivery"]

_LAST_TRY: Final = 1.0
"""Seconds that a try may still take when all ends."""
_OUTCOME_CHARS: Final = 500
_MOST_LEFT: Final = 10_000
"""Results left in the spool that are remembered, to be taken up again: some megabytes."""


@dataclass(slots=True)
class _Parcel:
    entry: Entry
    sample: Sample
    outcomes: Outcomes
    column: str
    chars: int
    sinks: int
    """That still lack it."""
    since: float = field(default_factory=time.monotonic)


@dataclass(order=True, slots=True)
class _Errand:
    """A parcel for one sink; those that were tried less often come first."""

    tries: int
    number: int
    parcel: _Parcel = field(compare=False)
    missed: Missed = field(compare=False)


class Redelivery:
    """Calls sinks again with what they did not take, each at its own pace.

    What is too much for memory is left in the spool, and taken over from there, as if a process
    had ended, once half of the memory is free. To be used in the evaluator's loop, but for `stop`.

    Args:
        durable: Holds the samples.
        incidents: Where losses are counted.
        max_chars: Characters of results that may wait in memory.
        retry_for: Seconds for which a result is tried at least.
        keep_for: Seconds after the sample's acceptance when it is given up.
    """

    def __init__(
        self,
        durable: Spooled,
        incidents: Incidents,
        *,
        max_chars: int,
        retry_for: float,
        keep_for: float,
    ) -> None:
        self._durable = durable
        self._incidents = incidents
        self._max_chars = max_chars
        self._retry_for = retry_for
        self._keep_for = keep_for
        self._queues: dict[Line, _Queue] = {}
        self._left: list[Entry] = []
        self._chars = 0
        self._stopped = False

    @classmethod
    def of(cls, config: RagEvalConfig, durable: Spooled, incidents: Incidents) -> Redelivery:
        """With the limits that hold for platforms too."""
        return cls(
            durable,
            incidents,
            max_chars=config.sink_queue_chars,
            retry_for=config.sink_retry_for,
            keep_for=config.sink_keep_for,
        )

    def add(self, entry: Entry, evaluation: Evaluation, missed: Sequence[Missed]) -> None:
        """Takes over a result that the spool holds, and that these sinks did not take."""
        sample, outcomes = evaluation.sample, evaluation.outcomes
        chars = sample.chars + sum(map(_chars_of, outcomes.values()))
        if self._stopped or (self._chars and self._chars + chars > self._max_chars):
            self._leave(entry, missed)
            return
        self._chars += chars
        parcel = _Parcel(entry, sample, outcomes, Ending.of(evaluation).entry, chars, len(missed))
        for one in missed:
            if one.line not in self._queues:
                self._queues[one.line] = _Queue(
                    self._done, self._lost, self._is_late, lambda: self._stopped
                )
            self._queues[one.line].put(parcel, one)

    def _leave(self, entry: Entry, missed: Sequence[Missed]) -> None:
        for one in missed:
            self._incidents.count(f"{one.line.name}: left in the spool")
        if len(self._left) < _MOST_LEFT:
            entry.forget()
            self._left.append(entry)

    def stop(self) -> None:
        """Begins no further try. Thread-safe."""
        self._stopped = True

    async def close(self) -> None:
        """Ends, after the tries in flight; what waits is in the spool, for the next process."""
        self.stop()
        await asyncio.gather(*(queue.close() for queue in self._queues.values()))

    def _is_late(self, parcel: _Parcel) -> bool:
        """Whether it is given up: not at once where a process comes to it late."""
        age, waited = time.time() - parcel.entry.accepted_at, time.monotonic() - parcel.since
        return age > self._keep_for and waited > self._retry_for

    def _lost(self, errand: _Errand) -> None:
        self._incidents.count(f"{errand.missed.line.name}, kept too long: Lost")
        self._done(errand)

    def _done(self, errand: _Errand) -> None:
        parcel = errand.parcel
        parcel.sinks -= 1
        if not parcel.sinks:
            self._chars -= parcel.chars
            self._durable.let_go(parcel.entry, parcel.column)
            self._take_up()

    def _take_up(self) -> None:
        if self._stopped or 2 * self._chars > self._max_chars:
            return
        left, self._left = self._left, []
        for entry in left:
            self._durable.give_up(entry)


class _Queue:
    """What one sink lacks.

    Args:
        done: Called with what it has taken.
        lost: Called with what is given up.
        is_late: Whether a parcel is to be given up.
        is_stopped: Whether no more is to be tried.
    """

    def __init__(
        self,
        done: Callable[[_Errand], None],
        lost: Callable[[_Errand], None],
        is_late: Callable[[_Parcel], bool],
        is_stopped: Callable[[], bool],
    ) -> None:
        self._done = done
        self._lost = lost
        self._is_late = is_late
        self._is_stopped = is_stopped
        self._waiting: list[_Errand] = []
        self._numbers = itertools.count()
        self._is_trying = False
        self._task: asyncio.Task[None] | None = None

    def put(self, parcel: _Parcel, missed: Missed) -> None:
        """One more."""
        heapq.heappush(self._waiting, _Errand(0, next(self._numbers), parcel, missed))
        if self._task is None or self._task.done():
            # In a context of its own: it outlives the sample that it begins with.
            self._task = asyncio.create_task(self._run(), context=Context())

    async def close(self) -> None:
        """Waits for a try in flight, for a moment."""
        task = self._task
        if task is None or task.done():
            return
        if self._is_trying:
            await asyncio.wait({task}, timeout=_LAST_TRY)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        backoff = Backoff()
        pause = backoff.failed()
        with quiet():
            while self._waiting:
                await asyncio.sleep(pause)
                if pause:
                    # Not for each of the many that follow one another once a sink is back.
                    self._expire()
                if self._is_stopped() or not self._waiting:
                    return
                if await self._try(heapq.heappop(self._waiting)):
                    backoff.succeeded()
                    pause = 0.0
                else:
                    pause = backoff.failed()

    def _expire(self) -> None:
        waiting, self._waiting = self._waiting, []
        for errand in waiting:
            if self._is_late(errand.parcel):
                self._lost(errand)
            else:
                heapq.heappush(self._waiting, errand)

    async def _try(self, errand: _Errand) -> bool:
        parcel, self._is_trying = errand.parcel, True
        try:
            missed = await errand.missed.again(
                parcel.sample, parcel.outcomes, parcel.entry.positions
            )
        finally:
            self._is_trying = False
        if missed is None:
            self._done(errand)
            return True
        errand.missed, errand.tries = missed, errand.tries + 1
        heapq.heappush(self._waiting, errand)
        return False


def _chars_of(outcome: Outcome) -> int:
    """What it keeps in memory, roughly."""
    told = len(str(outcome.explanation)) if isinstance(outcome, Score) else 0
    return _OUTCOME_CHARS + told
