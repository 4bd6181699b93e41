"""Requests for items to a model, repeated until each has a valid content."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.findings import Finding
from rag_eval_hooks.judges.calls.context import (
    UsageMeter,
    call_context,
    in_call_context,
    is_in_time,
    out_of_time,
)
from rag_eval_hooks.judges.calls.failures import cause_of
from rag_eval_hooks.judges.chat import Chat, Completion
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.prompts import Ask, Items, Prompt, Reading, ReplyError
from rag_eval_hooks.score import NotScored
from rag_eval_hooks.usage import Usage

T = TypeVar("T")

Request: TypeAlias = tuple[Ask, Items]
"""Items to ask for in one prompt."""
_MOST_SENT = 256
"""Beginnings of prompts that are remembered as sent."""
_LONGEST_LEAD = 5.0
"""Seconds after which the others follow anyway: by then the first reply has begun, or is late."""


@dataclass(slots=True)
class Answers:
    """Contents that a model gave, and the reasons for missing ones.

    Attributes:
        values: Valid contents by item.
        flawed: Contents that are asked for once more, and taken if that does not mend them.
        failures: Reasons why asking ended early, by finding.
        problems: Problem of the last reply, without content, by finding.
        usage: Usage of all calls, failed ones included.
    """

    values: dict[Finding, dict[str, Any]] = field(default_factory=dict)
    flawed: dict[Finding, dict[str, Any]] = field(default_factory=dict)
    failures: dict[Finding, NotScored] = field(default_factory=dict)
    problems: dict[Finding, str] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)

    def open(self, items: Items) -> Items:
        """Return the items that have no content yet."""
        still = {
            kind: tuple(key for key in keys if key not in self.values.get(kind, {}))
            for kind, keys in items.items()
        }
        return {kind: keys for kind, keys in still.items() if keys}

    def take(self, reading: Reading) -> None:
        """Take over valid contents, and flawed ones that had a flaw before."""
        for kind, contents in reading.values.items():
            self.values.setdefault(kind, {}).update(contents)
        for kind, contents in reading.flawed.items():
            before = self.flawed.setdefault(kind, {})
            again = {key: content for key, content in contents.items() if key in before}
            self.values.setdefault(kind, {}).update(again)
            before.update(contents)

    def take_flawed(self, items: Items) -> None:
        """Take over the flawed contents of items that nothing better came for."""
        for kind, keys in self.open(items).items():
            flawed = self.flawed.get(kind, {})
            found = {key: flawed[key] for key in keys if key in flawed}
            self.values.setdefault(kind, {}).update(found)

    def note(self, items: Items, problems: tuple[str, ...]) -> None:
        """Keep the problem of each finding that has open items: its own, else one of the reply."""
        for kind in items if problems else ():
            own = [one for one in problems if one.startswith(f"{kind.value}: ")]
            self.problems[kind] = (own or problems)[0]

    def absorb(self, other: Answers) -> None:
        """Take over what a further request gave, but for its contents."""
        self.failures |= other.failures
        self.problems |= other.problems
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


class ItemLoop:
    """Asks one model for items.

    Args:
        chat: The model.
        attempts: Times that one item may be asked for in all.
        prices: Puts costs on the usage, that of errors included.
        stagger: Lets the first call about a sample's contexts go ahead, or None.
    """

    def __init__(self, chat: Chat, attempts: int, prices: Prices, stagger: Stagger | None) -> None:
        self._chat = chat
        self._attempts = attempts
        self._prices = prices
        self._stagger = stagger
        self._secret = secrets.token_bytes(16)

    async def ask_all(self, calls: Iterable[Request]) -> Answers:
        """Make all calls at the same time, and return their answers together.

        An item is asked for again if its content was not valid. A content with a flaw is asked for
        once more, and taken if that does not mend it. After a reply that was cut off, the rest is
        asked for in halves.
        """
        answers = Answers()
        await gathered(self._ask(ask, items, self._attempts, answers) for ask, items in calls)
        return answers

    async def _ask(self, ask: Ask, items: Items, left: int, answers: Answers) -> None:
        problems: tuple[str, ...] = ()
        while left and (still := answers.open(items)):
            left -= 1
            try:
                reading, used = await self._turn(ask, still, problems)
            except JudgeError as error:
                answers.failures |= dict.fromkeys(still, NotScored(cause_of(error), str(error)))
                answers.usage += self._prices.priced(error.usage, self._chat.name)
                break
            items = {kind: keys for kind, keys in items.items() if kind not in ask.unwanted}
            answers.take(reading)
            answers.usage += self._prices.priced(used, self._chat.name)
            still, problems = answers.open(items), reading.problems
            answers.note(still, problems)
            halves = _halves(still) if reading.cut else []
            if left and len(halves) > 1:
                await asyncio.gather(*(self._ask(ask, half, left, answers) for half in halves))
                break
        answers.take_flawed(items)

    async def _turn(
        self, ask: Ask, items: Items, problems: tuple[str, ...]
    ) -> tuple[Reading, Usage]:
        try:
            completion = await self._completed(ask.prompt(items, problems).sealed(self._secret))
        except ReplyError as error:
            return Reading({}, (str(error),)), error.usage
        try:
            reading = ask.read(items, completion.text)
        except ReplyError as error:
            return Reading({}, (str(error),)), completion.usage
        if not reading.problems:
            completion.accept()
        return reading, completion.usage

    async def _completed(self, prompt: Prompt) -> Completion:
        """Return the model's reply, or raise `JudgeTimeout` with the usage at the deadline."""
        if not is_in_time():
            raise out_of_time(Usage())
        spent = UsageMeter()
        try:
            with in_call_context(meter=spent):
                async with asyncio.timeout_at(call_context().deadline):
                    if self._stagger is None:
                        return await self._chat.complete(prompt)
                    complete = partial(self._chat.complete, prompt)
                    return await self._stagger.run(prompt.prefix, complete)
        except TimeoutError:
            raise out_of_time(spent.usage) from None


def _halves(items: Items) -> list[Items]:
    """Divide items into two parts of equal size; one item is one part."""
    pairs = [(kind, key) for kind, keys in items.items() for key in keys]
    middle = (len(pairs) + 1) // 2
    halves: list[Items] = []
    for part in (pairs[:middle], pairs[middle:]):
        half: dict[Finding, tuple[str, ...]] = {}
        for kind, key in part:
            half[kind] = (*half.get(kind, ()), key)
        halves += [half] if half else []
    return halves
