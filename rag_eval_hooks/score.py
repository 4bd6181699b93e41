"""Result of one metric on one sample: a score or the cause of its absence."""

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

from rag_eval_hooks.errors import InputError, check_number, check_type, wrong_type
from rag_eval_hooks.usage import Usage

__all__ = [
    "UNIT",
    "AnnotatorKind",
    "Cause",
    "NotScored",
    "Outcome",
    "Outcomes",
    "Scale",
    "Score",
    "Unavailable",
    "outcome_from_dict",
    "outcome_to_dict",
    "result_id",
    "score_id",
]


class Cause(StrEnum):
    """Cause of a missing score: a property of the sample, a failure, or sampled out."""

    MISSING_INPUT = "missing_input"
    """The sample lacks a field that the metric needs, or the judge cannot make the finding."""
    UNDEFINED = "undefined"
    """The formula has no value for this sample, such as a share of zero items."""
    JUDGE_FAILED = "judge_failed"
    JUDGE_UNAVAILABLE = "judge_unavailable"
    """The judge failed too often in a row, so no call was made."""
    METRIC_FAILED = "metric_failed"
    """The metric's own code raised."""
    TIMEOUT = "timeout"
    OVER_BUDGET = "over_budget"
    SAMPLED_OUT = "sampled_out"
    """The sample is evaluated, but this metric's rate excludes it."""
    DROPPED = "dropped"

    @property
    def is_failure(self) -> bool:
        """Whether a score was possible and is missing."""
        return self not in (Cause.MISSING_INPUT, Cause.UNDEFINED, Cause.SAMPLED_OUT)


class AnnotatorKind(StrEnum):
    """Kind of annotator."""

    CODE = "CODE"
    LLM = "LLM"
    HUMAN = "HUMAN"


@dataclass(frozen=True, slots=True)
class Score:
    """Value of a metric with its origin. Never NaN or infinite.

    Attributes:
        value: The number in the metric's native scale.
        normalized: The value in [0, 1], where 1 is best. By default computed from the metric's
            scale.
        label: The metric's word for the value, if any.
        parts: Named numbers behind the value.
        explanation: Claims, verdicts and chunk numbers behind the value; plain JSON types.
        warnings: Reasons to distrust the value.
        risk: 1 minus the least probability of a claim that the metric reads, in [0, 1], or None.
            Review high risks first.
        annotator_kind: `CODE` for formulas and the heuristic judge, `LLM` for a model.
        annotator: The judge's name and model, or None when no judge was needed.
        judged: Whether the value depends on a judge's findings.
        screening: Whether the judge is too weak for decisions and only helps to find bad answers.
        version: Versions of package and prompts, as `0.1.0` or `0.1.0+prompts.1`.
        usage: This metric's share of the sample's judge usage.
        probability: Inclusion probability of this metric, above 0 and at most 1. Weight a
            score by the inverse. None if the metric was not sampled at random.
        probability_estimated: Whether the probability includes an estimated fraction that a rate
            limit or a full queue admitted.
        reason: Why the metric was evaluated: `ratio`, `rule:<name>`, `tail:<name>`,
            `feedback:<name>`, `reference`; empty inline.
    """

    value: float
    _: KW_ONLY
    normalized: float = cast("float", None)  # The scorer sets it later, by the scale.
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
    usage: Usage = field(default_factory=Usage)
    # Sampling is not part of a score: inline and online scores are equal.
    probability: float | None = field(default=None, compare=False)
    probability_estimated: bool = field(default=False, compare=False)
    reason: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Reject values that are not a score.

        Raises:
            InputError: A field has the wrong type, `value` is not finite, or `normalized` is
                outside [0, 1].
        """
        if self.value is None:
            raise wrong_type("value", "a finite number", None, "For no score, return None.")
        check_number("value", self.value, "a finite number")
        check_number("normalized", self.normalized, "a number from 0 to 1")
        if self.normalized is not None and not 0.0 <= self.normalized <= 1.0:
            shown = f"It is {self.normalized!r}."
            raise InputError("normalized must be a number from 0 to 1.", shown)
        check_type("label", self.label, str, "str")
        for name in ("parts", "explanation"):
            check_type(name, getattr(self, name), Mapping, "a mapping, such as {'comment': ...}")


@dataclass(frozen=True, slots=True)
class NotScored:
    """Absence of a score, with its cause. Means exclude such a metric.

    The object has the fields of `Score`; fields of a value are None or empty.

    Attributes:
        detail: One sentence for people, without content of the sample.
        usage: This metric's share of the wasted usage.
        undecided: Whether the judge was unsure about too many items.
        explanation: The available items.
    """

    cause: Cause
    detail: str = ""
    usage: Usage = field(default_factory=Usage)
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
        """Convert the name of a cause to the cause.

        Raises:
            TypeError: The name is not a cause.
        """
        if not isinstance(self.cause, Cause):
            if self.cause not in list(Cause):
                shown = f"It is {self.cause!r:.60}."
                raise InputError(f"cause must be one of {', '.join(Cause)}.", shown)
            object.__setattr__(self, "cause", Cause(self.cause))

    @property
    def is_missing(self) -> bool:
        """Whether a possible score is missing because of a failure or an undecided judge."""
        return self.undecided or self.cause.is_failure

    @property
    def line(self) -> str:
        """Cause and detail in one line."""
        return ", ".join(filter(None, (self.cause.value, self.detail)))


Outcome: TypeAlias = Score | NotScored
"""Score of a metric, or the cause of its absence."""
Outcomes: TypeAlias = Mapping[str, Outcome]
"""Outcome by metric id, in the order of the chosen metrics."""


class Unavailable(Exception):
    """Raised when a metric reads a missing finding; becomes the metric's outcome."""

    def __init__(self, outcome: NotScored) -> None:
        super().__init__(outcome.detail)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Scale:
    """Native range of a metric, and its direction: a lower error rate is better."""

    low: float
    high: float
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        """Reject an invalid range.

        Raises:
            InputError: `low` or `high` is not a number, or `low` is not below `high`.
        """
        for name in ("low", "high"):
            check_number(name, getattr(self, name))
        if not self.low < self.high:
            ends = f"It is Scale({self.low}, {self.high})."
            raise InputError("The low end of a scale must be below its high end.", ends)

    def score(self, value: float, **details: Any) -> Score:
        """Return a score, given a number on the scale and other fields of `Score`.

        Raises:
            ValueError: The value is outside the scale.
        """
        return Score(value=value, normalized=self.normalize(value), **details)

    def normalize(self, value: float) -> float:
        """Map a number of the scale to [0, 1], where 1 is best.

        Raises:
            ValueError: The value is outside the scale.
        """
        if not self.low <= value <= self.high:
            stated = f"The value is outside {self.low:g} to {self.high:g}, the metric's scale."
            raise InputError(stated, f"It is {value:g}.")
        share = (value - self.low) / (self.high - self.low)
        return share if self.higher_is_better else 1.0 - share


UNIT = Scale(0.0, 1.0)


def score_id(sample_id: str, metric_id: str, outcome: Outcome) -> str:
    """Return an outcome's id, 32 hex digits derived from sample, metric, judge and versions.

    The id is an idempotency key: a store with one row per id never has an outcome twice, even if a
    process crashes after the write.
    """
    made_by = (outcome.annotator, outcome.version) if isinstance(outcome, Score) else ()
    return _digest([sample_id, metric_id, *made_by])


def result_id(sample_id: str, outcomes: Outcomes) -> str:
    """Return the id of all outcomes of one sample, 32 hex digits, in any order."""
    ids = sorted(score_id(sample_id, name, one) for name, one in outcomes.items())
    return _digest(ids or [sample_id])


def _digest(parts: list[Any]) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


@cache  # made on first use, because it would add milliseconds to the import
def _adapters() -> tuple[TypeAdapter[Score], TypeAdapter[NotScored]]:
    return TypeAdapter(Score), TypeAdapter(NotScored)


def outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as plain types: a score, or `not_scored` with its cause.

    Fields at their default are omitted, except the kind of annotator.
    """
    scores, absences = _adapters()
    if isinstance(outcome, NotScored):
        values = absences.dump_python(outcome, exclude_defaults=True)
        return {"not_scored": values.pop("cause"), **values}
    values = scores.dump_python(outcome, exclude_defaults=True)
    return {**values, "annotator_kind": outcome.annotator_kind}


def outcome_from_dict(data: Mapping[str, Any]) -> Outcome:
    """Return the outcome from the plain form of `outcome_to_dict`; ignore unknown keys.

    Raises:
        ValueError: A field is missing, or a value is out of range or of the wrong type.
    """
    values = {key: value for key, value in data.items() if key != "not_scored"}
    if "not_scored" in data:
        values["cause"] = data["not_scored"]
    scores, absences = _adapters()
    if "cause" in values:
        return absences.validate_python(values)
    if values.get("normalized") is None:
        raise ValueError("The score has no 'normalized'.")
    return scores.validate_python(values)
