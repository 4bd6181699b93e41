"""Asks a model about the items of a finding. Long contexts need several calls."""

from __future__ import annotations

import asyncio
import operator
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar, cast

from rag_eval_hooks.errors import ConfigError, JudgeTimeout
from rag_eval_hooks.findings import ClaimVerdict, Finding, Findings, Support, Verdict
from rag_eval_hooks.judges.calls.context import OUT_OF_TIME, call_context, is_in_time
from rag_eval_hooks.judges.memo import Memo
from rag_eval_hooks.prompts import SPECS, Ask, Unit
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks.text.folding import fold
from rag_eval_hooks.usage import Usage, tokens

T = TypeVar("T")

Request: TypeAlias = tuple[Ask, Sequence[str]]
"""A finding, and the keys of its items for one prompt."""
AskAll: TypeAlias = "Callable[[Iterable[Request]], Coroutine[Any, Any, Answers]]"
_LITERALLY = "found literally"
_SPREAD = "chunks that state parts of the claim did not fit into one call"
_MOST_CLAIMS = 10
_BEFORE = r"(?<![^\s(\"'\[])"
_AFTER = r"[.,;:!?)\"'\]]*(?:\s|$)"
_SUPPORTS = frozenset({Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT})
_NO_TEXT = NotScored(Cause.MISSING_INPUT, "a text is missing")
_RANK = (
    ClaimVerdict.SUPPORTED,
    ClaimVerdict.UNSURE,
    ClaimVerdict.CONTRADICTED,
    ClaimVerdict.NOT_STATED,
)
_MOST_LEADS = 256
"""Maximum number of prompt prefixes to remember."""
_LONGEST_LEAD = 5.0
"""Seconds after which the other calls start, even if the first reply has not started."""


@dataclass(slots=True)
class Answers:
    """A model's replies about the items of one finding."""

    values: dict[str, Any] = field(default_factory=dict)
    flawed: set[str] = field(default_factory=set)
    """Items whose reply had a warning. The judge asks about them a second time."""
    failure: NotScored | None = None
    """Why the judge stopped asking, or None."""
    problem: str = ""
    """Defect of the last reply, without the reply's text."""
    usage: Usage = field(default_factory=Usage)

    def open(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return items without a reply, or with a warning that a second reply may resolve."""
        return tuple(key for key in keys if key not in self.values or key in self.flawed)

    def take(self, values: Mapping[str, Any]) -> None:
        """Add valid replies. A second reply about an item is final, even with a warning."""
        for key, content in values.items():
            is_new = bool(getattr(content, "warning", "")) and key not in self.values
            (self.flawed.add if is_new else self.flawed.discard)(key)
            self.values[key] = content

    def absorb(self, other: Answers) -> None:
        """Add another request's failure, problem and usage."""
        self.failure = other.failure or self.failure
        self.problem = other.problem or self.problem
        self.usage += other.usage


class Stagger:
    """Sends the first of several calls with the same prompt prefix before the others.

    A provider caches a prefix once the first reply has started. Calls before that moment pay the
    full price. If the first call fails, the other calls proceed.
    """

    def __init__(self) -> None:
        self._leads: OrderedDict[int, asyncio.Event] = OrderedDict()

    async def run(self, prefix: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Run a call after the first call with the same prefix.

        A call without a prefix runs at once.
        """
        if prefix is None:
            return await call()
        key = hash((prefix, id(asyncio.get_running_loop())))
        if (lead := self._leads.get(key)) is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(lead.wait(), _LONGEST_LEAD)
            return await call()
        lead = self._leads[key] = asyncio.Event()
        if len(self._leads) > _MOST_LEADS:
            self._leads.popitem(last=False)
        try:
            return await call()
        finally:
            lead.set()


async def gathered(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all coroutines, then return their results or raise the first error."""
    results = await asyncio.gather(*parts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[T]", results)


async def verified(ask: Ask, ask_all: AskAll, budget: int) -> Answers:
    """Return the verdicts. An entity that appears literally in a chunk needs no call.

    Contexts longer than the token budget are verified in parallel groups. For each group, the model
    also names chunks that state part of a claim. A verdict is unsure if no group supports the whole
    claim and several groups state parts.
    """
    known = _literal(ask) if ask.kind is Finding.ENTITIES_FOUND else {}
    groups = parts(ask.sample, budget) if ask.has_contexts else []
    partial = [replace(ask, shown=group, partial=True) for group in groups]
    by_part = await gathered(
        ask_all(_requests(part, [key for key in part.items() if key not in known]))
        for part in (partial if len(partial) > 1 else [ask])
    )
    answers = joined(ask.kind, by_part, groups)
    answers.values = known | answers.values
    return answers


def joined(kind: Finding, by_part: Sequence[Answers], groups: Sequence[Collection[int]]) -> Answers:
    """Merge the answers of all groups: values by item, failures, problems and usage."""
    answers = Answers(_added_up(kind, [one.values for one in by_part], groups))
    for part in by_part:
        answers.absorb(part)
    return answers


def _requests(ask: Ask, keys: Sequence[str]) -> list[Request]:
    most = _MOST_CLAIMS if ask.spec.unit is Unit.ITEM else max(len(keys), 1)
    count = -(-len(keys) // most)
    bounds = [at * len(keys) // count for at in range(count + 1)] if count else []
    return [(ask, keys[low:high]) for low, high in pairwise(bounds)]


def _literal(ask: Ask) -> dict[str, Verdict]:
    """Return the entities that appear in a chunk as whole words, ignoring case and accents.

    Only white space and sentence punctuation end a word. So "-36", "36.5" and "1,036" do not
    contain "36". The judge is asked about the remaining entities.
    """
    chunks = [fold(context.text) for context in ask.sample.contexts or ()]
    names = {key: fold(entity) for key, entity in ask.items().items()}
    return {
        key: Verdict(True, _LITERALLY)
        for key, name in names.items()
        if name and any(re.search(_BEFORE + re.escape(name) + _AFTER, one) for one in chunks)
    }


def parts(sample: Sample, budget: int, most: int = 10**6) -> list[tuple[int, ...]]:
    """Split chunk numbers into consecutive groups of at most `most` chunks within a token budget.

    Chunks are never cut. A chunk longer than the budget is its own group.
    """
    groups: list[tuple[int, ...]] = []
    left = 0
    for number, context in enumerate(sample.contexts or (), start=1):
        size = tokens(context.text)
        if groups and size <= left and len(groups[-1]) < most:
            groups[-1] += (number,)
        else:
            groups.append((number,))
            left = budget
        left -= size
    return groups


def _added_up(
    kind: Finding, seen: Sequence[Mapping[str, Any]], groups: Sequence[Collection[int]]
) -> dict[str, Any]:
    """Merge the replies of all groups. Items that lack a reply from any group are omitted.

    A verdict is unsure if chunks of several groups state parts of the claim.
    """
    if kind in _SUPPORTS:
        keys = [key for key in seen[0] if all(key in part for part in seen)]
        found = {key: reduce(_union, [part[key] for part in seen]) for key in keys}
        return {key: _unless_spread(one, groups) for key, one in found.items()}
    if kind is not Finding.ENTITIES_FOUND:
        return {key: content for part in seen for key, content in part.items()}
    contents: dict[str, Any] = {}
    for key in {key: None for part in seen for key in part}:
        verdicts = [part[key] for part in seen if key in part]
        hits = [verdict for verdict in verdicts if verdict.holds]
        if hits or len(verdicts) == len(seen):
            contents[key] = (hits or verdicts)[0]
    return contents


def _union(one: Support, other: Support) -> Support:
    """Merge two groups' verdicts on a claim. Support overrides any other verdict."""
    better, worse = sorted((one, other), key=lambda each: _RANK.index(each.verdict))
    weighed = (better, worse) if better.verdict is worse.verdict else (better,)
    probabilities = (one.probability, other.probability)
    by_chunk = tuple(map(operator.or_, one.by_chunk, other.by_chunk))
    return replace(
        better,
        by_chunk=by_chunk,
        together=(one.together or other.together) and not any(by_chunk),
        probability=max((p for p in probabilities if p is not None), default=None),
        reason=" ".join(dict.fromkeys(each.reason for each in weighed if each.reason)),
        partly=one.partly | other.partly,
    )


def _unless_spread(content: Support, groups: Sequence[Collection[int]]) -> Support:
    is_spread = sum(bool(content.partly & set(group)) for group in groups) > 1
    if content.supported or not is_spread:
        return content
    return replace(content, verdict=ClaimVerdict.UNSURE, reason=_SPREAD)


def possible(sample: Sample, wanted: frozenset[Finding]) -> tuple[list[Finding], Findings]:
    """Split findings into possible findings and findings whose texts the sample lacks."""
    lacking = Field.lacking(sample)
    kinds = [kind for kind in SPECS if kind in wanted and not SPECS[kind].needs & lacking]
    return kinds, Findings.absent(wanted & SPECS.keys() - {*kinds}, _NO_TEXT)


def findings_of(ask: Ask, answers: Answers, advice: str = "") -> Findings:
    """Return the finding with its value, or the cause of its absence.

    If only some items have a verdict, the others become unsure. Each metric decides whether the
    sure items suffice.
    """
    kind, asked = ask.kind, ask.items()
    missing = sum(key not in answers.values for key in asked)
    content: Any
    warnings: dict[Finding, tuple[str, ...]] = {}
    if missing and not _is_enough(kind, len(asked) - missing, len(asked)):
        detail = f"the judge gave no valid reply for {missing} of {len(asked)} items"
        if answers.problem:
            detail += f"; last problem: {answers.problem}{advice}"
        content = answers.failure or NotScored(Cause.JUDGE_FAILED, detail)
    else:
        content = ask.content(answers.values)
        if missing and ask.spec.unit is Unit.SENTENCE:
            note = f"claims of {missing} of {len(asked)} sentences could not be read"
            warnings = {kind: (note,)}
    usage = {kind: answers.usage} if answers.usage != Usage() else {}
    return Findings.of(kind, content, usage=usage, warnings=warnings)


def _is_enough(kind: Finding, valid: int, asked: int) -> bool:
    unit = SPECS[kind].unit
    if unit is Unit.SENTENCE:
        return 3 * valid >= 2 * asked
    return valid > 0 and unit not in (Unit.WHOLE, Unit.TEXT)


async def remembered(
    memo: Memo | None, key: bytes, ask: Callable[[], Awaitable[str]]
) -> tuple[str, bool]:
    """Return the memo's text or else the text from `ask`. The second value tells whether it is new.

    Raises:
        JudgeTimeout: The sample's timeout passed.
    """
    if not is_in_time():
        raise JudgeTimeout(OUT_OF_TIME)
    try:
        async with asyncio.timeout_at(call_context().deadline):
            text = None if memo is None else await memo.recall(key)
            return (await ask(), True) if text is None else (text, False)
    except TimeoutError:
        raise JudgeTimeout(OUT_OF_TIME) from None


def check_count(field: str, value: object) -> None:
    """Raise `ConfigError` unless the value is an integer of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(field, value, "a whole number, 1 or more")
