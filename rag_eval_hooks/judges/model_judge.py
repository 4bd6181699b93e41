"""`ModelJudge`: base class of judges that ask a model."""

from __future__ import annotations

import asyncio
import operator
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Any, Final, TypeVar, cast

from rag_eval_hooks.calls import Usage, tokens
from rag_eval_hooks.errors import JudgeError, check_count
from rag_eval_hooks.findings import ClaimVerdict, Finding, Findings, Support
from rag_eval_hooks.judges.failures import absence_of
from rag_eval_hooks.judges.memo import Memo, memo_key
from rag_eval_hooks.judges.model_calls import (
    OUT_OF_TIME,
    Tally,
    call_context,
    in_call_context,
    is_in_time,
)
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.prompts.ask import Ask, Reading
from rag_eval_hooks.prompts.prompt import ReplyError
from rag_eval_hooks.prompts.specs import SPECS, Unit
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored

T = TypeVar("T")

_NO_TEXT: Final = NotScored(Cause.MISSING_INPUT, "the sample lacks a text that the judge needs")
_TOO_LONG: Final = NotScored(
    Cause.MISSING_INPUT, "the contexts are longer than the judge's window (`judge_window`)"
)
_OUT_OF_TIME: Final = NotScored(Cause.TIMEOUT, OUT_OF_TIME)
_SPREAD: Final = "the chunks did not fit into one call, and together they may state the claim"
_SUPPORTS: Final = frozenset({Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT})
_RANK: Final = (
    ClaimVerdict.SUPPORTED,
    ClaimVerdict.UNSURE,
    ClaimVerdict.CONTRADICTED,
    ClaimVerdict.NOT_STATED,
)


@dataclass(slots=True)
class Answers:
    ask: Ask
    values: dict[str, Any] = field(default_factory=dict)
    flawed: set[str] = field(default_factory=set)  # items to ask about again
    failure: NotScored | None = None  # reason why the judge stopped asking, or None
    problem: str = ""  # problem of the last reply, without the reply's text
    usage: Usage = field(default_factory=Usage)

    def open(self, keys: Sequence[str]) -> tuple[str, ...]:
        return tuple(key for key in keys if key not in self.values or key in self.flawed)

    def take(self, values: Mapping[str, Any]) -> None:
        for key, content in values.items():
            is_new = bool(getattr(content, "warning", "")) and key not in self.values
            (self.flawed.add if is_new else self.flawed.discard)(key)
            self.values[key] = content

    def charge(self, usage: Usage, problem: str, failure: NotScored | None) -> None:
        self.usage += usage
        self.problem = problem or self.problem
        self.failure = failure or self.failure

    def finding(self) -> Findings:
        kind, unit, asked = self.ask.kind, self.ask.spec.unit, self.ask.items()
        missing = sum(key not in self.values for key in asked)
        unanswered = f"{missing} of {len(asked)}"
        if unit is Unit.SENTENCE:
            is_enough = 3 * missing <= len(asked)
        else:
            is_enough = missing < len(asked) and unit not in (Unit.WHOLE, Unit.TEXT)
        content: Any
        warnings: dict[Finding, tuple[str, ...]] = {}
        if missing and not is_enough:
            problem = f"; last problem: {self.problem}" if self.problem else ""
            detail = f"the judge gave no valid reply for {unanswered} items{problem}"
            content = self.failure or NotScored(Cause.JUDGE_FAILED, detail)
        else:
            content = self.ask.content(self.values)
            if missing and unit is Unit.SENTENCE:
                warnings = {kind: (f"the judge gave no claims for {unanswered} sentences",)}
        usage = {kind: self.usage} if self.usage != Usage() else {}
        return Findings.of(kind, content, usage=usage, warnings=warnings)


def about_group(asks: Iterable[Ask], group: tuple[int, ...]) -> list[Answers]:
    is_first = group[:1] in ((), (1,))
    return [
        Answers(replace(ask, shown=group) if ask.spec.splits else ask)
        for ask in asks
        if is_first or ask.spec.splits
    ]


class ModelJudge(ABC):
    annotator_kind = AnnotatorKind.LLM
    most_chunks = 10**6

    def __init__(self, model: Any, window: int, memo: Memo | None, prices: Prices | None) -> None:
        self.name: str = model.name
        self.host: str | None = getattr(model, "host", None)
        self._model, self._memo, self._prices = model, memo, prices or Prices()
        check_count("window", window)
        self._window, self._secret = window, secrets.token_bytes(16)

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        possible = without_missing_texts(wanted, sample)
        findings = Findings.absent(wanted - possible, _NO_TEXT)
        sizes = [tokens(context.text) for context in sample.contexts or ()]
        groups, is_long = self._groups(sizes) or [()], max(sizes, default=0) > self._window
        asks = list[Ask]()
        for ask in (Ask(kind, sample, known) for kind in SPECS if kind in possible):
            # A model may cut a text without an error, so do not send a text beyond the window.
            if ask.has_contexts and (is_long or (len(groups) > 1 and not ask.spec.splits)):
                findings = findings.merged(Findings.absent(frozenset({ask.kind}), _TOO_LONG))
            else:
                asks.append(ask)
        if not asks:
            return findings
        parts = [*chain(*await gathered(self._about(asks, group) for group in groups))]
        for ask in asks:
            whole = _joined(ask, [one for one in parts if one.ask.kind is ask.kind])
            findings = findings.merged(whole.finding())
        return findings

    async def aclose(self) -> None:
        await self._model.aclose()
        if self._memo is not None:
            await self._memo.aclose()

    def _groups(self, sizes: Sequence[int]) -> list[tuple[int, ...]]:
        groups: list[tuple[int, ...]] = []
        left = 0
        for number, size in enumerate(sizes, start=1):
            if groups and size <= left and len(groups[-1]) < self.most_chunks:
                groups[-1] += (number,)
            else:
                groups.append((number,))
                left = self._window
            left -= size
        return groups

    @abstractmethod
    async def _about(self, asks: Sequence[Ask], group: tuple[int, ...]) -> list[Answers]:
        pass

    async def _request(
        self,
        identity: object,
        complete: Callable[[], Awaitable[str]],
        read: Callable[[str], Reading],
        charged: Sequence[Answers],
    ) -> Reading | None:
        tally, memo, failure, reading = Tally(), self._memo, None, None
        key = memo_key(self.name, getattr(self._model, "memo_scope", ""), identity)
        try:
            if not is_in_time():
                raise TimeoutError
            with in_call_context(tally=tally):
                async with asyncio.timeout_at(call_context().deadline):
                    kept = None if memo is None else await memo.recall(key)
                    text = await complete() if kept is None else kept
            reading = read(text)
            if kept is None and memo is not None and not reading.problems:
                memo.keep(key, text)
        except ReplyError as error:
            reading = Reading({}, (str(error),))
        except TimeoutError:
            failure = _OUT_OF_TIME
        except JudgeError as error:
            failure = absence_of(error)
        used = self._prices.priced(tally.usage, self.name).share(len(charged))
        problem = reading.problems[0] if reading and reading.problems else ""
        for answers in charged:
            answers.charge(used, problem, failure)
        return reading


def _joined(ask: Ask, parts: Sequence[Answers]) -> Answers:
    whole = Answers(ask)
    for part in parts:
        whole.charge(part.usage, part.problem, part.failure)
    for key in {key: None for part in parts for key in part.values}:
        found = [part.values[key] for part in parts if key in part.values]
        if ask.kind in _SUPPORTS and len(found) == len(parts):
            support = reduce(_union, found)
            if len(parts) > 1 and support.verdict is ClaimVerdict.NOT_STATED:
                support = replace(support, verdict=ClaimVerdict.UNSURE, reason=_SPREAD)
            whole.values[key] = support
        elif ask.kind is Finding.ENTITIES_FOUND:
            hits = [verdict for verdict in found if verdict.holds]
            if hits or len(found) == len(parts):
                whole.values[key] = (hits or found)[0]
        elif ask.kind not in _SUPPORTS:
            whole.values[key] = found[-1]
    return whole


def _union(one: Support, other: Support) -> Support:
    better, worse = sorted((one, other), key=lambda each: _RANK.index(each.verdict))
    reasons = [better.reason, worse.reason if better.verdict is worse.verdict else ""]
    probabilities = (p for p in (one.probability, other.probability) if p is not None)
    by_chunk = tuple(map(operator.or_, one.by_chunk, other.by_chunk))
    return replace(
        better,
        by_chunk=by_chunk,
        together=(one.together or other.together) and not any(by_chunk),
        probability=max(probabilities, default=None),
        reason=" ".join(dict.fromkeys(filter(None, reasons))),
    )


def without_missing_texts(kinds: frozenset[Finding], sample: Sample) -> frozenset[Finding]:
    lacking = Field.lacking(sample)
    return frozenset(kind for kind in kinds & SPECS.keys() if not SPECS[kind].needs & lacking)


async def gathered(parts: Iterable[Awaitable[T]]) -> list[T]:
    results = await asyncio.gather(*parts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[T]", results)
