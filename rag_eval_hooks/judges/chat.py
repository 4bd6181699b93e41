"""Language models as `LLMJudge` sees them: text in, text out, over any client."""

from __future__ import annotations

import asyncio
import contextvars
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from opentelemetry import context

from rag_eval_hooks.calls import Call, Caller
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.incidents import without_exit
from rag_eval_hooks.judges.calls.limits import CallLimits
from rag_eval_hooks.judges.calls.requests import (
    Meter,
    RequestRefusedError,
    Requests,
    token_count,
)
from rag_eval_hooks.prompts import Prompt, ReplyError
from rag_eval_hooks.usage import Usage

__all__ = ["Chat", "ChatAdapter", "Completion", "OutputMode", "Reply", "Send", "only_text"]

T = TypeVar("T")


def _ignore() -> None:
    """Accept a reply that no memo keeps."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply."""

    text: str
    usage: Usage = field(default_factory=lambda: Usage(calls=1))
    accept: Callable[[], None] = field(default=_ignore, repr=False, compare=False)


class Chat(Protocol):
    """One language model behind some transport."""

    @property
    def name(self) -> str:
        """Kind and model, such as `openai:gpt-4o-mini`."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the model's reply and what it took.

        Each error carries as `usage` what the failed tries took, so that no cost is lost.

        Raises:
            ReplyError: The reply cannot be read: it was cut off, or is a refusal. It is worth
                asking again.
            JudgeTimeout: There was no reply in time, retries included.
            JudgeError: The model cannot be reached or does not accept the request.
        """
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...


class OutputMode(Enum):
    """Ways to ask for the shape of a reply, best first."""

    JSON_SCHEMA = "json_schema"
    TOOL = "tool"
    JSON_OBJECT = "json_object"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply of a client."""

    read: Callable[[], str]
    input_tokens: object = None
    output_tokens: object = None
    model: str | None = None
    id: str | None = None


Send: TypeAlias = Callable[[Meter], Coroutine[Any, Any, Reply]]
"""Sends one prepared request. A client of ours counts each of its tries by the meter."""

_ABOUT_OUTPUT: Final = re.compile(
    r"response.?(format|mime|schema)|json.?(schema|object|mode)|structured.?output|guided|"
    r"requested parameters|tool|function.?call|output.?(config|format)"
)
_NO_SUCH_MODE: Final = (NotImplementedError, TypeError, ValueError, AttributeError, ImportError)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Features of requests that a model takes."""

    mode: int = 0
    temperature: bool = True

    def without(self, refused: RequestRefusedError, modes: int) -> _Dialect | None:
        """Return the dialect without the feature that was refused, None if it was no feature."""
        complaint = refused.complaint
        if self.temperature and "temperature" in complaint and refused.status != 404:
            return replace(self, temperature=False)
        if self.mode + 1 < modes and _ABOUT_OUTPUT.search(complaint):
            return replace(self, mode=self.mode + 1)
        return None

    def meet(self, other: _Dialect) -> _Dialect:
        """Return the features in both: calls that learn at the same time do not add up."""
        return _Dialect(max(self.mode, other.mode), self.temperature and other.temperature)


class ChatAdapter(ABC):
    """One model behind a client.

    The output modes are tried from first to last; the first that the model takes is remembered,
    as is a refusal of the temperature. Calls to a client that is not ours run in a fresh context,
    so that neither run configurations nor callbacks of the application reach them.
    """

    memo_scope = ""
    _is_ours = False
    """True for a client of ours, which needs no context of its own and counts its tries."""

    def __init__(
        self,
        caller: Caller,
        modes: Sequence[OutputMode],
        limits: CallLimits,
        *,
        temperature: float | None = None,
    ) -> None:
        self._caller = caller
        self._modes = modes
        self._temperature = temperature
        self._requests = Requests(caller, limits)
        self._dialect = _Dialect(temperature=temperature is not None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """Kind and model, such as `openai:gpt-4o-mini`."""
        return self._caller.name

    @property
    def host(self) -> str | None:
        """Host of the endpoint, if it is known."""
        return None

    @property
    def output_mode(self) -> OutputMode:
        """Output mode in use, as far as was learned."""
        return self._modes[self._dialect.mode]

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the text of the model's reply; its usage counts every request that was sent.

        Raises:
            ReplyError: The reply was cut off, a refusal or empty.
            JudgeTimeout: There was none in time, retries included.
            JudgeError: The client raised anything else, or the model takes no mode.
        """
        meter = Meter((prompt.system, prompt.user))
        with meter.charging():
            reply = await self._reply(prompt, meter)
            meter.replied(reply.input_tokens, reply.output_tokens)
            return Completion(reply.read(), meter.usage)

    @abstractmethod
    def prepare(self, prompt: Prompt, mode: OutputMode, temperature: float | None) -> Send:
        """Prepare a request.

        Raises:
            Exception: `NotImplementedError`, `TypeError`, `ValueError`, `AttributeError` or
                `ImportError` if the model has no such mode.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Release what the adapter holds; the client of a user's is left alone."""

    async def _reply(self, prompt: Prompt, meter: Meter) -> Reply:
        dialect = self._dialect
        while True:
            try:
                reply = await self._ask(prompt, dialect, meter)
            except RequestRefusedError as refused:
                reduced = dialect.without(refused, len(self._modes))
                if reduced is None:
                    # The complaint may hold content and ends here.
                    raise JudgeError(str(refused)) from None
                dialect = reduced
            else:
                self._dialect = self._dialect.meet(dialect)
                return reply

    async def _ask(self, prompt: Prompt, dialect: _Dialect, meter: Meter) -> Reply:
        mode = self._modes[dialect.mode]
        try:
            send = self.prepare(prompt, mode, self._temperature if dialect.temperature else None)
        except _NO_SUCH_MODE as error:
            raise self._no_such_mode(error) from None

        async def request(call: Call) -> Reply:
            try:
                reply = await (send(meter) if self._is_ours else _isolated(send(meter)))
            except NotImplementedError as error:
                raise self._no_such_mode(error) from None
            call.input_tokens = token_count(reply.input_tokens)
            call.output_tokens = token_count(reply.output_tokens)
            call.response_model, call.response_id = reply.model, reply.id
            return reply

        return await self._requests.send(request, meter, counts_tries=self._is_ours)

    def _no_such_mode(self, error: Exception) -> RequestRefusedError:
        line = f"{self.name}: {type(error).__name__}"
        return RequestRefusedError(line, None, "structured output")


def only_text(content: object, calls: Sequence[object]) -> str:
    """Return the one text of a reply that has a content, tool calls, or both.

    Raises:
        ReplyError: There is no text, or more than one tool call.
    """
    if len(calls) > 1:
        raise ReplyError("it calls the tool more than once")
    text = calls[0] if calls else content
    if not isinstance(text, str) or not text.strip():
        raise ReplyError("it was empty")
    return text


async def _isolated(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a fresh context that keeps only OpenTelemetry's."""
    fresh = contextvars.Context()
    fresh.run(context.attach, context.get_current())
    return await asyncio.create_task(without_exit(call), context=fresh)
