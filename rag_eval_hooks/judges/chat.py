"""Adapters between `LLMJudge` and any chat client."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Final

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.calls.call_context import Meter, ModelCalls
from rag_eval_hooks.judges.calls.call_limits import CallLimits
from rag_eval_hooks.judges.calls.failures import RequestRefusedError
from rag_eval_hooks.prompts.prompt import Prompt, ReplyError
from rag_eval_hooks.threads import DaemonExecutor

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
    host: str | None = None

    def __init__(self, caller: Caller, limits: CallLimits, *, scope: str = "") -> None:
        self.name = caller.name
        # In a memo, the scope separates models with the same name. It may contain keys, so hash it.
        self.memo_scope = hashlib.blake2b(scope.encode("utf-8", "replace")).hexdigest()
        self.threads = DaemonExecutor("rag-eval-hooks-judge", limits.concurrency)
        self.timeout = limits.timeout
        self._calls = ModelCalls(caller, limits)

    async def aclose(self) -> None:
        self.threads.release()


class ChatAdapter(ModelAdapter, ABC):
    def __init__(
        self,
        caller: Caller,
        modes: Sequence[OutputMode],
        limits: CallLimits,
        *,
        temperature: float | None = None,
        scope: str = "",
    ) -> None:
        super().__init__(caller, limits, scope=scope)
        self._modes = modes
        self._mode, self._temperature = 0, temperature

    async def complete(self, prompt: Prompt) -> str:
        mode, temperature = self._mode, self._temperature
        while True:
            call = partial(self.ask, prompt, self._modes[mode], temperature)
            reply: str | ReplyError
            try:
                reply = await self._calls.make(call, (prompt.system, prompt.user))
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
        """Raise `NotImplementedError` if the client cannot use `mode`."""


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
