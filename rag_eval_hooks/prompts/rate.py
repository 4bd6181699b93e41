"""Ratings of an answer by rubrics, all in one call and without the contexts.

The steps of the rubrics are those of GraphRAG Evaluation Metrics (direct relevance, GEval,
classification) and of the RAG Answer Evaluation Framework (1 to 5); the wording is our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from rag_eval_hooks.findings import Finding, GEval, Rating, Verdict
from rag_eval_hooks.prompts.prompt import (
    SYSTEM,
    WHOLE,
    Items,
    Prompt,
    Reading,
    ReplyError,
    correction,
    data_block,
)
from rag_eval_hooks.prompts.replies import (
    Flag,
    Group,
    Number,
    ReplyElement,
    WholeNumber,
    Words,
    parse,
    read_reply,
)
from rag_eval_hooks.prompts.shape import FLAG, NUMBER, TEXT, one_of
from rag_eval_hooks.tasks import Rate

__all__ = ["RateAsk"]

_WITHOUT_REFERENCE: Final = frozenset({Finding.DIRECT_RELEVANCE, Finding.ALIGNMENT})
_PARTS = {
    Finding.DIRECT_RELEVANCE: (
        "how far the answer, right or wrong, replies to the question: 1 directly and in full; "
        "0.75 but for small gaps; 0.5 by half; 0.25 it only touches the subject; 0 not at all. "
        "No value between these."
    ),
    Finding.GEVAL: (
        "think through three criteria in turn, each scored from 0 to 100. correctness: are the "
        "answer's facts right by the reference (from 90: no error; from 70: slips that change "
        "nothing; from 50: main points right, some errors; from 30: several grave errors; below: "
        "mostly wrong or made up). completeness: how much of what matters in the reference it "
        "holds (same steps, from all of it to hardly any). consistency: whether it agrees with "
        "itself (same steps, from no contradiction to mostly contradictions)."
    ),
    Finding.CLASSIFICATION: (
        "correct: true if by the reference the answer's facts are right and it settles what the "
        "question asks; false if it is wrong, contradicts the reference, misses the question, or "
        "leaves out so much that it misleads."
    ),
    Finding.CORRECTNESS: (
        "how far the facts of answer and reference agree: 5 the same in substance; 4 but for "
        "details; 3 in part; 2 little; 1 not at all, or the contrary."
    ),
    Finding.ALIGNMENT: (
        "how far the answer, right or wrong, takes up what the question is after: 5 exactly; "
        "4 mostly or indirectly; 3 in part; 2 barely; 1 not at all, or it neither states nor "
        "denies anything."
    ),
    Finding.ATTITUDE: (
        "how alike answer and reference are in attitude: which way they lean, how sure they are, "
        "their tone, whatever they state: 5 alike; 4 nearly; 3 in part; 2 little; 1 opposed."
    ),
}
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
_SCORE = {"reason": TEXT, "score": NUMBER}
_STEP = {"reason": TEXT, "value": one_of(1, 2, 3, 4, 5)}
_SHAPES: Mapping[Finding, Mapping[str, Any]] = {
    Finding.DIRECT_RELEVANCE: {"reason": TEXT, "value": one_of(*_QUARTERS)},
    Finding.GEVAL: {"correctness": _SCORE, "completeness": _SCORE, "consistency": _SCORE},
    Finding.CLASSIFICATION: {"reason": TEXT, "correct": FLAG},
    Finding.CORRECTNESS: _STEP,
    Finding.ALIGNMENT: _STEP,
    Finding.ATTITUDE: _STEP,
}


class _RatingElement(ReplyElement):
    reason: Words = ""


class _Relevance(_RatingElement):
    value: Number


class _Step(_RatingElement):
    value: Annotated[WholeNumber, Field(ge=1, le=5)]


class _Class(_RatingElement):
    correct: Flag


class _CriterionScore(_RatingElement):
    score: Annotated[Number, Field(ge=0, le=100)]


class _GEvalElement(ReplyElement):
    # Models like to add a total: it is ignored, the arithmetic is ours.
    correctness: _CriterionScore
    completeness: _CriterionScore
    consistency: _CriterionScore


def _read_relevance(element: Any) -> float:
    value = parse(_Relevance, element).value
    if value not in _QUARTERS:
        raise ReplyError("value must be 0, 0.25, 0.5, 0.75 or 1")
    return value


def _read_step(element: Any) -> Rating:
    parsed = parse(_Step, element)
    return Rating(float(parsed.value), parsed.reason)


def _read_class(element: Any) -> Verdict:
    parsed = parse(_Class, element)
    return Verdict(parsed.correct, parsed.reason)


def _read_geval(element: Any) -> GEval:
    parsed = parse(_GEvalElement, element)
    scores = {name: getattr(parsed, name) for name in _GEvalElement.model_fields}
    if any(0 < score.score < 1 for score in scores.values()):
        raise ReplyError("it has a score between 0 and 1, where 100 is the most")
    reasons = [f"{name}: {score.reason}" for name, score in scores.items() if score.reason]
    values = {name: score.score for name, score in scores.items()}
    return GEval(**values, reason="; ".join(reasons))


_READERS: Mapping[Finding, Callable[[Any], Any]] = {
    Finding.DIRECT_RELEVANCE: _read_relevance,
    Finding.GEVAL: _read_geval,
    Finding.CLASSIFICATION: _read_class,
    Finding.CORRECTNESS: _read_step,
    Finding.ALIGNMENT: _read_step,
    Finding.ATTITUDE: _read_step,
}
"""Readers of one rating; each raises `ReplyError` for a value that is missing or off its scale."""


@dataclass(frozen=True, slots=True)
class RateAsk:
    """`Rate` task as questions to a language model; each rating is one item."""

    task: Rate

    def items(self) -> Items:
        """Return the wanted ratings that have their texts, in a fixed order."""
        wanted = [kind for kind in _PARTS if kind in self.task.wanted]
        return {kind: (WHOLE,) for kind in wanted if self.possible(kind)}

    def possible(self, kind: Finding) -> bool:
        """Return whether the task has the reference, for a rating that needs one."""
        return kind in _WITHOUT_REFERENCE or self.task.reference is not None

    def prompt(self, items: Items, problems: Sequence[str] = ()) -> Prompt:
        """Make the prompt for these ratings, with the reference only if one of them needs it."""
        document = {"question": self.task.question, "answer": self.task.answer}
        if not set(items) <= _WITHOUT_REFERENCE:
            document["reference"] = self.task.reference or ""
        lines = [data_block(document), "", "Rate the answer, each time giving the reason first."]
        lines += [f"- {kind.value}: {_PARTS[kind]}" for kind in items]
        shape = {kind.value: _SHAPES[kind] for kind in items}
        return Prompt(SYSTEM, "\n".join(lines) + correction(problems), "ratings", shape)

    def read(self, items: Items, reply: str) -> Reading:
        """Read the ratings that fit.

        Raises:
            ReplyError: The reply holds no JSON object.
        """
        inner = _GEvalElement.model_fields if Finding.GEVAL in items else ()
        return read_reply(
            items, reply, lambda kind, group, _: Group({WHOLE: _READERS[kind](group)}), inner
        )

    def content(self, _kind: Finding, values: Mapping[str, Any]) -> Any:
        """Return the rating."""
        return values[WHOLE]
