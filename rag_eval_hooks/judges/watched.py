"""Tells whoever watches how a call ended, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rag_eval_hooks.calls import Call, Caller, CallOutcome, current_watch
from rag_eval_hooks.errors import BudgetError, JudgeUnavailable
from rag_eval_hooks.judges.backpressure import Told, told_by
from rag_eval_hooks.judges.failures import is_time_out

__all__ = ["outcome_of", "told"]

_OUTCOMES: Final = {
    Told.REPLIED: CallOutcome.REFUSED,
    Told.BUSY: CallOutcome.RATE_LIMITED,
    Told.SLOW: CallOutcome.TIMEOUT,
    Told.DOWN: CallOutcome.ERROR,
    Told.NOTHING: CallOutcome.ERROR,
}


@contextmanager
def told(caller: Caller) -> Iterator[None]:
    """The block is one call."""
    watch = current_watch()
    if watch is None:
        yield
        return
    outcome: CallOutcome | None = CallOutcome.OK
    began = time.monotonic()
    try:
        yield
    except BaseException as error:
        outcome = outcome_of(error)
        raise
    finally:
        if outcome is not None:
            watch.called(Call(caller, outcome, time.monotonic() - began))


def outcome_of(error: BaseException) -> CallOutcome | None:
    """How a call ended by what it raised, or None: it was never sent."""
    if isinstance(error, BudgetError | JudgeUnavailable):
        return None
    if not isinstance(error, Exception):
        return CallOutcome.CANCELLED
    return CallOutcome.TIMEOUT if is_time_out(error) else _OUTCOMES[told_by(error)]
