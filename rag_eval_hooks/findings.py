"""What judges and embedders say about a sample: asked for once, shared by all metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from rag_eval_hooks.score import Cause, NotScored, Unavailable

__all__ = [
    "BUILDS_ON",
    "ChunkRelevance",
    "Decompose",
    "Finding",
    "Findings",
    "Questions",
    "Support",
    "Verdict",
    "Verify",
    "made",
]

T = TypeVar("T")


class Finding(StrEnum):
    """The kinds of finding; each value is the name of the field in `Findings`."""

    ANSWER_CLAIMS = "answer_claims"
    REFERENCE_CLAIMS = "reference_claims"
    ENTITIES = "entities"
    QUESTIONS = "questions"
    ANSWER_SUPPORT = "answer_support"
    REFERENCE_SUPPORT = "reference_support"
    ANSWER_AGREEMENT = "answer_agreement"
    REFERENCE_AGREEMENT = "reference_agreement"
    RELEVANCE = "relevance"
    ENTITIES_FOUND = "entities_found"
    QUESTION_SIMILARITY = "question_similarity"


BUILDS_ON: Final[Mapping[Finding, Finding]] = {
    Finding.ANSWER_SUPPORT: Finding.ANSWER_CLAIMS,
    Finding.ANSWER_AGREEMENT: Finding.ANSWER_CLAIMS,
    Finding.REFERENCE_SUPPORT: Finding.REFERENCE_CLAIMS,
    Finding.REFERENCE_AGREEMENT: Finding.REFERENCE_CLAIMS,
    Finding.ENTITIES_FOUND: Finding.ENTITIES,
    Finding.QUESTION_SIMILARITY: Finding.QUESTIONS,
}
"""Findings that are about the items of another finding: one verdict for each item, in order."""


@dataclass(frozen=True, slots=True)
class Support:
    """Which chunks support one claim.

    Attributes:
        by_chunk: One verdict per chunk, in the order of the sample's contexts.
        together: Several chunks support it together though none does alone.
        reason: The judge's words.
    """

    by_chunk: tuple[bool, ...]
    together: bool = False
    reason: str = ""

    @property
    def supported(self) -> bool:
        """Whether the contexts support the claim."""
        return self.together or any(self.by_chunk)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One yes or no with its reason."""

    holds: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ChunkRelevance:
    """Whether one chunk is of use for the question.

    Attributes:
        useful: The verdict.
        rating: Degree from 0 to 100.
        reason: The judge's words.
    """

    useful: bool
    rating: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions that the answer would answer.

    Attributes:
        texts: Three different questions, or none when the answer states nothing.
        noncommittal: The answer evades the question.
    """

    texts: tuple[str, ...]
    noncommittal: bool = False


_NOT_ASKED = NotScored(Cause.MISSING_INPUT, "the finding was not asked for")
Made: TypeAlias = T | NotScored
"""A finding's content, or why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All findings of a sample. Read a field through `made`.

    Attributes:
        answer_claims: Atomic, self-contained claims of the answer; possibly none.
        reference_claims: The same of the reference.
        entities: Names, dates, places and numbers of the reference.
        questions: Generated questions.
        answer_support: One per answer claim, in order: which chunks support it.
        reference_support: One per reference claim, in order.
        answer_agreement: One per answer claim: does the reference support it.
        reference_agreement: One per reference claim: does the answer state it.
        relevance: One per chunk, judged by the reference if there is one, else the answer, else
            the question alone.
        entities_found: One per entity: do the contexts hold it.
        question_similarity: Cosine of the question and each generated question, in [-1, 1].
    """

    answer_claims: Made[tuple[str, ...]] = _NOT_ASKED
    reference_claims: Made[tuple[str, ...]] = _NOT_ASKED
    entities: Made[tuple[str, ...]] = _NOT_ASKED
    questions: Made[Questions] = _NOT_ASKED
    answer_support: Made[tuple[Support, ...]] = _NOT_ASKED
    reference_support: Made[tuple[Support, ...]] = _NOT_ASKED
    answer_agreement: Made[tuple[Verdict, ...]] = _NOT_ASKED
    reference_agreement: Made[tuple[Verdict, ...]] = _NOT_ASKED
    relevance: Made[tuple[ChunkRelevance, ...]] = _NOT_ASKED
    entities_found: Made[tuple[Verdict, ...]] = _NOT_ASKED
    question_similarity: Made[tuple[float, ...]] = _NOT_ASKED

    def asked(self, kind: Finding) -> bool:
        """Whether the finding was made, or is known to be absent."""
        return getattr(self, kind.value) is not _NOT_ASKED

    @classmethod
    def absent(cls, kinds: frozenset[Finding], why: NotScored) -> Findings:
        """Findings that all miss for one reason."""
        return cls(**{kind.value: why for kind in kinds})

    def merged(self, other: Findings) -> Findings:
        """These findings with those that the other one has or knows to be absent."""
        told = {f.name: getattr(other, f.name) for f in fields(other)}
        return replace(self, **{k: v for k, v in told.items() if v is not _NOT_ASKED})


def made(finding: Made[T]) -> T:
    """The content of a finding.

    Raises:
        Unavailable: The finding is absent; the metric that reads it takes over the cause.
    """
    if isinstance(finding, NotScored):
        raise Unavailable(finding)
    return finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Decompose:
    """The first task for a judge: take answer and reference apart, without the contexts.

    Attributes:
        wanted: Of `ANSWER_CLAIMS`, `REFERENCE_CLAIMS`, `ENTITIES` (of the reference), `QUESTIONS`.
        question: The user's question.
        answer: Given when a finding about the answer is wanted.
        reference: Given when a finding about the reference is wanted.
    """

    wanted: frozenset[Finding]
    question: str
    answer: str | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """The second task: hold claims, chunks and entities against each other.

    Attributes:
        wanted: Of the two supports, the two agreements, `RELEVANCE`, `ENTITIES_FOUND`.
        question: The user's question.
        chunks: Texts of the contexts, in order; empty when retrieval found nothing, and then only
            agreements are wanted.
        answer: The answer, for agreement and relevance.
        reference: The reference, for agreement and relevance.
        answer_claims: Claims to verify; empty when none are asked about.
        reference_claims: The same of the reference.
        entities: Entities to look for.
    """

    wanted: frozenset[Finding]
    question: str
    chunks: tuple[str, ...]
    answer: str | None = None
    reference: str | None = None
    answer_claims: tuple[str, ...] = ()
    reference_claims: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
