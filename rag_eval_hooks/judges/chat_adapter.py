"""A chat over a model object of someone else's: a framework's, or a function."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from opentelemetry import context

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.judges.calls.failures import describe, is_cut_off, is_time_out, status_of
from rag_eval_hooks.judges.calls.meter import Meter, token_count
from rag_eval_hooks.judges.calls.slots import Limits, Slots
from rag_eval_hooks.judges.chat import Completion
from rag_eval_hooks.judges.structured_output import is_about_shape
from rag_eval_hooks.prompts import Prompt, ReplyError

__all__ = ["ForeignChat", "Reply", "Send", "Way"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model gave.

    Attributes:
        read: Gives the text, or raises `ReplyError`.
        input_tokens: As the model's provider counts them, or anything else for unknown.
        output_tokens: The same.
    """

    read: Callable[[], str]
    input_tokens: object = None
    output_tokens: object = None


Send: TypeAlias = Callable[[], Coroutine[Any, Any, Reply]]
"""Sends one prepared request."""
Way: TypeAlias = Callable[[Prompt], Send]
"""One way to ask for the shape of a reply. Prepares a request, or raises if the model has no such
way."""

_NO_SUCH_WAY = (NotImplementedError, TypeError, ValueError, AttributeError, ImportError)
_NOT_ABOUT_SHAPE = frozenset({401, 403, 408, 429})


class _WayRefusedError(JudgeError):
    """The model cannot be asked in this way."""


class ForeignChat:
    """One model behind an object of someone else's.

    The ways to ask are tried from the first to the last; the first that the model takes is
    learned, once. Calls run in a fresh context, so that neither run configurations nor
    context-bound callbacks of the application reach them.

    Args:
        name: Kind and model.
        ways: How to ask, best first.
        limits: Of calls to it.
    """

    def __init__(self, name: str, ways: Sequence[Way], limits: Limits) -> None:
        self.name = name
        self._ways = ways
        self._limits = limits
        self._slots = Slots(
            Caller(name),
            limits.concurrency,
            failures=limits.breaker_failures,
            pause=limits.breaker_pause,
        )
        self._learned = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def complete(self, prompt: Prompt) -> Completion:
        """The text of the model's reply.

        Raises:
            ReplyError: It was cut off, refused or empty.
            JudgeTimeout: It did not come in time, retries included.
            JudgeError: The model's client raised anything else, or takes no way.
        """
        meter = Meter(prompt)
        with meter.charging():
            reply = await self._reply(prompt, meter)
            meter.told(reply.input_tokens, reply.output_tokens)
            return Completion(reply.read(), meter.usage)

    async def aclose(self) -> None:
        """Leaves the object alone: it is not ours."""

    async def _reply(self, prompt: Prompt, meter: Meter) -> Reply:
        place = self._learned
        while True:
            try:
                reply = await self._ask(self._ways[place], prompt, meter)
            except _WayRefusedError as refused:
                place += 1
                if place == len(self._ways):
                    raise JudgeError(str(refused)) from None
            else:
                self._learned = max(self._learned, place)
                return reply

    async def _ask(self, way: Way, prompt: Prompt, meter: Meter) -> Reply:
        try:
            send = way(prompt)
        except _NO_SUCH_WAY as error:
            raise _WayRefusedError(f"{self.name}: {type(error).__name__}") from None
        try:
            return await self._tried(partial(self._once, send, meter))
        except Exception as error:  # noqa: BLE001 - a client of someone else's raises anything
            # Its text may repeat a part of the request: it is not passed on.
            raise self._told(error) from None

    async def _tried(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if not self._limits.retries:
            return await attempt()
        # Frameworks bring the library for it; a mere function needs none.
        from rag_eval_hooks.judges.calls.retry import retried

        return await retried(attempt, self._limits.retries)

    async def _once(self, send: Send, meter: Meter) -> Reply:
        async with self._slots.here() as call, asyncio.timeout(self._limits.timeout):
            with meter.sending():
                reply = await _apart(send())
            call.input_tokens = token_count(reply.input_tokens)
            call.output_tokens = token_count(reply.output_tokens)
            return reply

    def _told(self, error: Exception) -> JudgeError | ReplyError:
        """The error as one of ours, as one line without content."""
        if isinstance(error, JudgeError):
            return error
        if is_cut_off(error):
            return ReplyError("it was cut off; be brief")
        if is_time_out(error):
            seconds, tries = self._limits.timeout, self._limits.retries + 1
            return JudgeTimeout(f"{self.name}: no reply within {seconds:g} s ({tries} tries)")
        line = f"{self.name}: {describe(error)}"
        status = status_of(error)
        fixed = status is not None and (status >= 500 or status in _NOT_ABOUT_SHAPE)
        if not fixed and (isinstance(error, NotImplementedError) or is_about_shape(str(error))):
            return _WayRefusedError(line)
        return JudgeError(line)


async def _apart(call: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in a fresh context that keeps only OpenTelemetry's."""
    fresh = contextvars.Context()
    fresh.run(context.attach, context.get_current())
    return await asyncio.create_task(call, context=fresh)
