"""Requests to one model: admitted, metered, timed and observed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypedDict, TypeVar
from weakref import WeakKeyDictionary

from rag_eval_hooks.calls import Call, Caller
from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.judges.calls.budget import Reservation
from rag_eval_hooks.judges.calls.context import call_context, observed_call
from rag_eval_hooks.judges.calls.failures import (
    DescribedError,
    describe,
    is_cut_off,
    is_time_out,
    status_of,
)
from rag_eval_hooks.judges.calls.limits import CallLimits, Gate
from rag_eval_hooks.prompts import ReplyError
from rag_eval_hooks.usage import Usage, tokens

__all__ = [
    "CallKeywords",
    "Meter",
    "RequestRefusedError",
    "Requests",
    "RetryKeywords",
    "token_count",
]

T = TypeVar("T")

_UNRELATED: Final = frozenset({401, 403, 408, 429})
"""Statuses that do not depend on what the request holds."""


class CallKeywords(TypedDict, total=False):
    """Fields of `CallLimits` as keywords of a judge whose client retries by itself."""

    timeout: float
    concurrency: int
    breaker_failures: int
    breaker_pause: float


class RetryKeywords(CallKeywords, total=False):
    """Fields of `CallLimits` as keywords of a judge."""

    retries: int


class Meter:
    """Adds up requests and tokens of one question, and puts the sum on an error that ends it."""

    def __init__(self, texts: Sequence[str] = (), *, embedding: bool = False) -> None:
        self.usage = Usage()
        self._texts = texts
        self._embedding = embedding
        self._reserved: Reservation | None = None

    @contextmanager
    def charging(self) -> Iterator[None]:
        """Put the sum as `usage` on errors of judging that leave the block."""
        try:
            yield
        except (JudgeError, ReplyError) as error:
            error.usage = self.usage
            raise

    async def send(self) -> None:
        """Count one try, right before it is sent, after the budget admitted it.

        Raises:
            BudgetError: The budget does not admit it: it must not be sent.
        """
        self._reserved = None
        if (budget := call_context().budget) is not None:
            expected = float(sum(map(tokens, self._texts)))
            self._reserved = await budget.reserve(expected, embedding=self._embedding)
        self._add(Usage(calls=1))

    @contextmanager
    def replying(self) -> Iterator[None]:
        """Give back the tokens of a try that fails in the block; a timeout keeps its estimate."""
        try:
            yield
        except Exception as error:
            if not is_time_out(error):
                self.fail()
            raise

    def fail(self) -> None:
        """Note that the try was answered without a result: it took no tokens.

        The tokens of a try without any answer are unknown: the budget keeps its estimate.
        """
        if self._reserved is not None:
            self._reserved.fail()
            self._reserved = None

    def replied(self, input_tokens: object, output_tokens: object) -> None:
        """Count the tokens that an endpoint reports; anything but whole numbers counts as 0."""
        used = Usage(
            input_tokens=token_count(input_tokens), output_tokens=token_count(output_tokens)
        )
        self._add(used)
        if self._reserved is not None:
            self._reserved.settle(used.input_tokens, used.output_tokens)
            self._reserved = None

    def _add(self, usage: Usage) -> None:
        self.usage += usage
        # The context's meter is still readable when this question is cancelled.
        if (meter := call_context().meter) is not None:
            meter.usage += usage


def token_count(tokens: object) -> float:
    """Return a reported number of tokens; anything but a whole number counts as 0."""
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return 0.0
    return float(max(tokens, 0))


class RequestRefusedError(JudgeError):
    """A request failed for a reason that another way of asking may avoid."""

    def __init__(self, line: str, status: int | None, complaint: str) -> None:
        super().__init__(line)
        self.status = status
        self.complaint = complaint


class Requests:
    """Requests to one model, each within its limits. Safe to use from several event loops."""

    def __init__(self, caller: Caller, limits: CallLimits) -> None:
        self._caller = caller
        self._limits = limits
        # Waiting calls cannot move between event loops: each loop has its own gate.
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, Gate] = WeakKeyDictionary()

    async def send(
        self,
        request: Callable[[Call], Awaitable[T]],
        meter: Meter,
        *,
        counts_tries: bool = False,
    ) -> T:
        """Send a request within the limits. Tries again are the client's.

        Raises:
            ReplyError: The client raised because the reply was cut off.
            RequestRefusedError: Another way of asking may succeed.
            JudgeTimeout: There was no reply in time.
            JudgeUnavailable: Too many calls failed in a row; none is made for a while.
            JudgeError: Any other failure, in one line without content.
        """
        gate = self._gate()
        if (observer := call_context().observer) is not None:
            observer.passes(self._caller, gate)
        try:
            async with gate.call():
                with observed_call(self._caller) as call:
                    if counts_tries:
                        return await request(call)
                    return await self._try_once(request, call, meter)
        except Exception as error:  # noqa: BLE001 - a client of a user's raises anything
            # The error of a client may repeat a part of the request: it is not passed on.
            raise self._translated(error) from None

    async def _try_once(
        self, request: Callable[[Call], Awaitable[T]], call: Call, meter: Meter
    ) -> T:
        await meter.send()
        with meter.replying():
            async with asyncio.timeout(self._limits.timeout):
                return await request(call)

    def _gate(self) -> Gate:
        loop = asyncio.get_running_loop()
        gate = self._gates.get(loop)
        if gate is None:
            gate = self._gates[loop] = Gate(self._limits)
        return gate

    def _translated(self, error: Exception) -> JudgeError | ReplyError:
        if isinstance(error, JudgeError):
            return error
        if is_cut_off(error):
            return ReplyError("it was cut off; be brief")
        name = self._caller.name
        if is_time_out(error):
            seconds, tries = self._limits.timeout, self._limits.retries + 1
            return JudgeTimeout(f"{name}: no reply within {seconds:g} s ({tries} tries)")
        line, status = f"{name}: {describe(error)}", status_of(error)
        if status is not None and (status >= 500 or status in _UNRELATED):
            return JudgeError(line)
        if isinstance(error, DescribedError):
            return JudgeError(line)
        complaint = getattr(error, "complaint", None) or str(error)
        return RequestRefusedError(line, status, complaint.lower())
