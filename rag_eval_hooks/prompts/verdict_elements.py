"""Verdicts of a verification: their shape in a reply, and their reading."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from rag_eval_hooks.findings import ChunkRelevance, Finding, Support, Verdict
from rag_eval_hooks.prompts.prompt import ReplyError
from rag_eval_hooks.prompts.replies import (
    AgreementVerdict,
    EntityVerdict,
    PartialSupportVerdict,
    RelevanceVerdict,
    SupportVerdict,
    UnknownIdError,
    parse,
)

__all__ = ["EXAMPLES", "KEYS", "RELEVANCES", "SUPPORTS", "Element", "Sorting", "example", "reader"]

SUPPORTS: Final = frozenset({Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT})
RELEVANCES: Final = frozenset({Finding.RELEVANCE, Finding.RELEVANCE_TO_ANSWER})

_REASON = {"reason": "..."}
_SUPPORT = {"supporting": [1], "not_supporting": [2], "together": False, **_REASON}
_PARTIAL = {"supporting": [1], "partly": [3], "not_supporting": [2], "together": False, **_REASON}
_RELEVANCE = {"chunk": 1, "useful": True, "rating": 80, **_REASON}
EXAMPLES: Mapping[Finding, Mapping[str, Any]] = {
    Finding.ANSWER_SUPPORT: {"id": "a1", **_SUPPORT},
    Finding.REFERENCE_SUPPORT: {"id": "r1", **_SUPPORT},
    Finding.ANSWER_AGREEMENT: {"id": "a1", "holds": True, **_REASON},
    Finding.REFERENCE_AGREEMENT: {"id": "r1", "holds": True, **_REASON},
    Finding.RELEVANCE: _RELEVANCE,
    Finding.RELEVANCE_TO_ANSWER: _RELEVANCE,
    Finding.ENTITIES_FOUND: {"id": "e1", "found": True, **_REASON},
}
"""One element of each finding, in the order in which they are asked for."""

KEYS: Mapping[Finding, str] = {kind: "chunk" if kind in RELEVANCES else "id" for kind in EXAMPLES}
"""Field of an element that names its item."""


@dataclass(frozen=True, slots=True)
class Sorting:
    """Support of one claim by the chunks that were shown, by their numbers.

    Attributes:
        supporting: Each of these does alone.
        partly: Each of these states a part of the claim; known only where some chunks of all
            were shown.
        together: Several do jointly, though none does alone.
        reason: The judge's words.
    """

    supporting: frozenset[int]
    partly: frozenset[int] = frozenset()
    together: bool = False
    reason: str = ""

    def __or__(self, other: Sorting) -> Sorting:
        """Return the union with the support by other chunks."""
        reasons = dict.fromkeys(filter(None, (self.reason, other.reason)))
        return Sorting(
            self.supporting | other.supporting,
            self.partly | other.partly,
            self.together or other.together,
            " ".join(reasons),
        )

    def support(self, chunks: int) -> Support:
        """Return the verdict over all chunks, given their number."""
        by_chunk = tuple(number in self.supporting for number in range(1, chunks + 1))
        return Support(by_chunk, self.together and not any(by_chunk), self.reason)


Element: TypeAlias = Sorting | Verdict | ChunkRelevance


def example(kind: Finding, partial_view: bool) -> Mapping[str, Any]:
    """Return an example of one element of the finding.

    Args:
        kind: One of the verdicts.
        partial_view: Whether only some of the chunks are shown.
    """
    element = EXAMPLES[kind]
    return {"id": element["id"], **_PARTIAL} if partial_view and kind in SUPPORTS else element


def reader(
    kind: Finding, shown: Collection[int], partial_view: bool = False
) -> Callable[[Any], Element]:
    """Return the function that reads one element of the finding.

    Args:
        kind: One of the verdicts.
        shown: Numbers of the chunks that were shown.
        partial_view: True if these are only some of the chunks.
    """
    if kind in SUPPORTS:
        return partial(_partial_support if partial_view else _support, frozenset(shown))
    if kind in RELEVANCES:
        return _relevance
    return _entity if kind is Finding.ENTITIES_FOUND else _agreement


def _support(shown: frozenset[int], element: Any) -> Sorting:
    return _sorting(shown, parse(SupportVerdict, element), [])


def _partial_support(shown: frozenset[int], element: Any) -> Sorting:
    parsed = parse(PartialSupportVerdict, element)
    return _sorting(shown, parsed, parsed.partly)


def _sorting(shown: frozenset[int], parsed: SupportVerdict, partly: list[int]) -> Sorting:
    sorted_in = parsed.supporting + partly + parsed.not_supporting
    if not set(sorted_in) <= shown:
        raise UnknownIdError("it has a chunk number that does not exist")
    if len(sorted_in) != len(shown) or set(sorted_in) != shown:
        raise ReplyError("each chunk number must stand in exactly one of the lists")
    if parsed.together and len(shown) == 1:
        raise ReplyError("one chunk cannot support a claim together with others")
    supporting = frozenset(parsed.supporting)
    together = parsed.together and not supporting
    return Sorting(supporting, frozenset(partly), together, parsed.reason)


def _agreement(element: Any) -> Verdict:
    parsed = parse(AgreementVerdict, element)
    return Verdict(parsed.holds, parsed.reason)


def _entity(element: Any) -> Verdict:
    parsed = parse(EntityVerdict, element)
    return Verdict(parsed.found, parsed.reason)


def _relevance(element: Any) -> ChunkRelevance:
    parsed = parse(RelevanceVerdict, element)
    return ChunkRelevance(parsed.useful, parsed.rating, parsed.reason)
