"""Findings: facts about one sample that a judge finds and that all metrics share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from rag_eval_hooks.calls import Usage
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored, Unavailable

T = TypeVar("T")


class Finding(StrEnum):
    """Kinds of findings. `Findings` has one field per kind, with the same name."""

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
TOKEN_SCORED: Final = frozenset({Finding.TOKEN_SCORE})


class Maker(NamedTuple):
    name: str
    kind: AnnotatorKind
    screening: bool = False  # the judge's scores only suggest which samples a person should review

    @classmethod
    def of(cls, judge: Any) -> Maker:
        return cls(judge.name, judge.annotator_kind, bool(getattr(judge, "screening", False)))


CUT: Final = "a limit cut the text"
UNREAD: Final = "the judge gave no readable verdict"


class ClaimVerdict(StrEnum):
    """Whether the contexts support a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    """A chunk states the opposite of the claim."""
    NOT_STATED = "not_stated"
    """No chunk states the claim or its opposite."""
    UNSURE = "unsure"
    """The judge cannot decide. Scores ignore the claim."""


@dataclass(frozen=True, slots=True)
class Support:
    """How the chunks support one claim.

    Attributes:
        by_chunk: One flag per chunk, True if the chunk alone supports the claim.
        together: True if no chunk alone supports the claim, but several chunks together do.
        verdict: The default is `supported` if the chunks support the claim, else `not_stated`.
        quote: The words of a chunk that decided the verdict, or empty.
        probability: The judge's probability in [0, 1] that the claim is supported, or None.
        warning: A reason to distrust the verdict, or empty.
        judge: Name of the judge that gave the verdict, set only by a `Cascade`.
        sent_on: Probability with which a `Cascade` asks its second judge about the claim, or None.
    """

    by_chunk: tuple[bool, ...]
    together: bool = False
    reason: str = ""
    verdict: ClaimVerdict = None  # type: ignore[assignment] # derived below
    quote: str = ""
    probability: float | None = None
    warning: str = ""
    judge: str = ""
    sent_on: float | None = None

    def __post_init__(self) -> None:
        supported = self.together or any(self.by_chunk)
        default = ClaimVerdict.SUPPORTED if supported else ClaimVerdict.NOT_STATED
        verdict = ClaimVerdict(self.verdict or default)
        if (verdict is ClaimVerdict.SUPPORTED) != supported:
            stated = "some chunk" if supported else "no chunk"
            raise ValueError(f"The verdict is {verdict.value!r}, but {stated} supports the claim.")
        _check_probability(self.probability)
        object.__setattr__(self, "verdict", verdict)

    @property
    def supported(self) -> bool:
        return self.verdict is ClaimVerdict.SUPPORTED

    @property
    def sure(self) -> bool:
        """False if the judge could not decide."""
        return self.verdict is not ClaimVerdict.UNSURE


@dataclass(frozen=True, slots=True)
class Verdict:
    """A yes-or-no verdict and its reason. If `sure` is False, `holds` means nothing.

    The fields `probability`, `judge`, `sent_on` and `warning` have the same meaning as in
    `Support`.
    """

    holds: bool
    reason: str = ""
    sure: bool = True
    probability: float | None = None
    judge: str = ""
    sent_on: float | None = None
    warning: str = ""

    def __post_init__(self) -> None:
        _check_probability(self.probability)


def is_close(probability: float | None) -> bool:
    return probability is not None and 0.3 < probability < 0.7


def _check_probability(value: float | None) -> None:
    if value is not None and not 0.0 <= value <= 1.0:
        raise ValueError(f"The probability is {value!r}, but must be a number from 0 to 1.")


@dataclass(frozen=True, slots=True)
class ChunkRelevance:
    """Whether a chunk helps to answer the question. `rating` is from 0 (useless) to 100."""

    useful: bool
    rating: float
    reason: str = ""
    sure: bool = True  # metrics ignore unsure ratings


@dataclass(frozen=True, slots=True)
class Questions:
    """Three questions derived from the answer, or no question if the answer states nothing."""

    texts: tuple[str, ...]
    noncommittal: bool = False  # True if the answer evades the question


@dataclass(frozen=True, slots=True)
class Stance:
    answer: bool  # True if the answer states nothing that can be checked
    reference: bool = False  # True if the reference states nothing that can be checked


@dataclass(frozen=True, slots=True)
class Rating:
    """A rating on a rubric's scale, with the judge's reason."""

    value: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GEval:
    """Ratings of the answer against the reference, each from 0 to 100."""

    correctness: float
    completeness: float
    consistency: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """BERTScore of the answer against the reference. Each number is at most 1."""

    precision: float
    recall: float
    f1: float


_NOT_ASKED = NotScored(Cause.MISSING_INPUT, "the finding was not requested")
Made: TypeAlias = T | NotScored
"""A finding's value, or the reason why the finding is missing."""
Pair: TypeAlias = tuple[int | None, int | None]
"""Ratings from two prompts. An invalid rating is None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All findings about one sample. A field may hold no finding.

    The function `made` returns the value of a field that holds a finding.

    A tuple of verdicts or ratings has one entry per claim, entity or chunk, in the same order.
    `question_similarity` has one cosine in [-1, 1] per generated question. `answer_similarity` is
    one cosine. `direct_relevance` is 0, 0.25, 0.5, 0.75 or 1. The value of a `Rating` is in [1, 5].

    Each field of type `Pair` holds two independent ratings, and at most one of them is None. The
    ratings are in [0, 4] for `accuracy_ratings`, and in [0, 2] for `context_ratings` and
    `groundedness_ratings`.

    `by` names the judges of each finding, if the sample has several judges.
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
        return getattr(self, kind) is not _NOT_ASKED

    @classmethod
    def of(cls, kind: Finding, content: Any, **others: Any) -> Findings:
        return cls(**{kind.value: content}, **others)

    @classmethod
    def absent(cls, kinds: frozenset[Finding], why: NotScored) -> Findings:
        absent: dict[str, Any] = dict.fromkeys(kinds, why)
        return cls(**absent)

    def merged(self, other: Findings) -> Findings:
        values: dict[str, Any] = {
            kind: one for kind in Finding if (one := getattr(other, kind)) is not _NOT_ASKED
        }
        if not values and not other.usage:
            return self
        added = {k: self.usage[k] + used for k, used in other.usage.items() if k in self.usage}
        usage = {**self.usage, **other.usage, **added}
        warnings = {**self.warnings, **other.warnings}
        return replace(self, **values, usage=usage, warnings=warnings, by={**self.by, **other.by})


def made(finding: Made[T]) -> T:
    """Return a finding's value. Raise `Unavailable` if the finding is missing."""
    if isinstance(finding, NotScored):
        raise Unavailable(finding)
    return finding
