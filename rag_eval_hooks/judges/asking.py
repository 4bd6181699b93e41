"""Answers of a model to a finding's items, from one call or, for long contexts, several."""

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

from rag_eval_hooks.findings import ClaimVerdict, Finding, Support, Verdict
from rag_eval_hooks.prompts import Ask, Unit
from rag_eval_hooks.score import NotScored
from rag_eval_hooks.text.folding import fold
from rag_eval_hooks.usage import Usage, tokens

T = TypeVar("T")

Request: TypeAlias = tuple[Ask, Sequence[str]]
"""A finding and the keys of the items to ask for in one prompt."""
AskAll: TypeAlias = "Callable[[Iterable[Request]], Coroutine[Any, Any, Answers]]"
_LITERALLY = "found literally"
_SPREAD = "parts of it stand in chunks that did not fit into one call"
_MOST_CLAIMS = 10
"""Claims in one call."""
_BEFORE = r"(?<![^\s(\"'\[])"
_AFTER = r"[.,;:!?)\"'\]]*(?:\s|$)"
_SUPPORTS = frozenset({Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT})
_RANK = (ClaimVerdict.SUPPORTED, ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED)
_MOST_LEADS = 256
"""Beginnings of prompts that are remembered."""
_LONGEST_LEAD = 5.0
"""Seconds after which the others follow anyway: by then the first reply has begun, or is late."""


@dataclass(slots=True)
class Answers:
    """Contents that a model gave for the items of one finding."""

    values: dict[str, Any] = field(default_factory=dict)
    flawed: set[str] = field(default_factory=set)
    """Items whose content came with a warning once, and that are asked for once more."""
    failure: NotScored | None = None
    """Why asking ended early."""
    problem: str = ""
    """Problem of the last reply, without content."""
    usage: Usage = field(default_factory=Usage)

    def open(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return the items without a content, or with a flaw that asking again may repair."""
        return tuple(key for key in keys if key not in self.values or key in self.flawed)

    def take(self, values: Mapping[str, Any]) -> None:
        """Take over valid contents; a second content for an item is final, flawed or not."""
        for key, content in values.items():
            is_new = bool(getattr(content, "warning", "")) and key not in self.values
            (self.flawed.add if is_new else self.flawed.discard)(key)
            self.values[key] = content

    def absorb(self, other: Answers) -> None:
        """Add the failure, problem and usage of a further request."""
        self.failure = other.failure or self.failure
        self.problem = other.problem or self.problem
        self.usage += other.usage


class Stagger:
    """Lets the first of several calls that begin alike go ahead.

    A provider has a prompt's beginning in its cache once the first reply to it has begun; calls
    that are sent before are charged in full. A call that fails lets the others go too.
    """

    def __init__(self) -> None:
        self._leads: OrderedDict[int, asyncio.Event] = OrderedDict()

    async def run(self, prefix: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, after the first one with the same beginning; None for a call of its own."""
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
    """Return the results of all parts; the first error is raised once all have ended."""
    results = await asyncio.gather(*parts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[T]", results)


async def verified(ask: Ask, ask_all: AskAll, budget: int) -> Answers:
    """Return the verdicts; an entity that a chunk holds literally is found without asking.

    Contexts longer than the budget are verified in parts at once. Each part also says which of its
    chunks state a part of a claim: where chunks of several parts do and none supports the claim,
    together they may, and the verdict is unsure.
    """
    known = _literal(ask) if ask.kind is Finding.ENTITIES_FOUND else {}
    groups = _parts(ask, budget) if ask.has_contexts else []
    parts = [replace(ask, shown=group, partial=True) for group in groups]
    parts = parts if len(parts) > 1 else [ask]
    by_part = await gathered(
        ask_all(_requests(part, [key for key in part.items() if key not in known]))
        for part in parts
    )
    found = _added_up(ask.kind, [answers.values for answers in by_part])
    values = {key: _unless_spread(one, groups) for key, one in found.items()}
    answers = Answers(known | values)
    for part in by_part:
        answers.absorb(part)
    return answers


def _requests(ask: Ask, keys: Sequence[str]) -> list[Request]:
    most = _MOST_CLAIMS if ask.spec.unit is Unit.ITEM else max(len(keys), 1)
    count = -(-len(keys) // most)
    bounds = [at * len(keys) // count for at in range(count + 1)] if count else []
    return [(ask, keys[low:high]) for low, high in pairwise(bounds)]


def _literal(ask: Ask) -> dict[str, Verdict]:
    """Return the entities that stand in a chunk as whole words, after folding.

    Only white space and sentence punctuation end a word here: "36" is not stated by "-36", "36.5"
    or "1,036". The judge is asked about everything that this misses.
    """
    chunks = [fold(context.text) for context in ask.sample.contexts or ()]
    names = {key: fold(entity) for key, entity in ask.items().items()}
    return {
        key: Verdict(True, _LITERALLY)
        for key, name in names.items()
        if name and any(re.search(_BEFORE + re.escape(name) + _AFTER, one) for one in chunks)
    }


def _parts(ask: Ask, budget: int) -> list[tuple[int, ...]]:
    """Divide the numbers of chunks into groups that keep to a budget of tokens, in order.

    A chunk is never cut: a chunk longer than the budget is a group of its own.
    """
    groups: list[tuple[int, ...]] = []
    left = 0
    for number, context in enumerate(ask.sample.contexts or (), start=1):
        size = tokens(context.text)
        if groups and size <= left:
            groups[-1] += (number,)
        else:
            groups.append((number,))
            left = budget
        left -= size
    return groups


def _added_up(kind: Finding, seen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the contents of all parts by item; items without a content in some part are left out."""
    if kind in _SUPPORTS:
        keys = [key for key in seen[0] if all(key in part for part in seen)]
        return {key: reduce(_union, [part[key] for part in seen]) for key in keys}
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
    """Return the union of verdicts by two parts of the chunks: support outranks the contrary."""
    better, worse = sorted((one, other), key=lambda each: _RANK.index(each.verdict))
    weighed = (better, worse) if better.verdict is worse.verdict else (better,)
    by_chunk = tuple(map(operator.or_, one.by_chunk, other.by_chunk))
    return replace(
        better,
        by_chunk=by_chunk,
        together=(one.together or other.together) and not any(by_chunk),
        reason=" ".join(dict.fromkeys(each.reason for each in weighed if each.reason)),
        partly=one.partly | other.partly,
    )


def _unless_spread(content: Any, groups: Sequence[Collection[int]]) -> Any:
    """Return a verdict, unsure where chunks of several parts state parts of the claim."""
    if not isinstance(content, Support) or content.supported:
        return content
    is_spread = sum(bool(content.partly & set(group)) for group in groups) > 1
    return replace(content, verdict=ClaimVerdict.UNSURE, reason=_SPREAD) if is_spread else content
