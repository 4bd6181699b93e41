"""Calls to judges, embedders and scorers, noted one by one for whoever wants to see them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

__all__ = ["CallLog", "JudgeCall", "noted", "noting", "take_over"]

_MOST: Final = 500
"""Calls noted of one evaluation."""


@dataclass(slots=True, kw_only=True)
class JudgeCall:
    """One request to a model, without what was asked and told.

    Attributes:
        operation: `chat`, `embeddings` or `token_score`.
        model: As it was asked for.
        provider: Who serves it, by the GenAI conventions, or None where that is unknown.
        local: Whether the model runs in the evaluator itself.
        start: In nanoseconds since the epoch.
        end: The same.
        response_model: The model that replied, as the endpoint tells it.
        response_id: The reply's id, likewise.
        input_tokens: Likewise; 0 for unknown.
        output_tokens: The same.
        error: Type of what it raised, or None.
    """

    operation: str
    model: str
    provider: str | None = None
    local: bool = False
    start: int = 0
    end: int = 0
    response_model: str | None = None
    response_id: str | None = None
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    error: str | None = None


@dataclass(slots=True)
class CallLog:
    """The calls of one evaluation, in the order of their ends.

    Attributes:
        calls: The first ones.
        omitted: How many more there were.
    """

    calls: list[JudgeCall] = field(default_factory=list)
    omitted: int = 0

    def add(self, call: JudgeCall) -> None:
        """Notes a call, or that there was one more."""
        if len(self.calls) < _MOST:
            self.calls.append(call)
        else:
            self.omitted += 1


_log: ContextVar[CallLog | None] = ContextVar("rag_eval_calls", default=None)


@contextmanager
def noting(wanted: bool) -> Iterator[CallLog]:
    """Notes the calls of the block, and of tasks begun in it, if that is wanted."""
    log = CallLog()
    token = _log.set(log if wanted else None)
    try:
        yield log
    finally:
        _log.reset(token)


@contextmanager
def noted(call: JudgeCall) -> Iterator[JudgeCall]:
    """Notes a call that the block makes; the block may add what the reply tells."""
    log = _log.get()
    if log is None:
        yield call
        return
    call.start, began = time.time_ns(), time.monotonic_ns()
    try:
        yield call
    except BaseException as error:
        call.error = type(error).__name__
        raise
    finally:
        call.end = call.start + time.monotonic_ns() - began
        log.add(call)


def take_over(log: CallLog) -> None:
    """Adds what was noted in another process."""
    own = _log.get()
    if own is not None:
        for call in log.calls:
            own.add(call)
        own.omitted += log.omitted
