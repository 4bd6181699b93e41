"""Shares of claims over those that the judge is sure about, and the rows of explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from rag_eval_hooks.claim_verdict import CUT, UNREAD
from rag_eval_hooks.findings import ChunkRelevance, ClaimVerdict, Support, Verdict
from rag_eval_hooks.score import Cause, NotScored, Unavailable

__all__ = [
    "ClaimShare",
    "chunk_numbers",
    "chunk_rows",
    "claim_rows",
    "question_rows",
    "require_sure",
    "supported_share",
    "sure_ones",
    "unsure",
    "within",
]

V = TypeVar("V", Support, Verdict, ChunkRelevance)

_OUTSIDE = NotScored(Cause.JUDGE_FAILED, "the judge's rating is outside its scale")


@dataclass(frozen=True, slots=True)
class ClaimShare:
    """Share of claims that the contexts support.

    Attributes:
        value: Supported claims of all sure ones, in [0, 1]; None without claims.
        parts: Shares of the sure claims that are `contradicted` and `not_stated`, which add up to
            1 with the value, and of all claims that are `unsure`.
        warnings: Number of claims that are not counted, and of quotes that stand in no chunk.
        explanation: One row per claim.
    """

    value: float | None
    parts: Mapping[str, float]
    warnings: tuple[str, ...]
    explanation: Mapping[str, Any]


def supported_share(
    claims: Sequence[str], support: Sequence[Support], top: float = 1.0
) -> ClaimShare:
    """Return the share of supported claims among those that the judge is sure about.

    Args:
        claims: The claims.
        support: One verdict per claim.
        top: Scale of value and parts: 100 for percentages.

    Raises:
        Unavailable: The judge is sure about less than two thirds of them: `undefined`.
        ValueError: There is not one verdict per claim.
    """
    explanation = {"claims": claim_rows(claims, support)}
    if not claims:
        return ClaimShare(None, {}, (), explanation)
    sure = sure_ones(support, explanation)
    kinds = [found.verdict for found in sure]
    shares = {kind: top * kinds.count(kind) / len(sure) for kind in ClaimVerdict}
    parts = {kind.value: shares[kind] for kind in (_CONTRADICTED, _NOT_STATED)}
    parts["unsure"] = top * (len(support) - len(sure)) / len(support)
    return ClaimShare(shares[ClaimVerdict.SUPPORTED], parts, unsure(support), explanation)


_CONTRADICTED = ClaimVerdict.CONTRADICTED
_NOT_STATED = ClaimVerdict.NOT_STATED


def sure_ones(verdicts: Sequence[V], explanation: Mapping[str, Any] | None = None) -> list[V]:
    """Return the verdicts that the judge is sure about; none for no verdicts.

    Args:
        verdicts: One verdict for each item.
        explanation: The items, shown where there are too few verdicts.

    Raises:
        Unavailable: Less than two thirds are sure: `undefined`, and undecided.
    """
    sure = [verdict for verdict in verdicts if verdict.sure]
    unsure_reasons = [verdict.reason for verdict in verdicts if not verdict.sure]
    require_sure(len(sure), len(verdicts), unsure_reasons, explanation)
    return sure


def require_sure(
    sure: int,
    of: int,
    reasons: Sequence[str] = (),
    explanation: Mapping[str, Any] | None = None,
) -> None:
    """Require that at least two thirds of some items are sure.

    Args:
        sure: Items that are.
        of: All items.
        reasons: Reasons of the others.
        explanation: The items.

    Raises:
        Unavailable: They are not: `undefined`, and undecided.
    """
    if 3 * sure < 2 * of:
        counted = f"{of - sure} of {of}"
        detail = _DETAILS[next((r for r in reasons if r in _DETAILS), "")].format(counted)
        shown = explanation or {}
        raise Unavailable(NotScored(Cause.UNDEFINED, detail, undecided=True, explanation=shown))


_DETAILS: Final = {
    CUT: "limits cut the texts, and what is left does not state {}",
    UNREAD: "the judge gave no readable verdict for {}",
    "": "the judge cannot tell for {}",
}
"""Sentence for the reason of a verdict that is not sure."""


def unsure(verdicts: Sequence[Support | Verdict | ChunkRelevance]) -> tuple[str, ...]:
    """Return the warnings about verdicts that are not sure, and those of single verdicts."""
    left = sum(not verdict.sure for verdict in verdicts)
    warned = [one.warning for one in verdicts if isinstance(one, Support) and one.warning]
    return (
        *((f"{left} of {len(verdicts)} are unsure and not counted",) if left else ()),
        *(f"{text} ({warned.count(text)} of {len(verdicts)})" for text in dict.fromkeys(warned)),
    )


def claim_rows(claims: Sequence[str], support: Sequence[Support]) -> list[Mapping[str, Any]]:
    """Return one row per claim with its verdict and the chunks that support it.

    `supported` is None for a claim that the judge is unsure about.

    Raises:
        ValueError: There is not one verdict per claim.
    """
    return [
        {
            "claim": claim,
            "supported": found.supported if found.sure else None,
            "verdict": found.verdict.value,
            "chunks": chunk_numbers(found.by_chunk),
            "together": found.together,
            "quote": found.quote,
            "reason": found.reason,
            "probability": found.probability,
            **({"warning": found.warning} if found.warning else {}),
            **({"judge": found.judge, "sent_on": found.sent_on} if found.judge else {}),
        }
        for claim, found in zip(claims, support, strict=True)
    ]


def chunk_numbers(flags: Sequence[bool]) -> list[int]:
    """Return the numbers, counted from 1, of chunks whose flag is true."""
    return [number for number, flag in enumerate(flags, start=1) if flag]


def chunk_rows(relevance: Sequence[ChunkRelevance]) -> list[Mapping[str, Any]]:
    """Return one row per chunk with its usefulness."""
    return [
        {
            "chunk": number,
            "useful": chunk.useful if chunk.sure else None,
            "rating": chunk.rating if chunk.sure else None,
            "reason": chunk.reason,
        }
        for number, chunk in enumerate(relevance, start=1)
    ]


def question_rows(texts: Sequence[str], similarities: Sequence[float]) -> list[Mapping[str, Any]]:
    """Return one row per generated question with its cosine to the question asked.

    Raises:
        ValueError: There is not one cosine per question.
    """
    return [
        {"question": text, "similarity": similarity}
        for text, similarity in zip(texts, similarities, strict=True)
    ]


def within(value: float, low: float, high: float) -> float:
    """Return a judge's rating, if it lies on its scale.

    Raises:
        Unavailable: It does not, or is NaN: a rating is never moved to where it may have been
            meant.
    """
    if not low <= value <= high:
        raise Unavailable(_OUTSIDE)
    return float(value)
