"""Tables of settings about sampling: rules, tail rules, limits."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    model_validator,
)

__all__ = [
    "Budgets",
    "MetricRates",
    "RateLimits",
    "RuleSettings",
    "Rules",
    "TailRules",
    "TailSettings",
    "wanted_in",
]


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(str(error)) from None
    return value


def _one_or_more(value: object) -> object:
    """Read one name as a list of one."""
    return (value,) if isinstance(value, str) else value


def _tables(value: object) -> object:
    """Read tables as JSON, the form that they have in environment variables."""
    return json.loads(value) if isinstance(value, str) else value


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError
    return value


Pattern: TypeAlias = Annotated[str, AfterValidator(_pattern)]
Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_one_or_more)]
Rate: TypeAlias = Annotated[float, BeforeValidator(_no_bool), Field(ge=0, le=1)]
Number: TypeAlias = Annotated[float, BeforeValidator(_no_bool), Field(allow_inf_nan=False)]
Scalar: TypeAlias = str | int | float | bool
_Label: TypeAlias = Annotated[str, Field(pattern=r"^[\w.-]{1,40}$")]


class RuleSettings(BaseModel):
    """Rule by which interactions that meet all its conditions are sampled at its rate.

    Only the first rule that an interaction meets counts. A rule applies to interactions that
    ended well, unless it has `error`. Patterns are searched in the first 4000 characters.

    Attributes:
        rate: Inclusion probability, 0 to 1, of the metrics.
        metrics: Suites or metric ids that the rate applies to; none means all. Other metrics have
            their rate without rules.
        name: Name in reasons, as `rule:<name>`; by default the rule's number, from 1.
        tags: Tags that the interaction must have, all of them.
        metadata: Value that each key must have, or a list of values, one of which it must have.
        question: Regular expression, searched in the question.
        answer: Regular expression, searched in the answer; never met without an answer.
        error: `true`: the interaction ended with an exception; or a regular expression, searched
            in the exception's class name. Interactions that such a rule chooses are evaluated
            without their answer.
        latency_above: Least duration of the request, in seconds.
        latency_below: Duration in seconds that the request must stay below.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: Rate
    metrics: Names = ()
    name: _Label | None = None
    tags: Names = ()
    metadata: dict[str, Scalar | list[Scalar]] = {}
    question: Pattern | None = None
    answer: Pattern | None = None
    error: Literal[True] | Pattern | None = None
    latency_above: Number | None = None
    latency_below: Number | None = None


class TailSettings(BaseModel):
    """Tail rule by which a cheap result or a feedback raises the rate of metrics.

    Exactly one condition: `metric` with `below` or `above` or both, `dont_know`, `thumbs_down`,
    `feedback_below` or `feedback_label`.

    Attributes:
        then: Suites or metric ids to evaluate.
        rate: Their inclusion probability if the condition is met, 0 to 1; never lowers one.
        name: Name in reasons, as `tail:<name>`; by default the subject of the condition.
        metric: Id of a metric that needs no network: the embedded judge without a model measures
            it for every interaction.
        below: Upper bound of its value, in the metric's own scale, itself excluded.
        above: Lower bound of its value, itself excluded.
        dont_know: The answer says that it does not know (setting `dont_know`).
        thumbs_down: A feedback has a score below 0.5, or a label such as `thumbs_down`.
        feedback_below: A feedback has a score below this.
        feedback_label: Regular expression, searched in a feedback's label.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    then: Annotated[Names, Field(min_length=1)]
    rate: Rate = 1.0
    name: _Label | None = None
    metric: str | None = None
    below: Number | None = None
    above: Number | None = None
    dont_know: Literal[True] | None = None
    thumbs_down: Literal[True] | None = None
    feedback_below: Number | None = None
    feedback_label: Pattern | None = None

    @model_validator(mode="after")
    def _one_condition(self) -> Self:
        kinds = ("metric", "dont_know", "thumbs_down", "feedback_below", "feedback_label")
        bounded = self.below is not None or self.above is not None
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1 or bounded != (self.metric is not None):
            raise ValueError
        return self


Rules: TypeAlias = Annotated[tuple[RuleSettings, ...], BeforeValidator(_tables)]
TailRules: TypeAlias = Annotated[tuple[TailSettings, ...], BeforeValidator(_tables)]
MetricRates: TypeAlias = dict[str, Rate]
RateLimits: TypeAlias = dict[
    Annotated[str, Field(pattern=r"^(second|minute)$")],
    Annotated[int, BeforeValidator(_no_bool), Field(ge=1, le=1_000_000)],
]


def _budget(value: object) -> object:
    """Split a budget into the path, which is text, and the limits, which are numbers."""
    if not isinstance(value, dict):
        return value
    limit = TypeAdapter(Annotated[Number, Field(ge=0)])
    return {
        name: each if name == "path" and isinstance(each, str) else limit.validate_python(each)
        for name, each in value.items()
    }


Budgets: TypeAlias = Annotated[
    dict[
        Annotated[
            str, Field(pattern=r"^((calls|tokens|cost)_per_(hour|day)|calls_per_second|path)$")
        ],
        str | float,
    ],
    BeforeValidator(_budget),
]

_WANTS = {
    "rate": "a number from 0 to 1",
    "then": "one or more suites or metric ids",
    "name": "letters, digits, '_', '.' and '-', at most 40",
    "question": "a regular expression",
    "answer": "a regular expression",
    "error": "true, or a regular expression",
    "feedback_label": "a regular expression",
    "metadata": "a table of texts, numbers, true or false, or lists of them",
    "dont_know": "true",
    "thumbs_down": "true",
}
_ONE_CONDITION = (
    "exactly one condition: metric with below or above, dont_know, thumbs_down, feedback_below "
    "or feedback_label"
)


def wanted_in(loc: tuple[Any, ...], kind: str) -> tuple[str, str] | None:
    """Return the path of an error in a table of rules, and the accepted values.

    Args:
        loc: Location that pydantic reports, such as `("rules", 0, "rate")`.
        kind: Type of the error, as pydantic names it.

    Returns:
        Path and accepted values, or None for an error that is not inside a table.
    """
    if loc[0] not in ("rules", "tail") or len(loc) < 2:
        return None
    path = f"{loc[0]}[{loc[1]}]"
    if len(loc) == 2:
        return path, _ONE_CONDITION if loc[0] == "tail" else "a table"
    model = RuleSettings if loc[0] == "rules" else TailSettings
    field = str(loc[2])
    if kind == "extra_forbidden":
        return f"{path}.{field}", "one of " + ", ".join(model.model_fields)
    wants = "a number" if field.endswith(("above", "below")) else "names"
    return f"{path}.{field}", _WANTS.get(field, wants)
