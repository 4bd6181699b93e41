"""Types of settings, and the settings of sampling rules, tail rules and budgets."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)

# Before Python 3.12, pydantic rejects the standard library's TypedDict.
from typing_extensions import TypedDict

from rag_eval_hooks.providers import is_url


def _no_bool(value: object) -> object:
    # pydantic would accept `True` as 1.
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return value


def _url(value: str) -> str:
    if not is_url(value):
        wants = "a URL without credentials or parameters, such as http://localhost:8000/v1"
        raise ValueError(wants)
    return value


ONE_OR_MORE = BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
Url: TypeAlias = Annotated[str, AfterValidator(_url)] | None

Count: TypeAlias = Annotated[int, BeforeValidator(_no_bool), Field(ge=1)]
Number: TypeAlias = Annotated[float, BeforeValidator(_no_bool), Field(allow_inf_nan=False)]
Seconds: TypeAlias = Annotated[Number, Field(gt=0)]
Rate: TypeAlias = Annotated[float, BeforeValidator(_no_bool), Field(ge=0, le=1)]
Names: TypeAlias = Annotated[tuple[str, ...], ONE_OR_MORE]
Path: TypeAlias = Annotated[
    str | None, BeforeValidator(lambda value: None if value == "none" else value)
]
Pattern: TypeAlias = Annotated[str, AfterValidator(_pattern)]
Secret: TypeAlias = SecretStr | None


_Limit: TypeAlias = Annotated[Number, Field(ge=0)]
_Scalar: TypeAlias = str | int | float | bool
_Label: TypeAlias = Annotated[str, Field(pattern=r"^[\w.-]{1,40}$")] | None
_Given: TypeAlias = Literal[True] | None
_ONE_CONDITION = (
    "a table with exactly one condition: `metric` (with `below` or `above`), `dont_know`, "
    "`thumbs_down`, `feedback_below` or `feedback_label`"
)


class RuleSettings(BaseModel):
    """A sampling rule, which sets the rate of requests that meet all its conditions.

    Only the first matching rule applies to a request. A rule without `error` matches only
    successful requests. Regular expressions search the first 4,000 characters of
    a text.

    Attributes:
        rate: Inclusion probability, 0 to 1.
        metrics: Suites or metric ids to which the rate applies. Empty means all metrics. All
            other metrics keep their own rates. In a rule with `error`, their rates are 0.
        name: Shown in sampling reasons as `rule:<name>`. The default is the rule's number, from 1.
        tags: Required tags. A request must have all of these tags.
        metadata: Expected value for each metadata key, or a list of accepted values.
        question: Regular expression to find in the question.
        answer: Regular expression to find in the answer. Requests without an answer never match.
        error: `true` matches each failed request. A regular expression matches if it occurs in the
            class name of the exception. Metrics that need an answer do not score the request.
        latency_above: The request took at least this number of seconds.
        latency_below: The request took less than this number of seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    rate: Rate
    metrics: Names = ()
    name: _Label = None
    tags: Names = ()
    metadata: dict[str, _Scalar | list[_Scalar]] = {}
    question: Pattern | None = None
    answer: Pattern | None = None
    error: Literal[True] | Pattern | None = None
    latency_above: Number | None = None
    latency_below: Number | None = None


class TailSettings(BaseModel):
    """Evaluates metrics more often if a score, the answer or feedback meets a condition.

    A rule has exactly one condition. `metric` needs `below`, `above` or both.

    Attributes:
        then: Suites or metric ids to evaluate when the condition holds.
        rate: Inclusion probability of these metrics, 0 to 1. A tail rule never lowers a rate.
        name: Sampling reasons show `tail:<name>`, or `feedback:<name>` for conditions on feedback.
            The default name of a rule is its condition: the metric's id, `dont_know` or
            `thumbs_down`. The default name of any other rule is its position, from 1.
        metric: Id of a metric that the heuristic judge computes for every successful request.
        below: The condition holds if the metric's value is below this number.
        above: The condition holds if the metric's value is above this number.
        dont_know: `true` matches answers that say "I don't know".
        thumbs_down: `true` matches feedback with a score below 0.5 or a label like `thumbs_down`.
        feedback_below: The condition holds if the feedback's score is below this number.
        feedback_label: Regular expression to find in the feedback's label.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    then: Annotated[Names, Field(min_length=1)]
    rate: Rate = 1.0
    name: _Label = None
    metric: str | None = None
    below: Number | None = None
    above: Number | None = None
    dont_know: _Given = None
    thumbs_down: _Given = None
    feedback_below: Number | None = None
    feedback_label: Pattern | None = None

    @model_validator(mode="after")
    def _one_condition(self) -> Self:
        kinds = ("metric", "dont_know", "thumbs_down", "feedback_below", "feedback_label")
        bounded = self.below is not None or self.above is not None
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1 or bounded != (self.metric is not None):
            raise ValueError(_ONE_CONDITION)
        return self


RateLimits: TypeAlias = dict[
    Annotated[str, Field(pattern="^(second|minute)$")], Annotated[Count, Field(le=1_000_000)]
]


class Budgets(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    calls_per_second: _Limit
    calls_per_hour: _Limit
    calls_per_day: _Limit
    tokens_per_hour: _Limit
    tokens_per_day: _Limit
    cost_per_hour: _Limit
    cost_per_day: _Limit
    path: str
