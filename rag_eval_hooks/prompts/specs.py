"""One row per finding of a judge: everything that prompts, collector and cascade know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts import elements
from rag_eval_hooks.sample import Field


class Call(StrEnum):
    """Kinds of call to a judge."""

    DECOMPOSE = "decompose"
    VERIFY = "verify"
    RATE = "rate"
    GRADE = "grade"


class Unit(StrEnum):
    """Subject of one element of a reply."""

    WHOLE = "whole"
    SENTENCE = "sentence"
    TEXT = "text"
    CHUNK = "chunk"
    ITEM = "item"
    TEMPLATE = "template"

    @property
    def key(self) -> str | None:
        """Key of an element that names its item; None where the one element is no list."""
        if self in (Unit.WHOLE, Unit.TEMPLATE):
            return None
        return self.value if self in (Unit.SENTENCE, Unit.CHUNK) else "id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """How one finding is asked for; `wording.toml` has its instruction.

    Attributes:
        call: The call it belongs to.
        element: Model of one element of the reply; its JSON schema is the schema.
        shows: The fields of the sample that the definition allows a judge to see. All of them are
            needed but those in `optional`.
        optional: Fields that are shown where the sample has them.
        unit: Subject of one element.
        about: The finding whose items it judges, one verdict each.
        system: Name of the system text.
    """

    call: Call
    element: Any
    shows: tuple[Field, ...]
    optional: frozenset[Field] = frozenset()
    unit: Unit = Unit.WHOLE
    about: Finding | None = None
    system: str

    @property
    def needs(self) -> frozenset[Field]:
        """Fields without which the finding is `missing_input`."""
        return frozenset(self.shows) - self.optional - {Field.QUESTION}

    @property
    def text(self) -> Field:
        """The field that the finding takes apart, or holds items against."""
        return self.shows[-1]


_Q, _C, _A, _R = Field.QUESTION, Field.CONTEXTS, Field.ANSWER, Field.REFERENCE
_IF_ANY: Final = frozenset({_R})


def _decompose(element: Any, *shows: Field, system: str = "decomposing", **row: Any) -> Spec:
    return Spec(call=Call.DECOMPOSE, element=element, shows=shows, system=system, **row)


def _verify(element: Any, *shows: Field, unit: Unit = Unit.ITEM, **row: Any) -> Spec:
    return Spec(call=Call.VERIFY, element=element, shows=shows, unit=unit, system="judging", **row)


def _rate(element: Any, *shows: Field) -> Spec:
    return Spec(call=Call.RATE, element=element, shows=shows, system="rating")


def _grade(element: Any, *shows: Field, system: str = "judging") -> Spec:
    return Spec(call=Call.GRADE, element=element, shows=shows, unit=Unit.TEMPLATE, system=system)


SPECS: Final[Mapping[Finding, Spec]] = {
    Finding.ANSWER_CLAIMS: _decompose(elements.SentenceElement, _Q, _A, unit=Unit.SENTENCE),
    Finding.REFERENCE_CLAIMS: _decompose(elements.SentenceElement, _Q, _R, unit=Unit.SENTENCE),
    Finding.ENTITIES: _decompose(elements.EntityList, _Q, _R),
    Finding.QUESTIONS: _decompose(elements.QuestionList, _A, system="questioning"),
    Finding.STANCE: _decompose(
        elements.StanceElement, _Q, _A, _R, optional=_IF_ANY, unit=Unit.TEXT, system="rating"
    ),
    Finding.CONTEXT_RATINGS: _grade(elements.CoverageRating, _Q, _C),
    Finding.GROUNDEDNESS_RATINGS: _grade(elements.CoverageRating, _C, _A),
    Finding.ACCURACY_RATINGS: _grade(elements.AccuracyRating, _Q, _A, _R, system="rating"),
    Finding.RELEVANCE: _verify(
        elements.RelevanceElement, _Q, _C, _R, optional=_IF_ANY, unit=Unit.CHUNK
    ),
    Finding.RELEVANCE_TO_ANSWER: _verify(elements.RelevanceElement, _Q, _C, _A, unit=Unit.CHUNK),
    Finding.ANSWER_SUPPORT: _verify(elements.SupportElement, _Q, _C, about=Finding.ANSWER_CLAIMS),
    Finding.REFERENCE_SUPPORT: _verify(
        elements.SupportElement, _Q, _C, about=Finding.REFERENCE_CLAIMS
    ),
    Finding.ENTITIES_FOUND: _verify(elements.EntityElement, _Q, _C, about=Finding.ENTITIES),
    Finding.ANSWER_AGREEMENT: _verify(
        elements.AgreementElement, _Q, _R, about=Finding.ANSWER_CLAIMS
    ),
    Finding.REFERENCE_AGREEMENT: _verify(
        elements.AgreementElement, _Q, _A, about=Finding.REFERENCE_CLAIMS
    ),
    Finding.DIRECT_RELEVANCE: _rate(elements.DirectnessElement, _Q, _A),
    Finding.GEVAL: _rate(elements.GEvalElement, _Q, _A, _R),
    Finding.CLASSIFICATION: _rate(elements.ClassElement, _Q, _A, _R),
    Finding.CORRECTNESS: _rate(elements.StepElement, _Q, _A, _R),
    Finding.ALIGNMENT: _rate(elements.StepElement, _Q, _A),
    Finding.ATTITUDE: _rate(elements.StepElement, _Q, _A, _R),
}
"""The order is that of the calls: the shortest replies about the contexts come first."""

ABOUT: Final[Mapping[Finding, Finding]] = {
    Finding.QUESTION_SIMILARITY: Finding.QUESTIONS,
    **{kind: spec.about for kind, spec in SPECS.items() if spec.about is not None},
}
"""Findings about the items of another finding: one verdict for each item, in order."""


def with_bases(kinds: frozenset[Finding]) -> frozenset[Finding]:
    """Return the findings with those whose items they judge."""
    return kinds | {ABOUT[kind] for kind in kinds if kind in ABOUT}
