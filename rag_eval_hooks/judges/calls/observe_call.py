"""Tells whoever listens of a call: when it was made, how it ended, what the reply told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rag_eval_hooks.calls import Call, Caller, CallLog, CallOutcome, current_log, current_watch
from rag_eval_hooks.errors import BudgetError, JudgeUnavailable
from rag_eval_hooks.judges.calls.call_health import Told, told_by
from rag_eval_hooks.judges.calls.failures import is_time_out

__all__ = ["outcome_of", "told"]

_OUTCOMES: Final = {
    Told.REPLIED: CallOutcome.REFUSED,
    Told.BUSY: CallOutcome.RATE_LIMITED,
    Told.SLOW: CallOutcome.TIMEOUT,
    Told.DOWN: CallOutcome.ERROR,
    Told.NOTHING: CallOutcome.ERROR,
}


@contextmanager
def told(caller: Caller, *, is_request: bool = True) -> Iterator[Call]:
    """The block is one call; it may add what the reply tells.

    Args:
        caller: Who is called.
        is_request: Whether it is one request, and no task whose requests nobody sees: such a
            task is counted, and not logged.
    """
    call = Call(caller, start=time.time_ns())
    began = time.monotonic_ns()
    outcome: CallOutcome | None = CallOutcome.OK
    try:
        yield call
    except BaseException as error:
        outcome, call.error = outcome_of(error), type(error).__name__
        raise
    finally:
        # The wall clock may be set meanwhile.
        call.end = call.start + time.monotonic_ns() - began
        if outcome is not None:
            call.outcome = outcome
            _tell(call, current_log() if is_request else None)


def _tell(call: Call, log: CallLog | None) -> None:
    watch = current_watch()
    if watch is not None and not call.caller.local:
        watch.called(call)
    if log is not None:
        log.called(call)


def outcome_of(error: BaseException) -> CallOutcome | None:
    """How a call ended by what it raised, or None: it was never sent."""
    if isinstance(error, BudgetError | JudgeUnavailable):
        return None
    if not isinstance(error, Exception):
        return CallOutcome.CANCELLED
    return CallOutcome.TIMEOUT if is_time_out(error) else _OUTCOMES[told_by(error)]
