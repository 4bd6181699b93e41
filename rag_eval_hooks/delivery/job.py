"""Job of an outbox: one sample to evaluate, or one result for one sink."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["End", "Job"]


class End(NamedTuple):
    """How a job leaves this process: released, or done with a count and further jobs."""

    is_released: bool = False
    counted_as: str = ""
    then: Sequence[Job] = ()


@dataclass(slots=True, eq=False)
class Job:
    """One sample to evaluate, or one result for one sink, in memory and perhaps in the file."""

    consumer: str
    """`EVALUATE`, or the key of a sink."""
    payload: Any = None
    """The sample or result; of a claimed job, its text in the file."""
    encode: Callable[[], str] | None = None
    """Returns the text to store, in the outbox's thread; None keeps the job out of the file."""
    accepted: float = field(default_factory=time.time)
    """Acceptance of the sample in seconds since the epoch."""
    tries: int = 0
    then: Sequence[Job] = ()
    # Of the file: `row` is provisional until the commit, `is_stored` follows it.
    row: int | None = None
    text: str | None = None
    is_stored: bool = False
    is_put: bool = False
    is_undurable: bool = False
    end: End | None = None
    written: Future[bool] | None = None
    # Of a sink's queue; times in seconds of the monotonic clock.
    chars: int = 0
    queued_at: float = 0.0
    give_up_at: float = 0.0
    sends: int = 0
    is_alone: bool = False
    is_last: bool = False
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """True once the job is done."""
        return self.end is not None and not self.end.is_released

    def inserts(self, end: End | None) -> Sequence[Job]:
        """Return the jobs that the change to a state may insert."""
        return (self,) if end is None or end.is_released else end.then

    def resolve(self, *, is_ours: bool = True) -> None:
        """Tell whoever waits for the last change that it is on disk or given up."""
        # The caller may have run out of patience and cancelled the future.
        with suppress(InvalidStateError):
            if self.written is not None:
                self.written.set_result(is_ours)
