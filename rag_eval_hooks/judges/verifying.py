"""Verification by a language model, in one call or, when the contexts are long, in several."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from rag_eval_hooks.findings import Finding, Findings, Verdict
from rag_eval_hooks.judges.asking import Answers, Asker, Call, findings_of, without
from rag_eval_hooks.prompts import Items, Values, VerifyAsk
from rag_eval_hooks.prompts.verdict_elements import AGREEMENTS, RELEVANCES, SUPPORTS, Sorting
from rag_eval_hooks.tasks import Verify
from rag_eval_hooks.text.folding import fold
from rag_eval_hooks.usage import Usage, tokens

__all__ = ["verify"]

_LITERALLY = "found literally"
_MOST_CLAIMS = 10
"""Claims in one call."""
Calls: TypeAlias = Callable[[VerifyAsk, Items], list[Call]]
Contents: TypeAlias = dict[Finding, dict[str, Any]]


async def verify(task: Verify, asker: Asker, calls: Calls, budget: int) -> Findings:
    """Make the verdicts; an entity that a chunk holds literally is found without asking.

    Args:
        task: The task.
        asker: Asks the model.
        calls: Makes calls of the items to ask for.
        budget: Tokens of contexts in one call.
    """
    if _are_twins(task):
        one = replace(task, wanted=task.wanted - {Finding.RELEVANCE_TO_ANSWER})
        return _with_twin(await verify(one, asker, calls, budget))
    ask = VerifyAsk(task)
    known = Answers(_literal(task, ask.items()))
    items = without(ask.items(), known.values)
    groups = parts(dict(enumerate(task.chunks, start=1)), budget)
    if len(groups) < 2:
        answers = await asker.ask_all(_divided(ask, items, calls))
    else:
        answers = await _DividedVerification(task, asker, calls, budget, groups).ask(items)
    return findings_of(ask, task.wanted, known | answers)


@dataclass(slots=True)
class _Joint:
    """Claims to ask about once more, and the chunks with their parts."""

    shown: set[int] = field(default_factory=set)
    items: dict[Finding, tuple[str, ...]] = field(default_factory=dict)

    def add(self, kind: Finding, key: str, chunks: frozenset[int]) -> None:
        self.shown |= chunks
        self.items[kind] = (*self.items.get(kind, ()), key)


@dataclass(frozen=True, slots=True)
class _DividedVerification:
    """Verification whose contexts go into several calls.

    A claim can need chunks that lie in different parts. So each part also says which of its chunks
    state a part of the claim; a claim that no part supports, with such chunks in several parts, is
    asked about once more, by these chunks alone. Only then is it known not to be supported.
    """

    task: Verify
    asker: Asker
    calls: Calls
    budget: int
    groups: Sequence[tuple[int, ...]]

    async def ask(self, items: Items) -> Answers:
        """Ask about all parts at once, then about claims whose support is spread over several."""
        by_part = await self.asker.ask_groups(
            [self._calls(items, index, group) for index, group in enumerate(self.groups)]
        )
        contents: Contents = {
            kind: added_up(kind, [part.values.get(kind, {}) for part in by_part]) for kind in items
        }
        answers = Answers()
        for part in by_part:
            answers |= replace(part, values={})
        again = [
            (VerifyAsk(self.task, shown=tuple(sorted(joint.shown))), joint.items)
            for joint in self._joints(contents)
        ]
        joined = await self.asker.ask_all(
            call for one in again for call in _divided(*one, self.calls)
        )
        for kind, key, sorting in list(self._spread(contents)):
            _settle(contents[kind], key, sorting, joined.values.get(kind, {}).get(key))
        return answers | replace(joined, values=contents)

    def _calls(self, items: Items, index: int, group: tuple[int, ...]) -> list[Call]:
        """Make the calls of one part; items that need no chunk go with the first."""
        ask = VerifyAsk(self.task, shown=group, partial_view=True)
        shown = {kind: set(keys) for kind, keys in ask.items().items()}
        own = {
            kind: tuple(key for key in keys if key in shown[kind])
            for kind, keys in items.items()
            if index == 0 or kind not in AGREEMENTS
        }
        return _divided(ask, {kind: keys for kind, keys in own.items() if keys}, self.calls)

    def _spread(self, contents: Contents) -> Iterator[tuple[Finding, str, Sorting]]:
        for kind in contents:
            for key, content in contents[kind].items():
                if kind in SUPPORTS and spread(content, self.groups):
                    yield kind, key, content

    def _joints(self, contents: Contents) -> list[_Joint]:
        """Group the claims to ask about once more into as few calls as the budget allows."""
        joints: list[_Joint] = []
        for kind, key, sorting in self._spread(contents):
            if not joints or self._size(joints[-1].shown | sorting.partly) > self.budget:
                joints.append(_Joint())
            joints[-1].add(kind, key, sorting.partly)
        return joints

    def _size(self, shown: set[int]) -> int:
        return sum(tokens(self.task.chunks[number - 1]) for number in shown)


def _divided(ask: VerifyAsk, items: Items, calls: Calls) -> list[Call]:
    """Make calls with at most ten claims each, agreements apart from what is about chunks."""
    claims = {kind: keys for kind, keys in items.items() if kind in SUPPORTS}
    others = {kind: keys for kind, keys in items.items() if kind not in SUPPORTS | AGREEMENTS}
    agreements = {kind: keys for kind, keys in items.items() if kind in AGREEMENTS}
    first, *more = _tens(claims) or [{}]
    parts = [{**first, **others}, *more, *_tens(agreements)]
    return [call for part in parts if part for call in calls(ask, part)]


def _tens(items: Items) -> list[Items]:
    """Divide items into as few parts of at most ten as possible, about equal in size."""
    pairs = [(kind, key) for kind, keys in items.items() for key in keys]
    count = -(-len(pairs) // _MOST_CLAIMS)
    parts: list[dict[Finding, tuple[str, ...]]] = [{} for _ in range(count)]
    for at, (kind, key) in enumerate(pairs):
        part = parts[at * count // len(pairs)]
        part[kind] = (*part.get(kind, ()), key)
    return list(parts)


def _settle(contents: dict[str, Any], key: str, before: Sorting, joint: Sorting | None) -> None:
    """Take the verdict by the joint chunks; without one, the claim stays open."""
    del contents[key]
    if joint is not None:
        together = joint.together or bool(joint.supporting)
        contents[key] = replace(joint, supporting=before.supporting, together=together)


def _literal(task: Verify, items: Items) -> Values:
    keys = items.get(Finding.ENTITIES_FOUND, ())
    hits = stated(task.entities, task.chunks) if keys else []
    verdicts = {key: Verdict(True, _LITERALLY) for key, hit in zip(keys, hits, strict=True) if hit}
    return {Finding.ENTITIES_FOUND: verdicts}


def _are_twins(task: Verify) -> bool:
    """Return whether both relevances are wanted and, without a reference, are equal."""
    only_answer = task.reference is None and task.answer is not None
    return only_answer and task.wanted >= RELEVANCES


def _with_twin(made: Findings) -> Findings:
    half = made.usage.get(Finding.RELEVANCE, Usage()).share(2)
    usage = {**made.usage, **dict.fromkeys(RELEVANCES, half)}
    return replace(made, relevance_to_answer=made.relevance, usage=usage)


# Only white space and sentence punctuation end a word here: "36" is not stated by "-36", "36.5"
# or "1,036". The judge is asked about everything that this misses.
_BEFORE = re.compile(r"(?<![^\s(\"'\[])")
_AFTER = re.compile(r"[.,;:!?)\"'\]]*(?:\s|$)")


def stated(entities: Sequence[str], chunks: Sequence[str]) -> list[bool]:
    """Return for each entity whether it stands in a chunk as whole words, after folding.

    Args:
        entities: Names, dates, places and numbers.
        chunks: Texts to look in.

    Returns:
        One verdict per entity, in order; False only means that it must be looked for further.
    """
    folded = [fold(chunk) for chunk in chunks]
    return [any(_stands_in(name, chunk) for chunk in folded) for name in map(fold, entities)]


def _stands_in(entity: str, chunk: str) -> bool:
    start = chunk.find(entity) if entity else -1
    while start >= 0:
        if _BEFORE.match(chunk, start) and _AFTER.match(chunk, start + len(entity)):
            return True
        start = chunk.find(entity, start + 1)
    return False


def parts(chunks: Mapping[int, str], budget: int) -> list[tuple[int, ...]]:
    """Divide the numbers of chunks into groups that keep to a budget, in order.

    A chunk is never cut: one that is longer than the budget is a group of its own.

    Args:
        chunks: Texts by number.
        budget: Tokens in one group.
    """
    groups: list[list[int]] = []
    left = 0
    for number, text in chunks.items():
        size = tokens(text)
        if not groups or size > left:
            groups.append([])
            left = budget
        groups[-1].append(number)
        left -= size
    return [tuple(group) for group in groups]


def added_up(kind: Finding, seen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the contents of all parts by item; items without a content in some part are left out.

    Args:
        kind: One of the verdicts about chunks.
        seen: The valid contents by item, one mapping a part.
    """
    if kind in SUPPORTS:
        keys = [key for key in seen[0] if all(key in part for part in seen)]
        return {key: _joined([part[key] for part in seen]) for key in keys}
    if kind is not Finding.ENTITIES_FOUND:
        return {key: content for part in seen for key, content in part.items()}
    contents: dict[str, Any] = {}
    for key in {key: None for part in seen for key in part}:
        verdicts = [part[key] for part in seen if key in part]
        hits = [verdict for verdict in verdicts if verdict.holds]
        if hits or len(verdicts) == len(seen):
            contents[key] = (hits or verdicts)[0]
    return contents


def spread(sorting: Sorting, groups: Sequence[Collection[int]]) -> bool:
    """Return whether a claim that no part supports is partly stated by chunks of several parts."""
    if sorting.supporting or sorting.together:
        return False
    return sum(bool(sorting.partly & set(group)) for group in groups) > 1


def _joined(sortings: Sequence[Sorting]) -> Sorting:
    first, *others = sortings
    for other in others:
        first |= other
    return first
