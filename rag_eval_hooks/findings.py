"""Findings about a sample, which all metrics share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from rag_eval_hooks.calls import Usage
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored, Unavailable

T = TypeVar("T")


class Finding(StrEnum):
    """Kinds of findings. `Findings` has a field for each kind."""

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
    """The judge of a finding. A `screening` judge only suggests samples to review."""

    name: str
    kind: AnnotatorKind
    screening: bool = False

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
        together: True if no single chunk supports the claim, but several chunks together do.
        verdict: The default is `supported` if any chunks support the claim, else `not_stated`.
        quote: Words of a chunk that decide the verdict, or empty.
        probability: Calibrated probability in [0, 1] that the claim is supported, or None.
        warning: Reason to distrust the verdict, or empty.
        judge: Name of the judge if the sample has several judges, else empty.
        sent_on: Probability that a cascade asks the second judge, or None.
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
    """A yes-or-no verdict and its reason. If `sure` is False, ignore `holds`.

    `Support` describes the fields `probability`, `judge`, `sent_on` and `warning`.
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
    """Return True if a claim's probability of support is too close to 0.5 to decide."""
    return probability is not None and 0.3 < probability < 0.7


def _check_probability(value: float | None) -> None:
    if value is not None and not 0.0 <= value <= 1.0:
        raise ValueError(f"The probability is {value!r}, but must be a number from 0 to 1.")


@dataclass(frozen=True, slots=True)
class ChunkRelevance:
    """Whether a chunk helps to answer the question. `rating` is from 0 to 100."""

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
    """Flags for `answer` and `reference`. A flag is True if the text states nothing checkable."""

    answer: bool
    reference: bool = False


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
    """All findings about one sample. `made` returns a finding's value.

    Each list has one entry per claim, chunk, entity or generated question, in the same order.
    `question_similarity` and `answer_similarity` are cosines in [-1, 1]. `direct_relevance` is 0,
    0.25, 0.5, 0.75 or 1. A `Rating` is in [1, 5]. `accuracy_ratings` is a pair in [0, 4].
    `context_ratings` and `groundedness_ratings` are pairs in [0, 2]. At most one rating of a pair
    is None. If a sample has several judges, `by` names the judges of each finding.
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
