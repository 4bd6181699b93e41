"""Adapters between `LLMJudge` and any chat client."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.judges.failures import (
    DescribedError,
    RequestRefusedError,
    describe,
    is_time_out,
    status_of,
)
from rag_eval_hooks.judges.model_calls import (
    CallLimits,
    Gate,
    Meter,
    call_context,
    isolated,
    observed_call,
)
from rag_eval_hooks.prompts.prompt import Prompt, ReplyError
from rag_eval_hooks.threads import DaemonExecutor

T = TypeVar("T")

_UNRELATED: Final = frozenset({401, 403, 408, 429})  # statuses that do not depend on the content
_ABOUT_OUTPUT: Final = re.compile(
    r"response.?(format|mime|schema)|json.?(schema|object|mode)|structured.?output|guided|"
    r"requested parameters|tool|function.?call|output.?(config|format)"
)
REASONS: Final = ("finish_reason", "stop_reason", "done_reason", "stopReason")
_CUT: Final = frozenset({"length", "max_tokens", "model_length"})
_FILTERED: Final = frozenset(
    {"content_filter", "content_filtered", "guardrail_intervened"}
    | {"blocklist", "prohibited_content", "recitation", "safety", "spii"}
)


class OutputMode(Enum):  # from best to worst
    JSON_SCHEMA = "json_schema"
    TOOL = "tool"
    JSON_OBJECT = "json_object"
    TEXT = "text"


class ModelAdapter:
    def __init__(
        self, caller: Caller, limits: CallLimits, *, scope: str = "", endpoint: Any = None
    ) -> None:
        self.name = caller.name
        self.host: str | None = getattr(endpoint, "host", None)
        self._endpoint = endpoint
        # In a memo, the scope separates models with the same name. It may contain keys, so hash it.
        self.memo_scope = hashlib.blake2b(scope.encode("utf-8", "replace")).hexdigest()
        self.threads = DaemonExecutor("rag-eval-hooks-judge", limits.concurrency)
        self.timeout = limits.timeout
        self._caller, self._limits = caller, limits
        # Waiting calls cannot move between event loops, so each loop has its own gate.
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, Gate] = WeakKeyDictionary()

    async def call(
        self, request: Callable[[Meter], Coroutine[Any, Any, T]], texts: Sequence[str]
    ) -> T:
        loop = asyncio.get_running_loop()
        if (gate := self._gates.get(loop)) is None:
            gate = self._gates[loop] = Gate(self._limits)
        if (observer := call_context().observer) is not None:
            observer.passes(self._caller, gate)
        try:
            async with gate.slot():
                with observed_call(self._caller, texts) as meter:
                    return await isolated(request(meter))
        except (JudgeError, ReplyError):
            raise
        except Exception as error:  # noqa: BLE001 - the user's client may raise anything
            # A client's exception may quote the request, so we do not chain the exception.
            raise self._translated(error) from None

    def _translated(self, error: Exception) -> JudgeError | ReplyError:
        status = status_of(error)
        if type(error).__name__.endswith("FinishReasonError"):
            return ReplyError("the reply was cut off; be brief")
        if is_time_out(error):
            seconds, tries = self._limits.timeout, self._limits.retries + 1
            return JudgeTimeout(f"{self.name}: no reply within {seconds:g} s ({tries} attempts)")
        line = f"{self.name}: {describe(error)}"
        is_lasting = status is not None and (status >= 500 or status in _UNRELATED)
        if is_lasting or isinstance(error, DescribedError):
            return JudgeError(line)
        lacks_mode = isinstance(error, NotImplementedError)
        complaint = "structured output" if lacks_mode else str(error).lower()
        return RequestRefusedError(line, status, complaint)

    async def aclose(self) -> None:
        self.threads.release()
        if self._endpoint is not None:
            await self._endpoint.aclose()


class ChatAdapter(ModelAdapter, ABC):
    def __init__(
        self,
        caller: Caller,
        modes: Sequence[OutputMode],
        limits: CallLimits,
        *,
        temperature: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(caller, limits, **options)
        self._modes = modes
        self._mode, self._temperature = 0, temperature

    async def complete(self, prompt: Prompt) -> str:
        mode, temperature = self._mode, self._temperature
        while True:
            call = partial(self.ask, prompt, self._modes[mode], temperature)
            reply: str | ReplyError
            try:
                reply = await self.call(call, (prompt.system, prompt.user))
            except RequestRefusedError as refused:
                told = refused.complaint
                if temperature is not None and "temperature" in told and refused.status != 404:
                    temperature = None
                elif mode + 1 < len(self._modes) and _ABOUT_OUTPUT.search(told):
                    mode += 1
                else:
                    # The provider's message may quote content, so we drop the message.
                    raise JudgeError(str(refused)) from None
                continue
            except ReplyError as error:
                reply = error
            # A concurrent call may already have switched to a later mode.
            self._mode = max(self._mode, mode)
            self._temperature = None if temperature is None else self._temperature
            if isinstance(reply, ReplyError):
                raise reply
            return reply

    @abstractmethod
    async def ask(
        self, prompt: Prompt, mode: OutputMode, temperature: float | None, meter: Meter
    ) -> str:
        """Send one prompt. Raise `NotImplementedError` if the client does not support `mode`."""


def reply_text(
    content: object, calls: Sequence[object] = (), reasons: Iterable[object] = ()
) -> str:
    ends = {str(reason).lower() for reason in reasons}
    text = calls[0] if calls else content
    is_parsed = bool(calls) and not isinstance(text, str)
    text = json.dumps(text) if is_parsed else text
    is_text, is_cut = isinstance(text, str) and bool(text.strip()), not _CUT.isdisjoint(ends)
    problems = {
        "a filter cut off the reply": not _FILTERED.isdisjoint(ends),
        "the reply was cut off; be brief": is_parsed and is_cut,
        "the reply was a refusal": "refusal" in ends,
        "the reply called the tool more than once": len(calls) > 1,
        "the reply reached the token limit before any text": is_cut and not is_text,
        "the reply was empty": not is_text,
    }
    if (problem := next((told for told, is_so in problems.items() if is_so), None)) is not None:
        raise ReplyError(problem)
    return str(text)
