"""Requests for items to a model, repeated until each has a valid content."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.judges.calls.context import (
    OUT_OF_TIME,
    Tally,
    call_context,
    in_call_context,
    is_in_time,
)
from rag_eval_hooks.judges.calls.failures import cause_of
from rag_eval_hooks.judges.chat import Chat
from rag_eval_hooks.judges.memo import Memo, memo_key
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.prompts import Ask, Prompt, Reading, ReplyError
from rag_eval_hooks.score import NotScored
from rag_eval_hooks.usage import Usage

T = TypeVar("T")

Request: TypeAlias = tuple[Ask, Sequence[str]]
"""A finding and the keys of the items to ask for in one prompt."""
_MOST_SENT = 256
"""Beginnings of prompts that are remembered as sent."""
_LONGEST_LEAD = 5.0
"""Seconds after which the others follow anyway: by then the first reply has begun, or is late."""


@dataclass(slots=True)
class Answers:
    """Contents that a model gave for the items of one finding.

    Attributes:
        values: Valid contents by item.
        flawed: Items whose content came with a warning once, and that are asked for once more.
        failure: Reason why asking ended early, or None.
        problem: Problem of the last reply, without content.
        usage: Usage of all calls, failed ones included.
    """

    values: dict[str, Any] = field(default_factory=dict)
    flawed: set[str] = field(default_factory=set)
    failure: NotScored | None = None
    problem: str = ""
    usage: Usage = field(default_factory=Usage)

    def open(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return the items that have no content yet, or one with a flaw that may be mended."""
        return tuple(key for key in keys if key not in self.values or key in self.flawed)

    def take(self, values: Mapping[str, Any]) -> None:
        """Take over valid contents; the flaw of one is mended or stays when it comes again."""
        for key, content in values.items():
            is_new = bool(getattr(content, "warning", "")) and key not in self.values
            (self.flawed.add if is_new else self.flawed.discard)(key)
            self.values[key] = content

    def absorb(self, other: Answers) -> None:
        """Take over what a further request gave, but for its contents."""
        self.failure = other.failure or self.failure
        self.problem = other.problem or self.problem
        self.usage += other.usage


class Stagger:
    """Lets the first of several calls that begin alike go ahead.

    A provider has a prompt's beginning in its cache once the first reply to it has begun; calls
    that are sent before are charged in full. A call that fails lets the others go too. Later calls
    with a beginning that was sent lately do not wait.
    """

    def __init__(self) -> None:
        self._leads: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Event]] = (
            WeakKeyDictionary()
        )
        self._sent: OrderedDict[int, None] = OrderedDict()

    async def run(self, prefix: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, after the first one with the same beginning; None for a call of its own."""
        if prefix is None or hash(prefix) in self._sent:
            return await call()
        leads = self._leads.setdefault(asyncio.get_running_loop(), {})
        if (lead := leads.get(prefix)) is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(lead.wait(), _LONGEST_LEAD)
            return await call()
        lead = leads[prefix] = asyncio.Event()
        try:
            return await call()
        finally:
            lead.set()
            del leads[prefix]
            self._sent[hash(prefix)] = None
            while len(self._sent) > _MOST_SENT:
                self._sent.popitem(last=False)


async def gathered(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all parts at once and return their results; the first error is raised at the end.

    Only when all have ended: none goes on unobserved.
    """
    results = await asyncio.gather(*parts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemLoop:
    """Asks one model for items.

    Attributes:
        chat: The model.
        attempts: Times that one item may be asked for in all.
        prices: Puts costs on the usage, that of errors included.
        stagger: Lets the first call about a sample's contexts go ahead, or None.
        memo: Keeps replies that could be read, or None.
    """

    chat: Chat
    attempts: int
    prices: Prices
    stagger: Stagger | None
    memo: Memo | None
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)

    async def ask_all(self, calls: Iterable[Request]) -> Answers:
        """Make all calls about one finding at the same time, and return their answers together.

        An item is asked for again if its content was not valid. A content with a flaw is asked for
        once more, and kept if that does not mend it. After a reply that was cut off, the rest is
        asked for in halves.
        """
        answers = Answers()
        await gathered(self._ask(ask, keys, self.attempts, answers) for ask, keys in calls)
        return answers

    async def _ask(self, ask: Ask, keys: Sequence[str], left: int, answers: Answers) -> None:
        problems: tuple[str, ...] = ()
        while left and (still := answers.open(keys)):
            left -= 1
            tally = Tally()
            try:
                with in_call_context(tally=tally):
                    reading = await self._turn(ask, still, problems)
            except ReplyError as error:
                reading = Reading({}, (str(error),))
            except JudgeError as error:
                answers.failure = NotScored(cause_of(error), str(error))
                break
            finally:
                answers.usage += self.prices.priced(tally.usage, self.chat.name)
            answers.take(reading.values)
            still, problems = answers.open(keys), reading.problems
            answers.problem = next(iter(problems), answers.problem)
            if left and reading.cut and len(still) > 1:
                middle = (len(still) + 1) // 2
                halves = (still[:middle], still[middle:])
                await asyncio.gather(*(self._ask(ask, half, left, answers) for half in halves))
                break

    async def _turn(self, ask: Ask, keys: Sequence[str], problems: tuple[str, ...]) -> Reading:
        """Ask once and read the reply, which the memo keeps if nothing is wrong with it."""
        if not is_in_time():
            raise JudgeTimeout(OUT_OF_TIME)
        prompt = ask.prompt(keys, problems).sealed(self._secret)
        key, kept = memo_key(self.chat.name, getattr(self.chat, "memo_scope", ""), prompt), None
        try:
            async with asyncio.timeout_at(call_context().deadline):
                if self.memo is not None:
                    kept = await self.memo.recall(key)
                text = await self._completed(prompt) if kept is None else kept
        except TimeoutError:
            raise JudgeTimeout(OUT_OF_TIME) from None
        reading = ask.read(keys, text)
        if self.memo is not None and kept is None and not reading.problems:
            self.memo.keep(key, text)
        return reading

    async def _completed(self, prompt: Prompt) -> str:
        if self.stagger is None:
            return await self.chat.complete(prompt)
        return await self.stagger.run(prompt.prefix, partial(self.chat.complete, prompt))
