"""Verification by a language model, in one call or, when the contexts are long, in several."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any

from rag_eval_hooks.findings import Finding, Verdict, made
from rag_eval_hooks.judges.asking import Answers, ItemLoop, Request
from rag_eval_hooks.prompts import SPECS, Ask, Unit
from rag_eval_hooks.prompts.elements import ChunkSupport
from rag_eval_hooks.text.folding import fold
from rag_eval_hooks.usage import tokens

__all__ = ["verified"]

_LITERALLY = "found literally"
_MOST_CLAIMS = 10
"""Claims in one call."""
_SUPPORTS = frozenset({Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT})


async def verified(ask: Ask, loop: ItemLoop, budget: int) -> Answers:
    """Return the verdicts; an entity that a chunk holds literally is found without asking.

    Args:
        ask: One finding.
        loop: Asks the model.
        budget: Tokens of contexts in one call.
    """
    (kind,) = ask.kinds
    known = _literal(ask) if kind is Finding.ENTITIES_FOUND else {}
    keys = [key for key in ask.items().get(kind, ()) if key not in known]
    groups = parts(_chunks(ask), budget) if ask.has_contexts else []
    if len(groups) < 2:
        answers = await loop.ask_all(_requests(ask, keys))
    else:
        answers = await _by_parts(ask, keys, loop, groups, budget)
    return Answers({kind: known}) | answers


async def _by_parts(
    ask: Ask, keys: Sequence[str], loop: ItemLoop, groups: Sequence[tuple[int, ...]], budget: int
) -> Answers:
    """Ask about all parts at once, then about claims whose support is spread over several.

    A claim can need chunks that lie in different parts. So each part also says which of its chunks
    state a part of the claim; a claim that no part supports, with such chunks in several parts, is
    asked about once more, by these chunks alone. Only then is it known not to be supported.
    """
    (kind,) = ask.kinds
    requests = []
    for group in groups:
        part = replace(ask, shown=group, partial=True)
        shown = part.items()[kind]
        requests.append(_requests(part, [key for key in keys if key in shown]))
    by_part = await loop.ask_groups(requests)
    found = added_up(kind, [answers.values.get(kind, {}) for answers in by_part])
    scattered = {key: one for key, one in found.items() if spread(one, groups)}
    joined = await loop.ask_all(
        request
        for chunks, claims in _joint(scattered, _chunks(ask), budget)
        for request in _requests(replace(ask, shown=tuple(sorted(chunks))), claims)
    )
    for key, before in scattered.items():
        del found[key]
        if (joint := joined.values.get(kind, {}).get(key)) is not None:
            together = joint.together or bool(joint.supporting)
            found[key] = replace(joint, supporting=before.supporting, together=together)
    answers = Answers()
    for part_of_all in by_part:
        answers |= replace(part_of_all, values={})
    return answers | replace(joined, values={kind: found})


def _joint(
    scattered: Mapping[str, ChunkSupport], chunks: Mapping[int, str], budget: int
) -> list[tuple[set[int], list[str]]]:
    """Group claims to ask about once more, with their chunks, into as few calls as possible."""
    joints: list[tuple[set[int], list[str]]] = []
    for key, support in scattered.items():
        union = (joints[-1][0] if joints else set()) | support.partly
        if not joints or sum(tokens(chunks[number]) for number in union) > budget:
            joints.append((set(), []))
        joints[-1][0].update(support.partly)
        joints[-1][1].append(key)
    return joints


def _requests(ask: Ask, keys: Sequence[str]) -> list[Request]:
    """Return requests with at most ten claims or entities each, about equal in size."""
    (kind,) = ask.kinds
    most = _MOST_CLAIMS if SPECS[kind].unit is Unit.ITEM else max(len(keys), 1)
    count = -(-len(keys) // most)
    bounds = [at * len(keys) // count for at in range(count + 1)] if count else []
    return [(ask, {kind: tuple(keys[low:high])}) for low, high in pairwise(bounds)]


def _chunks(ask: Ask) -> dict[int, str]:
    return {n: one.text for n, one in enumerate(ask.sample.contexts or (), start=1)}


def _literal(ask: Ask) -> dict[str, Verdict]:
    keys = ask.items().get(Finding.ENTITIES_FOUND, ())
    hits = stated(made(ask.known.entities) if keys else (), list(_chunks(ask).values()))
    return {key: Verdict(True, _LITERALLY) for key, hit in zip(keys, hits, strict=True) if hit}


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
        kind: A verdict about the contexts.
        seen: The valid contents by item, one mapping for each part.
    """
    if kind in _SUPPORTS:
        keys = [key for key in seen[0] if all(key in part for part in seen)]
        return {key: reduce(operator.or_, [part[key] for part in seen]) for key in keys}
    if kind is not Finding.ENTITIES_FOUND:
        return {key: content for part in seen for key, content in part.items()}
    contents: dict[str, Any] = {}
    for key in {key: None for part in seen for key in part}:
        verdicts = [part[key] for part in seen if key in part]
        hits = [verdict for verdict in verdicts if verdict.holds]
        if hits or len(verdicts) == len(seen):
            contents[key] = (hits or verdicts)[0]
    return contents


def spread(content: Any, groups: Sequence[Collection[int]]) -> bool:
    """Return whether a claim that no part supports is partly stated by chunks of several parts."""
    if not isinstance(content, ChunkSupport) or content.supporting or content.together:
        return False
    return sum(bool(content.partly & set(group)) for group in groups) > 1
