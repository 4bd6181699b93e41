"""The explanations and readings of findings that several suites share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_hooks.findings import ChunkRelevance, Support
from rag_eval_hooks.score import Cause, NotScored, Unavailable

__all__ = ["chunk_numbers", "chunk_rows", "claim_rows", "question_rows", "within"]

_OUTSIDE = NotScored(Cause.JUDGE_FAILED, "the judge's rating is outside its scale")


def chunk_numbers(flags: Sequence[bool]) -> list[int]:
    """Return the numbers, counted from 1, of chunks whose flag is true."""
    return [number for number, flag in enumerate(flags, start=1) if flag]


def claim_rows(claims: Sequence[str], support: Sequence[Support]) -> list[Mapping[str, Any]]:
    """Return one row per claim with the chunks that support it.

    Raises:
        ValueError: There is not one verdict per claim.
    """
    return [
        {
            "claim": claim,
            "supported": found.supported,
            "chunks": chunk_numbers(found.by_chunk),
            "together": found.together,
            "reason": found.reason,
        }
        for claim, found in zip(claims, support, strict=True)
    ]


def chunk_rows(relevance: Sequence[ChunkRelevance]) -> list[Mapping[str, Any]]:
    """Return one row per chunk with its usefulness."""
    return [
        {"chunk": number, "useful": chunk.useful, "rating": chunk.rating, "reason": chunk.reason}
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
