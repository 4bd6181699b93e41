"""Shares of claims over those that the judge is sure about, and the rows of explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

from rag_eval_hooks.findings import (
    CUT,
    UNREAD,
    ChunkRelevance,
    ClaimVerdict,
    Findings,
    Support,
    Verdict,
    made,
)
from rag_eval_hooks.metrics.formulas import mean
from rag_eval_hooks.score import Cause, NotScored, Unavailable

Whose: TypeAlias = Literal["answer", "reference"]
V = TypeVar("V", Support, Verdict, ChunkRelevance)

_OUTSIDE: Final = NotScored(Cause.JUDGE_FAILED, "the judge's rating is outside its scale")
_DETAILS: Final = {
    CUT: "limits cut the texts, and what is left does not state {}",
    UNREAD: "the judge gave no readable verdict for {}",
    "": "the judge cannot tell for {}",
}
"""Sentence for the reason of a verdict that is not sure."""


@dataclass(frozen=True, slots=True)
class ClaimShare:
    """Share of claims that the contexts support.

    Attributes:
        value: Supported claims of all sure ones; None without claims.
        details: Further fields of the score: as parts, the shares of the sure claims that are
            `contradicted` and `not_stated`, which add up to 1 with the value, and of all claims
            that are `unsure`; as warnings, how many are not counted; one row for each claim.
        empty: Sentence for the absence of claims.
    """

    value: float | None
    details: Mapping[str, Any]
    empty: str


def claims_of(findings: Findings, whose: Whose) -> tuple[Sequence[str], Sequence[Support]]:
    """Return the claims of answer or reference, and one verdict for each."""
    if whose == "answer":
        return made(findings.answer_claims), made(findings.answer_support)
    return made(findings.reference_claims), made(findings.reference_support)


def supported_share(findings: Findings, whose: Whose, top: float = 1.0) -> ClaimShare:
    """Return the share of supported claims among those that the judge is sure about.

    Args:
        findings: Holds the claims and one verdict for each.
        whose: The text whose claims count.
        top: Scale of value and parts: 100 for percentages.

    Raises:
        Unavailable: The judge is sure about less than two thirds of them: `undefined`.
        ValueError: There is not one verdict per claim.
    """
    claims, support = claims_of(findings, whose)
    explanation = {"claims": claim_rows(claims, support)}
    empty = f"the {whose} makes no claim"
    if not claims:
        return ClaimShare(None, {"explanation": explanation}, empty)
    sure = [found.verdict for found in sure_ones(support, explanation)]
    shares = {kind.value: top * sure.count(kind) / len(sure) for kind in ClaimVerdict}
    shares["unsure"] = top * (len(support) - len(sure)) / len(support)
    value = shares.pop("supported")
    details = {"parts": shares, "warnings": unsure(support), "explanation": explanation}
    return ClaimShare(value, details, empty)


def sure_ones(verdicts: Sequence[V], explanation: Mapping[str, Any]) -> list[V]:
    """Return the verdicts that the judge is sure about; none for no verdicts.

    Raises:
        Unavailable: Less than two thirds are sure: `undefined`, and undecided.
    """
    require_sure(
        [one.sure for one in verdicts],
        [one.reason for one in verdicts if not one.sure],
        explanation,
    )
    return [verdict for verdict in verdicts if verdict.sure]


def require_sure(
    sure: Sequence[bool], reasons: Sequence[str], explanation: Mapping[str, Any]
) -> None:
    """Require that at least two thirds of some items are sure.

    Args:
        sure: One flag for each item.
        reasons: Reasons of those that are not.
        explanation: The items, shown where there are too few.

    Raises:
        Unavailable: They are not: `undefined`, and undecided.
    """
    if 3 * sum(sure) < 2 * len(sure):
        counted = f"{len(sure) - sum(sure)} of {len(sure)}"
        detail = _DETAILS[next((r for r in reasons if r in _DETAILS), "")].format(counted)
        raise Unavailable(
            NotScored(Cause.UNDEFINED, detail, undecided=True, explanation=explanation)
        )


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


def mean_similarity(findings: Findings) -> tuple[float | None, list[Mapping[str, Any]]]:
    """Return the mean cosine of question and generated questions, and a row for each of them.

    A cosine can be below 0. The mean is clamped to [0, 1], the range of the metrics; it is None
    without questions.
    """
    texts, similarities = made(findings.questions).texts, made(findings.question_similarity)
    value = mean(similarities)
    rows: list[Mapping[str, Any]] = [
        {"question": text, "similarity": similarity}
        for text, similarity in zip(texts, similarities, strict=True)
    ]
    return None if value is None else min(1.0, max(0.0, value)), rows


def within(value: float, low: float, high: float) -> float:
    """Return a judge's rating, if it lies on its scale.

    Raises:
        Unavailable: It does not, or is NaN: a rating is never moved to where it may have been
            meant.
    """
    if not low <= value <= high:
        raise Unavailable(_OUTSIDE)
    return float(value)
