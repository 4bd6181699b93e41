"""Findings of judges and embedders about a sample: made once, shared by all metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from rag_eval_hooks.claim_verdict import ClaimVerdict, Support, Verdict
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored, Unavailable
from rag_eval_hooks.usage import Usage, total_by_key

__all__ = [
    "EMBEDDED",
    "TOKEN_SCORED",
    "ChunkRelevance",
    "ClaimVerdict",
    "Finding",
    "Findings",
    "GEval",
    "Maker",
    "Questions",
    "Rating",
    "Stance",
    "Support",
    "TokenScore",
    "Verdict",
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
    STANCE = "stance"
    RELEVANCE_TO_ANSWER = "relevance_to_answer"
    DIRECT_RELEVANCE = "direct_relevance"
    GEVAL = "geval"
    CLASSIFICATION = "classification"
    CORRECTNESS = "correctness"
    ALIGNMENT = "alignment"
    ATTITUDE = "attitude"
    ACCURACY_RATINGS = "accuracy_ratings"
    CONTEXT_RATINGS = "context_ratings"
    GROUNDEDNESS_RATINGS = "groundedness_ratings"
    ANSWER_SIMILARITY = "answer_similarity"
    TOKEN_SCORE = "token_score"


EMBEDDED: Final = frozenset({Finding.QUESTION_SIMILARITY, Finding.ANSWER_SIMILARITY})
"""Findings of an embedder."""
TOKEN_SCORED: Final = frozenset({Finding.TOKEN_SCORE})
"""Findings of a token scorer."""


class Maker(NamedTuple):
    """A judge that made a finding.

    Attributes:
        name: Name of the judge.
        kind: Kind of annotator.
        screening: Whether its verdicts are good for finding bad answers, not for deciding.
    """

    name: str
    kind: AnnotatorKind
    screening: bool = False

    @classmethod
    def of(cls, judge: Any) -> Maker:
        """Return the name, the kind and the standing of a judge."""
        return cls(judge.name, judge.annotator_kind, bool(getattr(judge, "screening", False)))


@dataclass(frozen=True, slots=True)
class ChunkRelevance:
    """Usefulness of one chunk for the question.

    Attributes:
        useful: The verdict.
        rating: Degree from 0 to 100.
        reason: The judge's words.
        sure: False if the judge cannot tell; `useful` and `rating` mean nothing then.
    """

    useful: bool
    rating: float
    reason: str = ""
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions that the answer would answer.

    Attributes:
        texts: Three different questions, or none when the answer states nothing.
        noncommittal: The answer evades the question.
    """

    texts: tuple[str, ...]
    noncommittal: bool = False


@dataclass(frozen=True, slots=True)
class Stance:
    """Indistinct texts, which neither state nor deny anything that can be checked.

    Attributes:
        answer: Whether the answer is indistinct.
        reference: Whether the reference is; False where there is none.
    """

    answer: bool
    reference: bool = False


@dataclass(frozen=True, slots=True)
class Rating:
    """A step on a rubric's scale with its reason."""

    value: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GEval:
    """Three criteria of an answer against the reference, each 0 to 100."""

    correctness: float
    completeness: float
    consistency: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """Token-level likeness of answer and reference (BERTScore), each at most 1."""

    precision: float
    recall: float
    f1: float


_NOT_ASKED = NotScored(Cause.MISSING_INPUT, "the finding was not asked for")
Made: TypeAlias = T | NotScored
"""A finding's content, or why there is none."""
Pair: TypeAlias = tuple[int | None, int | None]
"""Ratings by two independent templates; None for an invalid one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All findings of a sample. Read a field through `made`.

    Attributes:
        answer_claims: Atomic, self-contained claims of the answer; possibly none.
        reference_claims: Those of the reference.
        entities: Names, dates, places and numbers of the reference.
        questions: Generated questions.
        answer_support: One per answer claim, in order: the verdict, and the chunks that support it.
        reference_support: One per reference claim, in order.
        answer_agreement: One per answer claim: does the reference support it.
        reference_agreement: One per reference claim: does the answer state it.
        relevance: One per chunk, judged by the reference if there is one, else by the question;
            never by the answer.
        entities_found: One per entity: do the contexts hold it.
        question_similarity: Cosine of the question and each generated question, in [-1, 1].
        stance: Which of answer and reference are indistinct.
        relevance_to_answer: One per chunk, judged by the answer.
        direct_relevance: How far the answer addresses the question: 0, 0.25, 0.5, 0.75 or 1.
        geval: Answer against reference by three criteria.
        classification: Whether the answer is correct by the reference.
        correctness: Answer against reference, 1 to 5.
        alignment: Answer against question, 1 to 5.
        attitude: How alike two indistinct texts, answer and reference, are in attitude, 1 to 5.
        accuracy_ratings: Answer against reference by two templates, the second with the roles
            swapped: 0, 2 or 4 each, None for an invalid one; at least one is valid.
        context_ratings: Do the contexts answer the question, by two templates: 0, 1 or 2 each.
        groundedness_ratings: Do the contexts ground the answer, by two templates: 0, 1 or 2 each.
        answer_similarity: Cosine of answer and reference, in [-1, 1].
        token_score: Token-level likeness of answer and reference.
        usage: Usage of each finding, absent ones included; a shared call is divided.
        warnings: What a reader of a finding should know, such as that an item could not be read.
        by: The judges that made each finding, where there are several.
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
    stance: Made[Stance] = _NOT_ASKED
    relevance_to_answer: Made[tuple[ChunkRelevance, ...]] = _NOT_ASKED
    direct_relevance: Made[float] = _NOT_ASKED
    geval: Made[GEval] = _NOT_ASKED
    classification: Made[Verdict] = _NOT_ASKED
    correctness: Made[Rating] = _NOT_ASKED
    alignment: Made[Rating] = _NOT_ASKED
    attitude: Made[Rating] = _NOT_ASKED
    accuracy_ratings: Made[Pair] = _NOT_ASKED
    context_ratings: Made[Pair] = _NOT_ASKED
    groundedness_ratings: Made[Pair] = _NOT_ASKED
    answer_similarity: Made[float] = _NOT_ASKED
    token_score: Made[TokenScore] = _NOT_ASKED
    usage: Mapping[Finding, Usage] = field(default_factory=dict)
    warnings: Mapping[Finding, tuple[str, ...]] = field(default_factory=dict)
    by: Mapping[Finding, tuple[Maker, ...]] = field(default_factory=dict)

    def asked(self, kind: Finding) -> bool:
        """Return whether the finding was made, or is known to be absent."""
        return getattr(self, kind) is not _NOT_ASKED

    @classmethod
    def absent(cls, kinds: frozenset[Finding], why: NotScored) -> Findings:
        """Make findings that are all absent for one reason."""
        absent: dict[str, Any] = dict.fromkeys(kinds, why)
        return cls(**absent)

    def merged(self, other: Findings) -> Findings:
        """Return these findings with those that the other has, or knows to be absent."""
        values = {
            name: value for name in _NAMES if (value := getattr(other, name)) is not _NOT_ASKED
        }
        if not values and not other.usage:
            return self
        usage = total_by_key(self.usage, other.usage)
        warnings = {**self.warnings, **other.warnings}
        return replace(self, **values, usage=usage, warnings=warnings, by={**self.by, **other.by})


_NAMES: Final = tuple(kind.value for kind in Finding)


def made(finding: Made[T]) -> T:
    """Return the content of a finding.

    Raises:
        Unavailable: The finding is absent; the metric that reads it takes over the cause.
    """
    if isinstance(finding, NotScored):
        raise Unavailable(finding)
    return finding
