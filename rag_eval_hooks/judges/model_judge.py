"""`ModelJudge`: base class of judges over a model, with memo, usage and failure handling."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar, Final, TypeVar, cast

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.errors import InputError, JudgeError, JudgeTimeout, wrong_type
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.judges.answers import Answers, chunk_groups, joined
from rag_eval_hooks.judges.base import Judge
from rag_eval_hooks.judges.calls.call_context import (
    OUT_OF_TIME,
    Tally,
    call_context,
    in_call_context,
    is_in_time,
    observed_call,
)
from rag_eval_hooks.judges.calls.call_limits import CallKeywords
from rag_eval_hooks.judges.calls.failures import TooLongError, absence_of
from rag_eval_hooks.judges.memo import Memo, memo_key
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.prompts import ABOUT, SPECS, Ask, Reading, ReplyError
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored
from rag_eval_hooks.usage import Usage

T = TypeVar("T")

_NO_TEXT: Final = NotScored(Cause.MISSING_INPUT, "a text is missing")


class ModelKeywords(CallKeywords, total=False):
    memo: Memo | None
    prices: Prices | None


class ModelJudge(ABC):
    annotator_kind = AnnotatorKind.LLM
    makes: ClassVar[frozenset[Finding]]
    not_made: ClassVar[NotScored]
    most_chunks = 10**6

    def __init__(self, model: Any, window: int, memo: Memo | None, prices: Prices | None) -> None:
        self.name: str = model.name
        self.host: str | None = getattr(model, "host", None)
        self._model, self._memo, self._prices = model, memo, prices or Prices()
        self._window, self._secret = window, secrets.token_bytes(16)

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        """Make findings.

        If the sample lacks a text that a finding needs, the finding is absent with the cause
        `missing_input`.
        """
        possible = without_missing_texts(wanted & self.makes, sample)
        findings = Findings.absent(wanted - self.makes, self.not_made)
        findings = findings.merged(Findings.absent((wanted & self.makes) - possible, _NO_TEXT))
        asks = [Ask(kind, sample, known) for kind in SPECS if kind in possible]
        advice = getattr(self._model, "advice", "")
        for answers in await self._answers(asks) if asks else ():
            findings = findings.merged(answers.finding(advice))
        return findings

    async def aclose(self) -> None:
        await self._model.aclose()
        if self._memo is not None:
            await self._memo.aclose()

    async def _answers(self, asks: Sequence[Ask]) -> list[Answers]:
        """Ask about all findings, in groups of chunks within the token budget."""
        groups = chunk_groups(asks[0].sample, self._window, self.most_chunks) or [()]
        parts = [*chain(*await gathered(self._about(asks, group) for group in groups))]
        return [joined(ask, [one for one in parts if one.ask.kind is ask.kind]) for ask in asks]

    @abstractmethod
    async def _about(self, asks: Sequence[Ask], group: tuple[int, ...]) -> list[Answers]:
        """Ask about a group of chunks.

        Only the first group includes findings that are not split.
        """

    async def _request(
        self,
        identity: object,
        complete: Callable[[], Awaitable[str]],
        read: Callable[[str], Reading],
        charged: Sequence[Answers],
    ) -> Reading | None:
        """Send one request, or read its reply from the memo. Return None after a failure."""
        tally, failure, reading = Tally(), None, None
        try:
            with in_call_context(tally=tally):
                reading = await self._remembered(identity, complete, read)
        except ReplyError as error:
            reading = Reading({}, (str(error),), isinstance(error, TooLongError))
        except JudgeError as error:
            failure = absence_of(error)
        used = self._prices.priced(tally.usage, self.name).share(len(charged))
        problem = reading.problems[0] if reading and reading.problems else ""
        for answers in charged:
            answers.charge(used, problem, failure)
        return reading

    async def _remembered(
        self,
        identity: object,
        complete: Callable[[], Awaitable[str]],
        read: Callable[[str], Reading],
    ) -> Reading:
        """Parse the memo's reply or a new reply. Store a new reply only if it has no problems."""
        if not is_in_time():
            raise JudgeTimeout(OUT_OF_TIME)
        memo, scope = self._memo, getattr(self._model, "memo_scope", "")
        key = memo_key(self.name, scope, identity)
        try:
            async with asyncio.timeout_at(call_context().deadline):
                if memo is not None and (text := await memo.recall(key)) is not None:
                    return read(text)
                text = await complete()
        except TimeoutError:
            raise JudgeTimeout(OUT_OF_TIME) from None
        reading = read(text)
        if memo is not None and not reading.problems:
            memo.keep(key, text)
        return reading


def without_missing_texts(kinds: frozenset[Finding], sample: Sample) -> frozenset[Finding]:
    lacking = Field.lacking(sample)
    return frozenset(kind for kind in kinds if not SPECS[kind].needs & lacking)


async def gathered(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    results = await asyncio.gather(*parts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[T]", results)


async def findings_by(
    judge: Judge, sample: Sample, wanted: frozenset[Finding], known: Findings
) -> Findings:
    """Return a judge's findings. Report `make` as one call if the calls inside are invisible.

    Raises:
        JudgeError: No finding could be made.
        InputError: `make` of a user's judge is not async or returns no `Findings`.
    """
    if not _hides_calls(judge):
        return await _made(judge, sample, wanted, known)
    with observed_call(Caller(judge.name), is_request=False) as meter:
        async with meter.sending():
            findings = await _made(judge, sample, wanted, known)
        used = sum(findings.usage.values(), start=Usage())
        meter.replied(round(used.input_tokens), round(used.output_tokens))
        return findings


async def _made(
    judge: Judge, sample: Sample, wanted: frozenset[Finding], known: Findings
) -> Findings:
    reply: Any = judge.make(sample, wanted, known)
    if not inspect.isawaitable(reply):
        stated = f"make() of judge {judge.name} must be async and give Findings."
        raise InputError(stated + place_of(judge.make))
    findings = await reply
    if not isinstance(findings, Findings):
        name = f"the result of make() of judge {judge.name}"
        raise wrong_type(name, "Findings", findings, place_of(judge.make).strip())
    return findings


def expected_calls(judge: Judge, wanted: frozenset[Finding]) -> int:
    """Return the number of calls to reserve in the budget before the judge starts."""
    if _hides_calls(judge):
        # One call for items, and one for verdicts about them.
        return len({kind in ABOUT for kind in wanted & SPECS.keys()})
    count: int = judge.expected_calls(wanted) if hasattr(judge, "expected_calls") else 0
    return count


def _hides_calls(judge: Judge) -> bool:
    return not hasattr(judge, "expected_calls") and judge.annotator_kind is AnnotatorKind.LLM
