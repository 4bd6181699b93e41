"""Judge over any function that asks a language model."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, Unpack

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.errors import ConfigError, JudgeError
from rag_eval_hooks.judges.calls.limits import CallLimits
from rag_eval_hooks.judges.calls.requests import CallKeywords
from rag_eval_hooks.judges.chat import ChatAdapter, OutputMode, Reply, Send, only_text
from rag_eval_hooks.judges.llm import LLMJudge, LLMOptions
from rag_eval_hooks.prompts import Prompt
from rag_eval_hooks.threads import Threads

__all__ = ["CallableChat", "CallableJudge", "Function", "Messages"]

Messages: TypeAlias = list[dict[str, str]]
"""`[{"role": "system", "content": ...}, {"role": "user", "content": ...}]`."""
Function: TypeAlias = Callable[[Messages], Awaitable[str]] | Callable[[Messages], str]
_WANTS = "a function of one argument, the messages, that returns the reply's text"


class CallableChat(ChatAdapter):
    """One function as a model, asked in text mode."""

    def __init__(self, function: Function, name: str, limits: CallLimits) -> None:
        super().__init__(Caller(name), (OutputMode.TEXT,), limits)
        self._function = function
        self._threads = Threads("rag-eval-hooks-judge", limits.concurrency)
        call = getattr(function, "__call__", None)  # noqa: B004 - an object may be async by it
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    async def aclose(self) -> None:
        """End the threads of a function that is not async."""
        self._threads.close()

    def prepare(self, prompt: Prompt, mode: OutputMode, temperature: float | None) -> Send:
        """Prepare a call of the function."""
        return lambda _meter: self._send(prompt)

    async def _send(self, prompt: Prompt) -> Reply:
        messages = [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.user_with_shape},
        ]
        returned: Any
        if self._async:
            returned = self._function(messages)
        else:
            returned = await self._threads.run(lambda: self._function(messages))
        text = await returned if inspect.isawaitable(returned) else returned
        if not isinstance(text, str):
            raise JudgeError(f"{self.name}: it returned {type(text).__name__}, wants a str")
        return Reply(lambda: only_text(text, ()))


class _Keywords(CallKeywords, LLMOptions, total=False):
    """Keywords of `CallableJudge` besides its name."""


class CallableJudge(LLMJudge):
    """`LLMJudge` over a function, such as one that calls a model of your own.

    Example:
        ```python
        async def ask(messages: list[dict[str, str]]) -> str:
            reply = await client.chat(messages=messages)
            return reply.text

        RagEval(judge=CallableJudge(ask, name="my-model"))
        ```

    Args:
        function: Takes the messages (a system and a user text, each with `role` and `content`)
            as its only argument and gives the reply's text. An async one runs in the
            evaluator's loop, any other in a thread. Whatever it raises makes the findings
            `judge_failed`; its text is not passed on.
        name: What the scores are said to come from: `callable:` and this. By default the
            function's name.
        **options: Fields of `CallLimits`, such as `timeout`, and keywords of `LLMJudge`; a memo
            keeps replies by `name`.

    Raises:
        ConfigError: The function does not take one argument, a value cannot be used, or there
            is a memo and no name.
    """

    def __init__(
        self, function: Function, *, name: str | None = None, **options: Unpack[_Keywords]
    ) -> None:
        _check(function)
        if options.get("memo") is not None and not name:
            raise ConfigError("name", name, "a name of the function's model: a memo goes by it")
        keywords: dict[str, Any] = {**options}
        limits = CallLimits.taken_from(keywords)
        chat = CallableChat(function, f"callable:{name or _name_of(function)}", limits)
        super().__init__(chat, **keywords)


def _check(function: object) -> None:
    if not callable(function) or inspect.isclass(function):
        raise ConfigError("judge", type(function).__name__, _WANTS)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigError("judge", _name_of(function), _WANTS)
    try:
        inspect.signature(function).bind([])
    except TypeError:
        raise ConfigError("judge", _name_of(function), _WANTS) from None
    except ValueError:
        # Some functions that are not written in Python have no signature.
        return


def _name_of(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)
