"""Verification by a language model, in one call or, when the contexts are long, in several."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any, TypeAlias

from rag_eval_hooks.findings import ClaimVerdict, Finding, Support, Verdict
from rag_eval_hooks.judges.asking import Answers, Request, gathered
from rag_eval_hooks.prompts import Ask, Unit
from rag_eval_hooks.text.folding import fold
from rag_eval_hooks.usage import tokens

AskAll: TypeAlias = Callable[[Iterable[Request]], Coroutine[Any, Any, Answers]]
_LITERALLY = "found literally"
_SPREAD = "parts of it stand in chunks that did not fit into one call"
_MOST_CLAIMS = 10
"""Claims in one call."""
_BEFORE = r"(?<![^\s(\"'\[])"
_AFTER = r"[.,;:!?)\"'\]]*(?:\s|$)"
_SUPPORTS = frozenset({Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT})
_RANK = (ClaimVerdict.SUPPORTED, ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED)


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
    """Return requests with at most ten claims or entities each, about equal in size."""
    most = _MOST_CLAIMS if ask.spec.unit is Unit.ITEM else max(len(keys), 1)
    count = -(-len(keys) // most)
    bounds = [at * len(keys) // count for at in range(count + 1)] if count else []
    return [(ask, keys[low:high]) for low, high in pairwise(bounds)]


def _literal(ask: Ask) -> dict[str, Verdict]:
    items, chunks = ask.items(), [context.text for context in ask.sample.contexts or ()]
    hits = _stated(list(items.values()), chunks)
    return {key: Verdict(True, _LITERALLY) for key, hit in zip(items, hits, strict=True) if hit}


def _stated(entities: Sequence[str], chunks: Sequence[str]) -> list[bool]:
    """Return for each entity whether it stands in a chunk as whole words, after folding.

    Only white space and sentence punctuation end a word here: "36" is not stated by "-36", "36.5"
    or "1,036". The judge is asked about everything that this misses.
    """
    folded = [fold(chunk) for chunk in chunks]
    return [
        any(re.search(_BEFORE + re.escape(name) + _AFTER, chunk) for chunk in folded)
        if (name := fold(entity))
        else False
        for entity in entities
    ]


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
