"""The result of one metric on one sample: a score that is right, or an absence with its cause."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

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
]


class Cause(StrEnum):
    """Why there is no number. The first two are facts about the sample, the rest are failures."""

    MISSING_INPUT = "missing_input"
    """The sample lacks a field that the metric needs, or the judge cannot make the finding."""
    UNDEFINED = "undefined"
    """The formula has no value for this sample: a share of no items."""
    JUDGE_FAILED = "judge_failed"
    METRIC_FAILED = "metric_failed"
    """The metric's own code raised."""
    TIMEOUT = "timeout"
    OVER_BUDGET = "over_budget"
    SAMPLED_OUT = "sampled_out"
    DROPPED = "dropped"
    EVALUATOR_DIED = "evaluator_died"
    """The evaluator process ended twice while it worked on the sample, or cannot be started."""

    @property
    def is_failure(self) -> bool:
        """Whether a score could have been had and was not."""
        return self not in (Cause.MISSING_INPUT, Cause.UNDEFINED)


class AnnotatorKind(StrEnum):
    """Who judged."""

    CODE = "CODE"
    LLM = "LLM"
    HUMAN = "HUMAN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A number with what it came from. Never NaN or infinite.

    Attributes:
        value: The number in the metric's native scale.
        normalised: The same in [0, 1], where 1 is best.
        label: The metric's word for the value, where it has one.
        parts: Named numbers that the value is made of.
        explanation: Claims, verdicts and chunk numbers behind the value; plain JSON types.
        warnings: What a reader should know before trusting the value.
        annotator_kind: `CODE` for formulas and the embedded judge, `LLM` for a model.
        annotator: The judge's name and model, or `None` when no judge was needed.
        version: Versions of package and prompts, as `0.1.0` or `0.1.0+prompts.1`.
        usage: This metric's part of what judging the sample took.
    """

    value: float
    normalised: float
    label: str | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    explanation: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    annotator_kind: AnnotatorKind = AnnotatorKind.CODE
    annotator: str | None = None
    version: str = ""
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        """Refuses what is no score.

        Raises:
            ValueError: `value` is not finite, or `normalised` is outside [0, 1].
        """
        if not math.isfinite(self.value):
            raise ValueError(f"value: got {self.value!r}; wants a finite number")
        if not 0.0 <= self.normalised <= 1.0:
            raise ValueError(f"normalised: got {self.normalised!r}; wants a number in [0, 1]")


@dataclass(frozen=True, slots=True)
class NotScored:
    """No number, and why. Never counted in a mean.

    Attributes:
        cause: The kind of absence.
        detail: One sentence for a person; holds no content of the sample.
        usage: What was spent in vain, this metric's part.
    """

    cause: Cause
    detail: str = ""
    usage: Usage = field(default_factory=Usage)


Outcome: TypeAlias = Score | NotScored
Outcomes: TypeAlias = Mapping[str, Outcome]
"""Metric id to outcome, in the order in which the metrics were chosen."""


class Unavailable(Exception):
    """Raised when a metric reads a finding that was not made; becomes its outcome."""

    def __init__(self, outcome: NotScored) -> None:
        super().__init__(outcome.detail)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Scale:
    """The native range of a metric and which end of it is good.

    Attributes:
        low: Least value.
        high: Greatest value.
        higher_is_better: False for error rates.
    """

    low: float
    high: float
    higher_is_better: bool = True

    def score(self, value: float, **details: Any) -> Score:
        """A score with its normalised value.

        Args:
            value: A number in [low, high].
            **details: Further fields of `Score`.

        Raises:
            ValueError: The value is outside the scale.
        """
        share = (value - self.low) / (self.high - self.low)
        return Score(
            value=value, normalised=share if self.higher_is_better else 1.0 - share, **details
        )


UNIT = Scale(0.0, 1.0)
