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

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.findings import Finding, Findings
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
from rag_eval_hooks.prompts import SPECS, Ask, Items, Prompt, Reading, ReplyError, Unit, Values
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks.usage import Usage, total_by_key

__all__ = ["Answers", "ItemLoop", "Request", "Stagger", "findings_of", "gathered", "without"]

T = TypeVar("T")

Request: TypeAlias = tuple[Ask, Items]
"""Items to ask for in one prompt."""
_MOST_SENT = 256
"""Beginnings of prompts that are remembered as sent."""
_LONGEST_LEAD = 5.0
"""Seconds after which the others follow anyway: by then the first reply has begun, or is late."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Valid contents, and the reasons for missing ones.

    Attributes:
        values: Contents of the items that have a valid one.
        failures: Reasons why asking ended early, by finding.
        problems: Problem of the last reply, without content, by finding.
        usage: Usage of each finding: an equal share of every call, failed calls included.
    """

    values: Values = field(default_factory=dict)
    failures: dict[Finding, NotScored] = field(default_factory=dict)
    problems: dict[Finding, str] = field(default_factory=dict)
    usage: Mapping[Finding, Usage] = field(default_factory=dict)

    def __or__(self, other: Answers) -> Answers:
        """Return both together; of two contents of one item, the other's."""
        values = {kind: dict(contents) for kind, contents in self.values.items()}
        for kind, contents in other.values.items():
            values.setdefault(kind, {}).update(contents)
        usage = total_by_key(self.usage, other.usage)
        failures, problems = self.failures | other.failures, self.problems | other.problems
        return Answers(values, failures, problems, usage)


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
        """Make a call, after the first one with the same beginning.

        Args:
            prefix: Beginning of the prompt that other calls share; None for a call of its own.
            call: Makes it.
        """
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
        """Make all calls at the same time, and return their answers together."""
        return (await self.ask_groups([list(calls)]))[0]

    async def ask_groups(self, groups: Sequence[Sequence[Request]]) -> list[Answers]:
        """Make all calls at the same time, and return the answers of each group."""
        calls = [(index, call) for index, group in enumerate(groups) for call in group if call[1]]
        results = await gathered(self.ask(*call) for _index, call in calls)
        answers = [Answers() for _group in groups]
        for (index, _call), result in zip(calls, results, strict=True):
            answers[index] |= result
        return answers

    async def ask(self, ask: Ask, items: Items, attempts: int | None = None) -> Answers:
        """Ask for items, and again for those whose content was not valid.

        A content with a flaw is asked for once more, and taken if that does not mend it. After a
        reply that was cut off, the rest is asked for in halves.
        """
        answers = Answers()
        flawed: Answers = Answers()
        problems: tuple[str, ...] = ()
        left = self._attempts if attempts is None else attempts
        while left and (still := without(items, answers.values)):
            left -= 1
            try:
                reading, used = await self._turn(ask, still, problems)
            except JudgeError as error:
                failure = Answers({}, dict.fromkeys(still, _failure(error)))
                answers |= failure | self._spent(still, error.usage)
                break
            problems = reading.problems
            items = {kind: keys for kind, keys in items.items() if kind not in ask.unwanted}
            answers |= Answers(problems=_last(without(still, reading.values), problems))
            again = _both(flawed.values, reading.flawed)
            flawed |= Answers(reading.flawed)
            answers |= Answers(reading.values) | Answers(again) | self._spent(still, used)
            halves = _halves(without(items, answers.values)) if reading.cut else []
            if left and len(halves) > 1:
                parts = await asyncio.gather(*(self.ask(ask, half, left) for half in halves))
                for part in parts:
                    answers |= part
                break
        return flawed | answers

    def _spent(self, items: Items, used: Usage) -> Answers:
        share = self._prices.priced(used, self._chat.name).share(len(items))
        return Answers(usage=dict.fromkeys(items, share))

    async def _turn(
        self, ask: Ask, items: Items, problems: tuple[str, ...]
    ) -> tuple[Reading, Usage]:
        try:
            prompt = ask.prompt(items, problems).sealed(self._secret)
            completion = await self._completed(prompt)
        except ReplyError as error:
            return Reading({}, (str(error),)), error.usage
        try:
            reading = ask.read(items, completion.text)
        except ReplyError as error:
            return Reading({}, (str(error),)), completion.usage
        if not (reading.problems or without(items, reading.values)):
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


def _last(items: Items, problems: Sequence[str]) -> dict[Finding, str]:
    """Return the problem of each finding that has open items: its own, else one of the reply."""
    found = {}
    for kind in items if problems else ():
        own = [one for one in problems if one.startswith(f"{kind.value}: ")]
        found[kind] = (own or problems)[0]
    return found


def _both(before: Values, now: Values) -> dict[Finding, dict[str, Any]]:
    """Return the contents of now of the items that were there before."""
    return {
        kind: {key: content for key, content in contents.items() if key in before.get(kind, {})}
        for kind, contents in now.items()
    }


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


def without(items: Items, values: Values) -> Items:
    """Return the items that have no content yet."""
    still = {
        kind: tuple(key for key in keys if key not in values.get(kind, {}))
        for kind, keys in items.items()
    }
    return {kind: keys for kind, keys in still.items() if keys}


def findings_of(ask: Ask, wanted: frozenset[Finding], answers: Answers) -> Findings:
    """Return the wanted findings, each with its content or the cause of its absence.

    Where only some items of many have a content, the others are unsure: a metric decides whether
    the rest is enough. What was spent on the question is the wanted findings' in equal parts.
    """
    items = ask.items()
    contents: dict[str, Any] = {}
    warnings: dict[Finding, tuple[str, ...]] = {}
    for kind in wanted:
        valid = answers.values.get(kind, {})
        asked = items.get(kind, ())
        missing = sum(key not in valid for key in asked)
        if missing and not _is_enough(kind, len(asked) - missing, len(asked)):
            why = answers.failures.get(kind)
            contents[kind.value] = why or _unanswered(
                missing, len(asked), answers.problems.get(kind)
            )
            continue
        if missing and SPECS[kind].unit is Unit.SENTENCE:
            warnings[kind] = (f"claims of {missing} of {len(asked)} sentences could not be read",)
        contents[kind.value] = ask.content(kind, valid)
    spent = sum(answers.usage.values(), start=Usage())
    usage = dict.fromkeys(wanted, spent.share(len(wanted))) if answers.usage else {}
    return Findings(**contents, usage=usage, warnings=warnings)


def _is_enough(kind: Finding, valid: int, asked: int) -> bool:
    """Return whether a finding can be made from some of its items."""
    unit = SPECS[kind].unit
    if unit is Unit.SENTENCE:
        return 3 * valid >= 2 * asked
    return valid > 0 and unit not in (Unit.WHOLE, Unit.TEXT)


def _failure(error: JudgeError) -> NotScored:
    return NotScored(cause_of(error), str(error))


def _unanswered(missing: int, asked: int, problem: str | None) -> NotScored:
    detail = f"the judge gave no valid reply for {missing} of {asked} items"
    return NotScored(
        Cause.JUDGE_FAILED, f"{detail}; last problem: {problem}" if problem else detail
    )
