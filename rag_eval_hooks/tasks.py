"""Tasks of judges, by which findings are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rag_eval_hooks.findings import Finding

__all__ = [
    "Decompose",
    "Grade",
    "Rate",
    "Task",
    "Verify",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decompose:
    """The first task for a judge: take answer and reference apart, without the contexts.

    Attributes:
        wanted: Of `ANSWER_CLAIMS`, `REFERENCE_CLAIMS`, `ENTITIES` (of the reference),
            `QUESTIONS`, `STANCE`.
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
        wanted: Of the two supports, the two agreements, `RELEVANCE`, `RELEVANCE_TO_ANSWER`,
            `ENTITIES_FOUND`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The third task: rate the answer by rubrics, without the contexts.

    Attributes:
        wanted: Of `DIRECT_RELEVANCE`, `GEVAL`, `CLASSIFICATION`, `CORRECTNESS`, `ALIGNMENT`,
            `ATTITUDE`.
        question: The user's question.
        answer: The answer.
        reference: Given for all but `DIRECT_RELEVANCE` and `ALIGNMENT`.
    """

    wanted: frozenset[Finding]
    question: str
    answer: str
    reference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """The fourth task: two independent ratings by two templates for each finding.

    Attributes:
        wanted: Of `ACCURACY_RATINGS`, `CONTEXT_RATINGS`, `GROUNDEDNESS_RATINGS`.
        question: The user's question.
        chunks: Texts of the contexts, for the last two.
        answer: The answer, for the first and the last.
        reference: The reference, for the first.
    """

    wanted: frozenset[Finding]
    question: str
    chunks: tuple[str, ...] = ()
    answer: str | None = None
    reference: str | None = None


Task: TypeAlias = Decompose | Verify | Rate | Grade
