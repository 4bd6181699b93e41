"""Results that a sink did not take: they stay in the spool, and are delivered again."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rag_eval_hooks.config import RagEvalConfig
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.pipeline.delivery import Delivery, Line
from rag_eval_hooks.pipeline.durable import Durable
from rag_eval_hooks.pipeline.judging import column_of
from rag_eval_hooks.pipeline.spool_entry import Entry
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes

__all__ = ["Redelivery"]

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 15.0
_OUTCOME_CHARS: Final = 500


@dataclass(slots=True)
class _Parcel:
    entry: Entry
    sample: Sample
    outcomes: Outcomes
    lines: Sequence[Line]

    @property
    def chars(self) -> int:
        """What it keeps in memory, roughly."""
        return self.sample.chars + _OUTCOME_CHARS * len(self.outcomes)


class Redelivery:
    """Tries again where a sink raised or hung, one result at a time, ever less often.

    Only the sinks that failed are tried. What is too much for memory waits in the spool alone,
    and is taken from there once the sinks take results again. To be used in the evaluator's loop.

    Args:
        delivery: Calls sinks.
        durable: Holds the samples.
        incidents: Where losses are counted.
        max_chars: Characters of samples that may wait in memory.
        keep_for: Seconds after the sample's acceptance for which its result is tried.
    """

    def __init__(
        self,
        delivery: Delivery,
        durable: Durable,
        incidents: Incidents,
        *,
        max_chars: int,
        keep_for: float,
    ) -> None:
        self._delivery = delivery
        self._durable = durable
        self._incidents = incidents
        self._max_chars = max_chars
        self._keep_for = keep_for
        self._waiting: deque[_Parcel] = deque()
        self._elsewhere: list[Entry] = []
        self._chars = 0
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(
        cls, config: RagEvalConfig, delivery: Delivery, durable: Durable, incidents: Incidents
    ) -> Redelivery:
        """With the limits that hold for platforms too."""
        return cls(
            delivery,
            durable,
            incidents,
            max_chars=config.sink_queue_chars,
            keep_for=config.sink_keep_for,
        )

    def __len__(self) -> int:
        """Results that wait."""
        return len(self._waiting) + len(self._elsewhere)

    def add(self, entry: Entry, sample: Sample, outcomes: Outcomes, lines: Sequence[Line]) -> None:
        """Takes over a result that the spool holds, and that these sinks did not take."""
        parcel = _Parcel(entry, sample, outcomes, lines)
        if self._waiting and self._chars + parcel.chars > self._max_chars:
            entry.forget()
            self._elsewhere.append(entry)
            return
        self._waiting.append(parcel)
        self._chars += parcel.chars
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Ends; what waits is in the spool, for the next process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        while self._waiting:
            await asyncio.sleep(pause)
            parcel = self._waiting.popleft()
            if await self._is_over(parcel):
                pause = 0.0
                self._fetch()
                continue
            # To the end of the line: one that no sink will ever take must not stop the others.
            self._waiting.append(parcel)
            pause = min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)

    async def _is_over(self, parcel: _Parcel) -> bool:
        parcel.lines = await self._delivery.again(
            parcel.lines, parcel.sample, parcel.outcomes, parcel.entry.positions
        )
        late = time.time() - parcel.entry.accepted_at > self._keep_for
        if parcel.lines and not late:
            return False
        for line in parcel.lines:
            self._incidents.count(f"{line.name}, kept too long: Lost")
        self._chars -= parcel.chars
        self._durable.let_go(parcel.entry, column_of(parcel.outcomes))
        return True

    def _fetch(self) -> None:
        """Has the spool hand out again what waits in it alone."""
        if self._chars <= self._max_chars // 2:
            elsewhere, self._elsewhere = self._elsewhere, []
            for entry in elsewhere:
                self._durable.give_up(entry)
