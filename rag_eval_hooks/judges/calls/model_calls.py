"""Calls to one model: within its limits, isolated from the application, errors translated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.judges.calls.context import Meter, call_context, isolated, observed_call
from rag_eval_hooks.judges.calls.failures import (
    DescribedError,
    RequestRefusedError,
    describe,
    is_cut_off,
    is_time_out,
    status_of,
)
from rag_eval_hooks.judges.calls.limits import CallLimits, Gate
from rag_eval_hooks.prompts import ReplyError

T = TypeVar("T")

_UNRELATED: Final = frozenset({401, 403, 408, 429})
"""Statuses that do not depend on what the request holds."""


class ModelCalls:
    """Makes the calls to one model. Safe to use from several event loops."""

    def __init__(self, caller: Caller, limits: CallLimits) -> None:
        self._caller = caller
        self._limits = limits
        # Waiting calls cannot move between event loops: each loop has its own gate.
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, Gate] = WeakKeyDictionary()

    async def make(
        self, request: Callable[[Meter], Coroutine[Any, Any, T]], texts: Sequence[str] = ()
    ) -> T:
        """Make one call; `request` tells the meter when it sends and what the reply took.

        Raises:
            ReplyError: The reply cannot be used.
            JudgeError: There was none, with the reason in one line without content;
                `RequestRefusedError` where another way of asking may succeed.
        """
        gate = self._gates.setdefault(asyncio.get_running_loop(), Gate(self._limits))
        if (observer := call_context().observer) is not None:
            observer.passes(self._caller, gate)
        try:
            async with gate.slot():
                with observed_call(self._caller, texts) as meter:
                    return await isolated(request(meter))
        except (JudgeError, ReplyError):
            raise
        except Exception as error:  # noqa: BLE001 - a client of a user's raises anything
            # The error of a client may repeat a part of the request: it is not passed on.
            raise self._translated(error) from None

    def _translated(self, error: Exception) -> JudgeError | ReplyError:
        if is_cut_off(error):
            return ReplyError("it was cut off; be brief")
        name = self._caller.name
        if is_time_out(error):
            seconds, tries = self._limits.timeout, self._limits.retries + 1
            return JudgeTimeout(f"{name}: no reply within {seconds:g} s ({tries} tries)")
        line, status = f"{name}: {describe(error)}", status_of(error)
        is_lasting = status is not None and (status >= 500 or status in _UNRELATED)
        if is_lasting or isinstance(error, DescribedError):
            return JudgeError(line)
        return RequestRefusedError(line, status, str(error).lower())
