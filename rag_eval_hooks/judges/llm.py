"""`LLMJudge` asks a language model, and `CallableJudge` asks your own function."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeAlias

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.errors import ConfigError, JudgeError
from rag_eval_hooks.findings import Finding, Verdict
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.judges.chat import ChatAdapter, OutputMode, reply_text
from rag_eval_hooks.judges.memo import Memo, memo_key
from rag_eval_hooks.judges.model_calls import CallLimits, Meter
from rag_eval_hooks.judges.model_judge import Answers, ModelJudge, about_group, gathered
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.prompts.ask import TEMPLATES, WITH_CONTEXTS, Ask
from rag_eval_hooks.prompts.prompt import Prompt
from rag_eval_hooks.prompts.specs import PROMPTS_VERSION, SPECS, SYSTEM_TEXTS, PromptKind, Unit
from rag_eval_hooks.text.folding import fold

Messages: TypeAlias = list[dict[str, str]]
Function: TypeAlias = Callable[[Messages], Awaitable[str]] | Callable[[Messages], str]

_ATTEMPTS: Final = 3  # maximum number of requests for one item
_MOST_CLAIMS: Final = 10
_LITERALLY: Final = "found literally"
_BEFORE: Final = r"(?<![^\s(\"'\[])"  # "36.5" and "1,036" do not contain "36"
_AFTER: Final = r"[.,;:!?)\"'\]]*(?:\s|$)"
_LONGEST_LEAD: Final = 5.0  # maximum seconds that other calls wait for the first reply
_WANTS: Final = "a function that accepts a list of messages and returns the reply's text"


class LLMJudge(ModelJudge):
    """Judges samples with a language model, with separate calls for each kind of finding.

    All calls about a sample's contexts start with the same text, so the provider's prompt cache
    makes these calls cheaper. If a part of a reply is invalid, the judge asks again, and tells the
    model the problem.

    Args:
        chat: A chat client: any object with `name`, `complete` and `aclose`.
        window: Maximum number of context tokens in one call that verifies claims. Three UTF-8 bytes
            count as one token. The judge divides longer contexts among several calls.
        examples: Your own labeled examples, which the judge adds to its prompts as text. The keys
            name the prompts: `decomposing`, `questioning`, `judging` and `rating`.
        memo: Stores valid replies, and reuses them for identical prompts. The default None disables
            the reuse.
        prices: Token prices, from which scores show their cost. None omits the cost.
    """

    version = PROMPTS_VERSION

    def __init__(
        self,
        chat: Any,
        *,
        window: int = 60_000,
        examples: Mapping[str, str] | None = None,
        memo: Memo | None = None,
        prices: Prices | None = None,
    ) -> None:
        super().__init__(chat, window, memo, prices)
        self._examples = dict(examples or {})
        for name in self._examples.keys() - SYSTEM_TEXTS.keys():
            raise ConfigError.unknown("examples", name, SYSTEM_TEXTS)
        if examples:
            self.version += f"+{memo_key('', '', self._examples).hex()[:8]}"

    def expected_calls(self, wanted: frozenset[Finding]) -> int:
        calls = [SPECS[kind].call for kind in wanted & SPECS.keys()]
        return sum(len(TEMPLATES) if call is PromptKind.GRADE else 1 for call in calls)

    async def _about(self, asks: Sequence[Ask], group: tuple[int, ...]) -> list[Answers]:
        answers = about_group(asks, group)
        for one in answers:
            if one.ask.kind is Finding.ENTITIES_FOUND:
                # An entity needs no call if a chunk contains the entity literally.
                one.take(_literal(one.ask))
        # After the first round, the provider's cache already holds the contexts.
        is_cached = any(kind in asks[0].known.usage for kind in WITH_CONTEXTS)
        lead: asyncio.Task[None] | None = None
        calls = list[asyncio.Task[None]]()
        for one in answers:
            is_led = one.ask.has_contexts and not is_cached
            for keys in _requests(one):
                calls.append(asyncio.create_task(self._ask(lead if is_led else None, one, keys)))
                lead = lead or (calls[-1] if is_led else None)
        await gathered(calls)
        return answers

    async def _ask(
        self, lead: asyncio.Task[None] | None, answers: Answers, keys: Sequence[str]
    ) -> None:
        # A provider caches a prefix when the first reply starts. Earlier calls pay the full price.
        if lead is not None:
            await asyncio.wait([lead], timeout=_LONGEST_LEAD)
        ask = answers.ask
        problems: tuple[str, ...] = ()
        for _ in range(_ATTEMPTS):
            if not (still := answers.open(keys)):
                break
            prompt = ask.prompt(still, problems, self._examples.get(ask.spec.system, ""))
            complete = partial(self._model.complete, prompt.sealed(self._secret))
            read = partial(ask.read, still)
            reading = await self._request(prompt.identity, complete, read, [answers])
            if reading is None:
                break
            answers.take(reading.values)
            problems = reading.problems


def _requests(answers: Answers) -> list[tuple[str, ...]]:
    keys = answers.open(tuple(answers.ask.items()))
    most = {Unit.ITEM: _MOST_CLAIMS, Unit.TEMPLATE: 1}.get(answers.ask.spec.unit, len(keys) or 1)
    count = -(-len(keys) // most)
    bounds = [at * len(keys) // count for at in range(count + 1)] if count else []
    return [keys[low:high] for low, high in pairwise(bounds)]


def _literal(ask: Ask) -> dict[str, Verdict]:
    chunks = [fold(context.text) for context in ask.sample.contexts or ()]
    names = {key: fold(entity) for key, entity in ask.items().items()}
    return {
        key: Verdict(True, _LITERALLY)
        for key, name in names.items()
        if name and any(re.search(_BEFORE + re.escape(name) + _AFTER, one) for one in chunks)
    }


class CallableJudge(LLMJudge):
    """Judges samples with a language model that your own function calls.

    Example:
        ```python
        async def ask(messages: list[dict[str, str]]) -> str:
            reply = await client.chat(messages=messages)
            return reply.text

        RagEval(judge=CallableJudge(ask, name="my-model"))
        ```

    Args:
        function: Receives a list of two messages, each with the keys `role` and `content`. Returns
            the text of the model's reply. A function that is not async runs on a thread.
        name: Scores show the judge as `callable:<name>`. The default is the function's name. If you
            pass a `memo`, you must also pass a name, because the memo stores replies by name.
        **options: Fields of `CallLimits`, such as `timeout`, and keywords of `LLMJudge`.
    """

    def __init__(self, function: Function, *, name: str | None = None, **options: Any) -> None:
        default = getattr(function, "__name__", type(function).__name__)
        if not callable(function):
            raise ConfigError("judge", default, _WANTS)
        if options.get("memo") is not None and not name:
            raise ConfigError(
                "name", name, "a name, because the memo finds replies by the judge's name"
            )
        limits, others = CallLimits.split(options)
        super().__init__(_CallableChat(function, f"callable:{name or default}", limits), **others)


class _CallableChat(ChatAdapter):
    def __init__(self, function: Function, name: str, limits: CallLimits) -> None:
        super().__init__(Caller(name), (OutputMode.TEXT,), limits)
        self._function, self._place = function, place_of(function)
        call = getattr(function, "__call__", None)  # noqa: B004 - `__call__` may be async
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
                told = f"the function returned {type(text).__name__}, not str"
                raise JudgeError(f"{self.name}: {told}.{self._place}")
        return reply_text(text)
