"""Context of the calls of one evaluation: time, budget, and who is informed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rag_eval_hooks.calls import Call, Caller, CallLog, CallOutcome, CallWatch
from rag_eval_hooks.errors import JudgeTimeout
from rag_eval_hooks.judges.calls.budget import Budget
from rag_eval_hooks.judges.calls.failures import outcome_of, status_of
from rag_eval_hooks.usage import Usage

__all__ = [
    "OUT_OF_TIME",
    "CallContext",
    "UsageMeter",
    "call_context",
    "in_call_context",
    "is_in_time",
    "observed_call",
    "out_of_time",
]

OUT_OF_TIME: Final = "the sample's time ran out"


@dataclass(slots=True)
class UsageMeter:
    """Sum of what the calls of one question took, readable after the question was cancelled."""

    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class CallContext:
    """Everything that a call to a model needs to know about its evaluation."""

    observer: CallWatch | None = None
    log: CallLog | None = None
    budget: Budget | None = None
    deadline: float | None = None
    meter: UsageMeter | None = None


_context: ContextVar[CallContext] = ContextVar(
    "rag_eval_hooks_calls",
    default=CallContext(),  # noqa: B039 - frozen
)


def call_context() -> CallContext:
    """Return the context of the evaluation that the caller runs in."""
    return _context.get()


@contextmanager
def in_call_context(**changes: Any) -> Iterator[CallContext]:
    """Change fields of the context for the block and for tasks started in it."""
    changed = replace(_context.get(), **changes)
    token = _context.set(changed)
    try:
        yield changed
    finally:
        _context.reset(token)


def is_in_time() -> bool:
    """Return whether the deadline has not passed."""
    deadline = _context.get().deadline
    return deadline is None or asyncio.get_running_loop().time() < deadline


def out_of_time(spent: Usage) -> JudgeTimeout:
    """Make the error of a question that the deadline cut short."""
    error = JudgeTimeout(OUT_OF_TIME)
    error.usage = spent
    return error


@contextmanager
def observed_call(caller: Caller, *, is_request: bool = True) -> Iterator[Call]:
    """Report the block as one call to the observer and the log of the context."""
    call = Call(caller, start=time.time_ns())
    began = time.monotonic_ns()
    outcome: CallOutcome | None = CallOutcome.OK
    try:
        yield call
    except BaseException as error:
        outcome = outcome_of(error)
        call.error = str(status_of(error) or type(error).__name__)
        raise
    finally:
        # A duration by the wall clock would be wrong if the clock is set meanwhile.
        call.end = call.start + time.monotonic_ns() - began
        if outcome is not None:
            call.outcome = outcome
            _report(call, is_request)


def _report(call: Call, is_request: bool) -> None:
    context = _context.get()
    if context.observer is not None and not call.caller.local:
        context.observer.called(call)
    if context.log is not None and is_request:
        context.log.called(call)
