"""Strictly typed elements of ratings: a value outside its set is refused, not rounded."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from rag_eval_hooks.findings import GEval, Rating, Verdict
from rag_eval_hooks.prompts.ask import ReplyError
from rag_eval_hooks.prompts.replies import parse

__all__ = ["read_class", "read_geval", "read_relevance", "read_step"]

_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


class _Element(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    reason: str = ""


class _Relevance(_Element):
    value: float


class _Step(_Element):
    value: Annotated[int, Field(ge=1, le=5)]


class _Class(_Element):
    correct: bool


class _Score(_Element):
    score: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class _GEval(BaseModel):
    # Models like to add a total: it is ignored, the arithmetic is ours.
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    correctness: _Score
    completeness: _Score
    consistency: _Score


def read_relevance(element: Any) -> float:
    """Read direct relevance, one of five steps from 0 to 1.

    Raises:
        ReplyError: It is none of them.
    """
    value = parse(_Relevance, element).value
    if value not in _QUARTERS:
        raise ReplyError("value must be 0, 0.25, 0.5, 0.75 or 1")
    return value


def read_step(element: Any) -> Rating:
    """Read a step from 1 to 5.

    Raises:
        ReplyError: It is none.
    """
    found = parse(_Step, element)
    return Rating(float(found.value), found.reason)


def read_class(element: Any) -> Verdict:
    """Read the verdict on the answer's correctness.

    Raises:
        ReplyError: It is not said.
    """
    found = parse(_Class, element)
    return Verdict(found.correct, found.reason)


def read_geval(element: Any) -> GEval:
    """Read three scores from 0 to 100; anything beside them is ignored.

    Raises:
        ReplyError: One of them is missing or out of range.
    """
    found = parse(_GEval, element)
    scores = {name: getattr(found, name) for name in _GEval.model_fields}
    reasons = [f"{name}: {score.reason}" for name, score in scores.items() if score.reason]
    values = {name: score.score for name, score in scores.items()}
    return GEval(**values, reason="; ".join(reasons))
