"""Jobs in an outbox: a sample to evaluate, or a result for one sink."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = ["Job", "State"]


class State(Enum):
    HELD = "held"
    FREE = "free"
    """Any process may claim the job."""
    DONE = "done"


@dataclass(slots=True, eq=False)
class Job:
    """One sample to evaluate, or one result for one sink. Stored in the file if `encode` is set."""

    consumer: str
    """`EVALUATE`, or the key of a sink."""
    payload: Any = None
    """The sample or result. For a job claimed from the file, its stored text."""
    encode: Callable[[], str] | None = None
    """Returns the text to store, in the outbox's thread. None keeps the job out of the file."""
    accepted: float = field(default_factory=time.time)
    """Time at which the sample was accepted, in seconds since the epoch."""
    tries: int = 0
    state: State = State.HELD
    count: str = ""
    """Counter to increase in the transaction that finishes the job."""
    then: Sequence[Job] = ()
    # The outbox file sets these fields. `row` is provisional until the commit.
    row: int | None = None
    text: str | None = None
    is_stored: bool = False
    is_left: bool = False
    """Whether this process has already counted the sample as `spooled`."""
    is_put: bool = False
    is_undurable: bool = False
    written: Future[bool] | None = None
    # A sink's queue sets these fields. Times are seconds of the monotonic clock.
    chars: int = 0
    queued_at: float = 0.0
    give_up_at: float = 0.0
    sends: int = 0
    is_alone: bool = False
    is_last: bool = False
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.state is State.DONE

    def inserts(self, state: State) -> Sequence[Job]:
        return self.then if state is State.DONE else (self,)

    def resolve(self, *, is_ours: bool = True) -> None:
        """Tell waiting callers whether the last change is on disk."""
        # The caller may have timed out and cancelled the future.
        with suppress(InvalidStateError):
            if self.written is not None:
                self.written.set_result(is_ours)
