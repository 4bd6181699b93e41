"""`CallableJudge`: a judge over your own function that calls a language model."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, Unpack

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.errors import ConfigError, JudgeError, way_to_text
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.judges.calls.call_context import Meter
from rag_eval_hooks.judges.calls.call_limits import CallLimits
from rag_eval_hooks.judges.chat import ChatAdapter, OutputMode, only_text
from rag_eval_hooks.judges.llm import LLMJudge, ModelOptions
from rag_eval_hooks.prompts import Prompt

Messages: TypeAlias = list[dict[str, str]]
Function: TypeAlias = Callable[[Messages], Awaitable[str]] | Callable[[Messages], str]
_WANTS = "a function of one argument, the messages, that returns the reply's text"


class CallableChat(ChatAdapter):
    def __init__(self, function: Function, name: str, limits: CallLimits) -> None:
        super().__init__(Caller(name), (OutputMode.TEXT,), limits)
        self._function, self._place = function, place_of(function)
        # Appended to errors about unreadable replies.
        self.advice = (
            f". Return the model's reply to the messages: the requested JSON.{self._place}"
        )
        call = getattr(function, "__call__", None)  # noqa: B004 - an object may be async by it
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    async def ask(
        self, prompt: Prompt, mode: OutputMode, temperature: float | None, meter: Meter
    ) -> str:
        messages = [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.user_with_shape},
        ]
        async with meter.sending(self.timeout):
            called: Any = partial(self._function, messages)
            text = called() if self._async else await self.threads.run(called)
            if inspect.isawaitable(text):
                text = await text
            if not isinstance(text, str):
                told = f"it returned {type(text).__name__}, not a str."
                told = f"{told} {way_to_text(text, 'Return')}".rstrip()
                raise JudgeError(f"{self.name}: {told}{self._place}")
        meter.replied(None)
        return only_text(text)


class CallableJudge(LLMJudge):
    """A judge that sends its prompts to your own function.

    Example:
        ```python
        async def ask(messages: list[dict[str, str]]) -> str:
            reply = await client.chat(messages=messages)
            return reply.text

        RagEval(judge=CallableJudge(ask, name="my-model"))
        ```

    Args:
        function: Takes a list of messages and returns the reply's text. The messages are a system
            and a user message, each with `role` and `content`. An async function runs in the
            evaluator's event loop, any other function on a thread. If the function raises, the
            findings are `judge_failed`; the exception's message is never shown.
        name: Scores name the judge `callable:<name>`. The default is the function's name.
        **options: Fields of `CallLimits`, such as `timeout`, and keywords of `LLMJudge`. `memo`
            needs `name`, because the memo stores replies by name.

    Raises:
        ConfigError: The function does not take exactly one argument, a value is invalid, or `memo`
            has no `name`.
    """

    def __init__(
        self, function: Function, *, name: str | None = None, **options: Unpack[ModelOptions]
    ) -> None:
        default = getattr(function, "__name__", type(function).__name__)
        if not _takes_messages(function):
            raise ConfigError("judge", default, _WANTS)
        if options.get("memo") is not None and not name:
            raise ConfigError("name", name, "a name, because a memo stores replies by name")
        limits, others = CallLimits.split(options)
        super().__init__(CallableChat(function, f"callable:{name or default}", limits), **others)


def _takes_messages(function: object) -> bool:
    wrong = (inspect.isclass, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    if not callable(function) or any(is_wrong(function) for is_wrong in wrong):
        return False
    # Some functions that are not written in Python have no signature, which raises `ValueError`.
    with suppress(ValueError):
        try:
            inspect.signature(function).bind([])
        except TypeError:
            return False
    return True
