"""The verdicts of a verification: their shape in a reply, and their reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from rag_eval_hooks.findings import ChunkRelevance, Finding, Support, Verdict
from rag_eval_hooks.prompts.ask import ReplyError
from rag_eval_hooks.prompts.replies import (
    AgreementVerdict,
    EntityVerdict,
    RelevanceVerdict,
    SupportVerdict,
    UnknownIdError,
    parse,
)

__all__ = ["EXAMPLES", "KEYS", "Element", "reader"]

Element: TypeAlias = Support | Verdict | ChunkRelevance

_REASON = {"reason": "..."}
_SUPPORT = {"supporting": [1], "not_supporting": [2], "together": False, **_REASON}
EXAMPLES: Mapping[Finding, Mapping[str, Any]] = {
    Finding.ANSWER_SUPPORT: {"id": "a1", **_SUPPORT},
    Finding.REFERENCE_SUPPORT: {"id": "r1", **_SUPPORT},
    Finding.ANSWER_AGREEMENT: {"id": "a1", "holds": True, **_REASON},
    Finding.REFERENCE_AGREEMENT: {"id": "r1", "holds": True, **_REASON},
    Finding.RELEVANCE: {"chunk": 1, "useful": True, "rating": 80, **_REASON},
    Finding.ENTITIES_FOUND: {"id": "e1", "found": True, **_REASON},
}
"""One element of each finding, in the order in which they are asked for."""

KEYS: Mapping[Finding, str] = {
    kind: "chunk" if kind is Finding.RELEVANCE else "id" for kind in EXAMPLES
}
"""Which field of an element says what it is about."""


def reader(kind: Finding, chunks: int) -> Callable[[Any], Element]:
    """What reads one element of the finding.

    Args:
        kind: One of the verdicts.
        chunks: Number of chunks that were shown.
    """
    if kind in (Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT):
        return partial(_support, chunks)
    if kind is Finding.RELEVANCE:
        return _relevance
    return _entity if kind is Finding.ENTITIES_FOUND else _agreement


def _support(chunks: int, element: Any) -> Support:
    found = parse(SupportVerdict, element)
    sorted_in = found.supporting + found.not_supporting
    if not set(sorted_in) <= set(range(1, chunks + 1)):
        raise UnknownIdError("it has a chunk number that does not exist")
    if len(sorted_in) != chunks or len(set(sorted_in)) != chunks:
        raise ReplyError("each chunk number must stand in exactly one of the two lists")
    if found.together and chunks == 1:
        raise ReplyError("one chunk cannot support a claim together with others")
    by_chunk = tuple(number in found.supporting for number in range(1, chunks + 1))
    return Support(by_chunk, found.together and not any(by_chunk), found.reason)


def _agreement(element: Any) -> Verdict:
    found = parse(AgreementVerdict, element)
    return Verdict(found.holds, found.reason)


def _entity(element: Any) -> Verdict:
    found = parse(EntityVerdict, element)
    return Verdict(found.found, found.reason)


def _relevance(element: Any) -> ChunkRelevance:
    found = parse(RelevanceVerdict, element)
    return ChunkRelevance(found.useful, found.rating, found.reason)
