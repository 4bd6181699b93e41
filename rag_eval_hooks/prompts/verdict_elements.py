"""Verdicts of a verification: their shape in a reply, and their reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from rag_eval_hooks.findings import ChunkRelevance, ClaimVerdict, Finding, Support, Verdict
from rag_eval_hooks.prompts.prompt import ReplyError
from rag_eval_hooks.prompts.replies import (
    Flag,
    Flawed,
    Number,
    ReplyElement,
    SpoiledGroupError,
    WholeNumber,
    Words,
    parse,
)
from rag_eval_hooks.prompts.shape import FLAG, NUMBER, TEXT, WHOLE_NUMBER, is_empty, one_of
from rag_eval_hooks.text.folding import fold

__all__ = [
    "AGREEMENTS",
    "KEYS",
    "RELEVANCES",
    "SHAPES",
    "SUPPORTS",
    "Element",
    "Sorting",
    "reader",
    "shape",
]

SUPPORTS: Final = frozenset({Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT})
RELEVANCES: Final = frozenset({Finding.RELEVANCE, Finding.RELEVANCE_TO_ANSWER})
AGREEMENTS: Final = frozenset({Finding.ANSWER_AGREEMENT, Finding.REFERENCE_AGREEMENT})
"""The verdicts that hold text against text: they need no chunk."""

_VERDICTS: Final = (ClaimVerdict.SUPPORTED, ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED)
_VERDICT: Final = {"id": TEXT, "quote": TEXT, "reason": TEXT, "verdict": one_of(*_VERDICTS)}
_SUPPORT: Final = {**_VERDICT, "chunks": [WHOLE_NUMBER], "together": FLAG}
_PARTIAL: Final = {**_VERDICT, "chunks": [WHOLE_NUMBER], "partly": [WHOLE_NUMBER], "together": FLAG}
_RELEVANCE: Final = {"chunk": WHOLE_NUMBER, "reason": TEXT, "useful": FLAG, "rating": NUMBER}
SHAPES: Mapping[Finding, Mapping[str, Any]] = {
    Finding.ANSWER_SUPPORT: _SUPPORT,
    Finding.REFERENCE_SUPPORT: _SUPPORT,
    Finding.ANSWER_AGREEMENT: _VERDICT,
    Finding.REFERENCE_AGREEMENT: _VERDICT,
    Finding.RELEVANCE: _RELEVANCE,
    Finding.RELEVANCE_TO_ANSWER: _RELEVANCE,
    Finding.ENTITIES_FOUND: {"id": TEXT, "reason": TEXT, "found": FLAG},
}
"""One element of each finding, in the order in which they are asked for."""
KEYS: Mapping[Finding, str] = {kind: "chunk" if kind in RELEVANCES else "id" for kind in SHAPES}
"""Field of an element that names its item."""

NOT_QUOTED: Final = "the judge's quote stands in none of the texts"
NO_QUOTE: Final = "the judge gave no quote"
NO_REASON: Final = "the judge gave no reason"
_ELLIPSIS: Final = re.compile(r"\[?(?:\.{3,}|…)\]?")
_MARKS: Final = re.compile(r"[*_`\"'|>#]+")


def _word(value: Any) -> Any:
    return re.sub(r"[\s-]+", "_", value.strip(" .").lower()) if isinstance(value, str) else value


class _ClaimElement(ReplyElement):
    quote: Words = ""
    reason: Words = ""
    verdict: Annotated[Literal["supported", "contradicted", "not_stated"], BeforeValidator(_word)]


class _SupportElement(_ClaimElement):
    chunks: list[WholeNumber] = Field(default_factory=list)
    together: Flag = False


class _PartialElement(_SupportElement):
    partly: list[WholeNumber]


class _EntityElement(ReplyElement):
    reason: Words = ""
    found: Flag


class _RelevanceElement(ReplyElement):
    reason: Words = ""
    useful: Flag
    rating: Annotated[Number, Field(ge=0, le=100)]


@dataclass(frozen=True, slots=True)
class Sorting:
    """Support of one claim by the chunks that were shown, by their numbers.

    Attributes:
        supporting: Each of these does alone.
        partly: Each of these states a part of the claim; known only where some chunks of all
            were shown.
        together: Several do jointly, though none does alone.
        reason: The judge's words.
        verdict: The verdict by these chunks.
        quote: Words of a chunk that decide it.
        warning: Flaw of the verdict that asking again did not mend, or empty.
    """

    supporting: frozenset[int]
    partly: frozenset[int] = frozenset()
    together: bool = False
    reason: str = ""
    verdict: ClaimVerdict = ClaimVerdict.NOT_STATED
    quote: str = ""
    warning: str = ""

    def __or__(self, other: Sorting) -> Sorting:
        """Return the union with the verdict by other chunks: support goes before the contrary."""
        better, worse = sorted((self, other), key=lambda one: _VERDICTS.index(one.verdict))
        weighed = (better, worse) if better.verdict is worse.verdict else (better,)
        reasons = dict.fromkeys(one.reason for one in weighed if one.reason)
        return Sorting(
            self.supporting | other.supporting,
            self.partly | other.partly,
            self.together or other.together,
            " ".join(reasons),
            better.verdict,
            better.quote,
            better.warning,
        )

    def support(self, chunks: int) -> Support:
        """Return the verdict over all chunks, given their number."""
        by_chunk = tuple(number in self.supporting for number in range(1, chunks + 1))
        return Support(
            by_chunk,
            self.together and not any(by_chunk),
            self.reason,
            self.verdict,
            self.quote,
            warning=self.warning,
        )


Element: TypeAlias = Sorting | Verdict | ChunkRelevance | Flawed


def shape(kind: Finding, partial_view: bool) -> Mapping[str, Any]:
    """Return the shape of one element of the finding.

    Args:
        kind: One of the verdicts.
        partial_view: Whether only some of the chunks are shown.
    """
    return _PARTIAL if partial_view and kind in SUPPORTS else SHAPES[kind]


def reader(
    kind: Finding, texts: Mapping[int, str], partial_view: bool = False
) -> Callable[[Any], Element]:
    """Return the function that reads one element of the finding.

    Args:
        kind: One of the verdicts.
        texts: The chunks that were shown by their numbers; for an agreement, the other text.
        partial_view: True if these are only some of the chunks.
    """
    if kind in RELEVANCES:
        return _relevance
    if kind is Finding.ENTITIES_FOUND:
        return _entity
    plain = {number: _plain(text) for number, text in texts.items()}
    if kind in SUPPORTS:
        return partial(_support, plain, _PartialElement if partial_view else _SupportElement)
    return partial(_agreement, plain)


def _support(texts: Mapping[int, str], form: type[_SupportElement], element: Any) -> Element:
    parsed = parse(form, element)
    partly = parsed.partly if isinstance(parsed, _PartialElement) else []
    if not {*parsed.chunks, *partly} <= texts.keys():
        raise SpoiledGroupError("it has a chunk number that does not exist")
    if parsed.together and len(texts) == 1:
        raise ReplyError("one chunk cannot support a claim together with others")
    supporting = frozenset(parsed.chunks)
    together = parsed.together and not supporting
    if (parsed.verdict == "supported") != (together or bool(supporting)):
        raise ReplyError("supported and nothing else wants chunks, or together")
    quoted = _quoted(parsed.quote, texts)
    if supporting and quoted and not quoted & supporting:
        raise ReplyError("the quote stands in another chunk than it names")
    flaw = _flaw(parsed, quoted)
    sorting = Sorting(
        supporting,
        frozenset(partly) - supporting,
        together,
        parsed.reason,
        ClaimVerdict(parsed.verdict),
        parsed.quote,
        flaw or "",
    )
    return Flawed(sorting, flaw) if flaw else sorting


def _agreement(texts: Mapping[int, str], element: Any) -> Element:
    parsed = parse(_ClaimElement, element)
    verdict = Verdict(parsed.verdict == "supported", parsed.reason)
    flaw = _flaw(parsed, _quoted(parsed.quote, texts))
    return Flawed(verdict, flaw) if flaw else verdict


def _entity(element: Any) -> Verdict:
    parsed = parse(_EntityElement, element)
    return Verdict(parsed.found, parsed.reason)


def _relevance(element: Any) -> ChunkRelevance:
    parsed = parse(_RelevanceElement, element)
    if 0 < parsed.rating < 1:
        raise SpoiledGroupError("it has a rating between 0 and 1, where 100 is the most")
    return ChunkRelevance(parsed.useful, parsed.rating, parsed.reason)


def _flaw(parsed: _ClaimElement, quoted: frozenset[int]) -> str | None:
    """Return the flaw of a verdict, or None."""
    if is_empty(parsed.quote):
        return NO_QUOTE if parsed.verdict != "not_stated" else _unexplained(parsed)
    return _unexplained(parsed) if quoted else NOT_QUOTED


def _unexplained(parsed: _ClaimElement) -> str | None:
    return NO_REASON if is_empty(parsed.reason) else None


def _quoted(quote: str, texts: Mapping[int, str]) -> frozenset[int]:
    """Return the numbers of the texts that a quote is copied from, all of its parts; else none.

    Case, accents, white space, quotation marks and Markdown make no difference.
    """
    parts = [part for part in map(_plain, _ELLIPSIS.split(quote)) if part]
    holding = [frozenset(n for n, text in texts.items() if part in text) for part in parts]
    return frozenset[int]().union(*holding) if all(holding) else frozenset()


def _plain(text: str) -> str:
    return " ".join(_MARKS.sub(" ", fold(text)).split()).strip(" .,;:")
