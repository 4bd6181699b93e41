"""Tables of settings about sampling: rules, tail rules, limits."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

# pydantic rejects the standard library's before Python 3.12.
from typing_extensions import TypedDict

from rag_eval_hooks.config.fields import Count, Expected, Names, Number, Pattern, Rate

__all__ = ["Budgets", "MetricRates", "RateLimits", "RuleSettings", "TailSettings"]

_Scalar: TypeAlias = str | int | float | bool
_Label: TypeAlias = Annotated[
    Annotated[str, Field(pattern=r"^[\w.-]{1,40}$")] | None,
    Expected("letters, digits, '_', '.' and '-', at most 40"),
]
_Given: TypeAlias = Annotated[Literal[True] | None, Expected("true")]
_Texts: TypeAlias = Annotated[Names, Expected("names")]
_Bound: TypeAlias = Annotated[Number | None, Expected("a number")]
_Search: TypeAlias = Annotated[Pattern | None, Expected("a regular expression")]
_ONE_CONDITION = (
    "a table with exactly one condition: metric with below or above, dont_know, thumbs_down, "
    "feedback_below or feedback_label"
)


class RuleSettings(BaseModel):
    """Samples each request that meets all conditions at the rule's rate.

    Only the first matching rule counts. A rule without `error` applies only to requests that
    succeeded. Patterns are searched in the first 4000 characters.

    Attributes:
        rate: Inclusion probability of the metrics, 0 to 1.
        metrics: Suites or metric ids that the rate applies to; empty means all. Other metrics keep
            their rate.
        name: Name in reasons, as `rule:<name>`; by default the rule's number, from 1.
        tags: Required tags; the request must have all of them.
        metadata: Required value of each key, or a list of accepted values.
        question: Regular expression, searched in the question.
        answer: Regular expression, searched in the answer. Never matches a missing answer.
        error: `true` matches every request that raised. A regular expression is searched in the
            exception's class name. Failed requests are evaluated without an answer.
        latency_above: Minimum duration of the request, in seconds.
        latency_below: Exclusive upper bound of the duration, in seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: Rate
    metrics: _Texts = ()
    name: _Label = None
    tags: _Texts = ()
    metadata: Annotated[
        dict[str, _Scalar | list[_Scalar]],
        Expected("a table of texts, numbers, true or false, or lists of them"),
    ] = {}
    question: _Search = None
    answer: _Search = None
    error: Annotated[Literal[True] | Pattern | None, Expected("true, or a regular expression")] = (
        None
    )
    latency_above: _Bound = None
    latency_below: _Bound = None


class TailSettings(BaseModel):
    """Tail rule: a heuristic result or feedback raises the rate of metrics.

    Exactly one condition: `metric` with `below` or `above` or both, `dont_know`, `thumbs_down`,
    `feedback_below` or `feedback_label`.

    Attributes:
        then: Suites or metric ids to evaluate.
        rate: Inclusion probability of these metrics if the condition is met, 0 to 1. A tail rule
            never lowers a rate.
        name: Name in reasons, as `tail:<name>`; by default the subject of the condition.
        metric: Id of a metric without network access. The heuristic judge computes it for every
            request.
        below: Exclusive upper bound of the metric's value, in its native scale.
        above: Exclusive lower bound of the metric's value.
        dont_know: The answer is a "don't know".
        thumbs_down: A feedback has a score below 0.5, or a label such as `thumbs_down`.
        feedback_below: A feedback has a score below this number.
        feedback_label: Regular expression, searched in a feedback's label.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    then: Annotated[Names, Field(min_length=1), Expected("one or more suites or metric ids")]
    rate: Rate = 1.0
    name: _Label = None
    metric: Annotated[str | None, Expected("a metric id")] = None
    below: _Bound = None
    above: _Bound = None
    dont_know: _Given = None
    thumbs_down: _Given = None
    feedback_below: _Bound = None
    feedback_label: _Search = None

    @model_validator(mode="after")
    def _one_condition(self) -> Self:
        kinds = ("metric", "dont_know", "thumbs_down", "feedback_below", "feedback_label")
        bounded = self.below is not None or self.above is not None
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1 or bounded != (self.metric is not None):
            raise ValueError(_ONE_CONDITION)
        return self


MetricRates: TypeAlias = dict[str, Rate]
RateLimits: TypeAlias = dict[
    Annotated[str, Field(pattern="^(second|minute)$")], Annotated[Count, Field(le=1_000_000)]
]


_Limit: TypeAlias = Annotated[Number, Field(ge=0)]


class Budgets(TypedDict, total=False):
    """Limits of judge calls, and the file that lets processes share them."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    calls_per_second: _Limit
    calls_per_hour: _Limit
    calls_per_day: _Limit
    tokens_per_hour: _Limit
    tokens_per_day: _Limit
    cost_per_hour: _Limit
    cost_per_day: _Limit
    path: str
