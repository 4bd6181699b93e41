"""Outcome of one metric on one sample: a score, or the cause of a missing score."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias, cast

from pydantic import TypeAdapter

from rag_eval_hooks.calls import UNUSED, Usage
from rag_eval_hooks.errors import InputError, check_number, check_type, member, wrong_type


class Cause(StrEnum):
    """The cause of a missing score."""

    MISSING_INPUT = "missing_input"
    """The sample lacks a required field, or the judge cannot make a required finding."""
    UNDEFINED = "undefined"
    """The formula is undefined for this sample, such as a share of zero items."""
    JUDGE_FAILED = "judge_failed"
    JUDGE_UNAVAILABLE = "judge_unavailable"
    """The judge failed too often in a row, so the client sent no call."""
    METRIC_FAILED = "metric_failed"
    TIMEOUT = "timeout"
    OVER_BUDGET = "over_budget"
    SAMPLED_OUT = "sampled_out"
    """The metric's sample rate excluded this sample."""
    DROPPED = "dropped"

    @property
    def is_failure(self) -> bool:
        """True if a failure caused the missing score."""
        return self not in (Cause.MISSING_INPUT, Cause.UNDEFINED, Cause.SAMPLED_OUT)


class AnnotatorKind(StrEnum):
    """Kind of annotator: code, a language model or a person."""

    CODE = "CODE"
    LLM = "LLM"
    HUMAN = "HUMAN"


@dataclass(frozen=True, slots=True)
class Score:
    """A metric's score for one sample, with the origin of the score.

    Attributes:
        value: A finite number on the metric's own scale.
        normalized: The value, mapped to [0, 1] by the metric's `Scale`. 1 is best.
        label: The metric's word for the value, or None.
        parts: Numbers from which the metric computed the value, by name.
        explanation: Claims, verdicts and chunk numbers behind the value, as plain JSON types.
        warnings: Reasons to distrust the value.
        risk: 1 minus the lowest probability that one of the metric's claims is supported. None if
            no claim has a probability.
        annotator_kind: `CODE` for formulas and the heuristic judge, `LLM` for a language model.
        annotator: The judge's kind and model, or None if the metric needs no judge.
        judged: Whether the value depends on a judge.
        screening: True if the judge is only good enough to choose samples for review.
        version: Versions of the package and the prompts, such as `0.1.0` or `0.1.0+prompts.1`.
        usage: The metric's share of the judge calls, tokens and cost for the sample.
        probability: Inclusion probability of this metric, or None without random sampling. In means
            over all traffic, the score has the weight 1 / `probability`.
        probability_estimated: True if `probability` is an estimate, because of a rate limit or a
            full queue.
        reason: Sampling reason of the metric, as in `Stats.decisions`, or empty.
    """

    value: float
    _: KW_ONLY
    # The scorer derives a missing value from the metric's scale.
    normalized: float = cast("float", None)
    label: str | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    explanation: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    risk: float | None = None
    annotator_kind: AnnotatorKind = AnnotatorKind.CODE
    annotator: str | None = None
    judged: bool = False
    screening: bool = False
    version: str = ""
    usage: Usage = UNUSED
    # Equality ignores sampling, so that inline and background scores are equal.
    probability: float | None = field(default=None, compare=False)
    probability_estimated: bool = field(default=False, compare=False)
    reason: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.value is None:
            raise wrong_type("value", "a finite number", None, "To give no score, return None.")
        check_number("value", self.value)
        check_number("normalized", self.normalized, "a number from 0 to 1", least=0, most=1)
        check_type("label", self.label, str, "str")
        for name in ("parts", "explanation"):
            check_type(name, getattr(self, name), (dict, Mapping), "a mapping, such as {'a': 1}")


@dataclass(frozen=True, slots=True)
class NotScored:
    """A missing score and its cause. Averages ignore missing scores.

    Attributes:
        detail: One sentence that explains the cause, without texts of the sample.
        usage: Calls, tokens and cost of the judge, although there is no score.
        undecided: Whether the score is missing because the judge was unsure.
        explanation: The known claims, verdicts and chunk numbers. May exist without a score.
    """

    cause: Cause
    detail: str = ""
    usage: Usage = UNUSED
    risk: float | None = None
    probability: float | None = field(default=None, compare=False)
    probability_estimated: bool = field(default=False, compare=False)
    reason: str = field(default="", compare=False)
    undecided: bool = False
    explanation: Mapping[str, Any] = field(default_factory=dict)

    value: ClassVar[None] = None
    normalized: ClassVar[None] = None
    label: ClassVar[None] = None
    parts: ClassVar[Mapping[str, float]] = MappingProxyType({})
    warnings: ClassVar[tuple[str, ...]] = ()
    annotator_kind: ClassVar[None] = None
    annotator: ClassVar[None] = None
    judged: ClassVar[bool] = False
    screening: ClassVar[bool] = False
    version: ClassVar[str] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cause", member("cause", Cause, self.cause))

    @property
    def is_missing(self) -> bool:
        """True if a failure or an unsure judge caused the missing score."""
        return self.undecided or self.cause.is_failure

    @property
    def line(self) -> str:
        return ", ".join(filter(None, (self.cause.value, self.detail)))


Outcome: TypeAlias = Score | NotScored
Outcomes: TypeAlias = Mapping[str, Outcome]
"""Outcomes by metric id, in the order of the configured metrics."""


class Unavailable(Exception):
    """Raised if a metric needs a finding that is missing. The metric then has this `outcome`."""

    def __init__(self, outcome: NotScored) -> None:
        super().__init__(outcome.detail)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Scale:
    """A metric's range of values. Raises `InputError` if `low` is not below `high`."""

    low: float
    high: float
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            check_number(name, getattr(self, name))
        if not self.low < self.high:
            ends = f"The scale is Scale({self.low}, {self.high})."
            raise InputError("The low end of a scale must be below its high end.", ends)

    def score(self, value: float, **details: Any) -> Score:
        """Return a score for a number on this scale. `details` are other fields of `Score`."""
        return Score(value=value, normalized=self.normalize(value), **details)

    def normalize(self, value: float) -> float:
        """Map a number on this scale to [0, 1], where 1 is best.

        Raises:
            ValueError: The number is outside the scale.
        """
        if not self.low <= value <= self.high:
            stated = f"The value is outside {self.low:g} to {self.high:g}, the metric's scale."
            raise InputError(stated, f"It is {value:g}.")
        share = (value - self.low) / (self.high - self.low)
        return share if self.higher_is_better else 1.0 - share


UNIT = Scale(0.0, 1.0)


def score_id(sample_id: str, metric_id: str, outcome: Outcome) -> str:
    """Return a score's id, 32 hex digits. Sample, metric, judge and versions determine the id."""
    made_by = (outcome.annotator, outcome.version) if isinstance(outcome, Score) else ()
    return _digest([sample_id, metric_id, *made_by])


def result_id(sample_id: str, outcomes: Outcomes) -> str:
    """Return a result's id. Sample, metrics, judges and versions determine the id."""
    ids = sorted(score_id(sample_id, name, one) for name, one in outcomes.items())
    return _digest(ids or [sample_id])


def _digest(parts: list[Any]) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


@cache  # created on first use, to keep the import fast
def _adapters() -> tuple[TypeAdapter[Score], TypeAdapter[NotScored]]:
    return TypeAdapter(Score), TypeAdapter(NotScored)


def outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    scores, absences = _adapters()
    if isinstance(outcome, NotScored):
        values = absences.dump_python(outcome, exclude_defaults=True)
        return {"not_scored": values.pop("cause"), **values}
    values = scores.dump_python(outcome, exclude_defaults=True)
    return {**values, "annotator_kind": outcome.annotator_kind}


def outcome_from_dict(data: Mapping[str, Any]) -> Outcome:
    scores, absences = _adapters()
    if "not_scored" in data:
        return absences.validate_python({**data, "cause": data["not_scored"]})
    if data.get("normalized") is None:
        raise ValueError("The stored score needs the key 'normalized'.")
    return scores.validate_python(data)
