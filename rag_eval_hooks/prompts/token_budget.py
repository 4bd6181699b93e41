"""Division of contexts that are too long for one verification, and the union of the verdicts.

A claim can need chunks that lie in different parts. So each part also says which of its chunks
state a part of the claim; a claim that no part supports, with such chunks in several parts, is
asked about once more, by these chunks alone. Only then is it known not to be supported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts.verdict_elements import SUPPORTS, Sorting

__all__ = ["added_up", "parts", "spread", "tokens"]

_BYTES_PER_TOKEN = 3
"""Of UTF-8: three Latin characters, one and a half Arabic or Cyrillic ones, or one Chinese one.
A low estimate of what a token holds, so that the budget is kept by any tokeniser in use."""


def tokens(text: str) -> int:
    """Estimate the tokens of a text, rather too many than too few."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


def parts(chunks: Mapping[int, str], budget: int) -> list[tuple[int, ...]]:
    """Divide the numbers of chunks into groups that keep to a budget, in order.

    A chunk is never cut: one that is longer than the budget is a group of its own.

    Args:
        chunks: Texts by number.
        budget: Tokens in one group.
    """
    groups: list[list[int]] = []
    room = 0
    for number, text in chunks.items():
        size = tokens(text)
        if not groups or size > room:
            groups.append([])
            room = budget
        groups[-1].append(number)
        room -= size
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
    """Tell if a claim that no part supports is partly stated by chunks of several parts."""
    if sorting.supporting or sorting.together:
        return False
    return sum(bool(sorting.partly & set(group)) for group in groups) > 1


def _joined(sortings: Sequence[Sorting]) -> Sorting:
    first, *others = sortings
    for other in others:
        first |= other
    return first
