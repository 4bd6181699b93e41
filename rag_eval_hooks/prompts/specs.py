"""One row per finding of a judge: everything that prompts, collector and cascade know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts import elements
from rag_eval_hooks.prompts.prompt import DECOMPOSING, JUDGING, QUESTIONING, RATING
from rag_eval_hooks.sample import Field

__all__ = ["ABOUT", "SPECS", "Call", "Spec", "Unit", "with_bases"]


class Call(StrEnum):
    """Kinds of call to a judge."""

    DECOMPOSE = "decompose"
    VERIFY = "verify"
    RATE = "rate"
    GRADE = "grade"


class Unit(StrEnum):
    """What one element of a reply is about."""

    WHOLE = "whole"
    SENTENCE = "sentence"
    TEXT = "text"
    CHUNK = "chunk"
    ITEM = "item"
    TEMPLATE = "template"

    @property
    def key(self) -> str | None:
        """Key of an element that names its item; None where the one element is no list."""
        return _KEYS.get(self)


_KEYS: Final[Mapping[Unit, str]] = {
    Unit.SENTENCE: "sentence",
    Unit.TEXT: "id",
    Unit.CHUNK: "chunk",
    Unit.ITEM: "id",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """How one finding is asked for.

    Attributes:
        call: The call it belongs to.
        element: Model of one element of the reply; its JSON schema is the schema.
        instruction: What the model is to do. For a grade, the words of both templates.
        shows: The fields of the sample that the definition allows a judge to see. All of them are
            needed but those in `optional`.
        optional: Fields that are shown where the sample has them.
        unit: What one element is about.
        about: The finding whose items it judges, one verdict each.
        system: The system text.
        asked_with: The finding that shares its call, always and whatever else is asked for.
    """

    call: Call
    element: Any
    instruction: str | tuple[str, str]
    shows: tuple[Field, ...]
    optional: frozenset[Field] = frozenset()
    unit: Unit = Unit.WHOLE
    about: Finding | None = None
    system: str = JUDGING
    asked_with: Finding | None = None

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
_SUPPORT: Final = (
    "judge each claim by the chunks. If it is supported, chunks has the number of every chunk that "
    "states the whole claim by itself; together is true if no chunk does, but several do in "
    "combination. partly has the numbers of the chunks that state only a part of the claim."
)
_RELEVANCE: Final = (
    "for each chunk, the reason first. useful is true if the chunk helps to {purpose}. rating says "
    "how much it helps, from 0 (not at all) to 100 (it is sufficient by itself)."
)

SPECS: Final[Mapping[Finding, Spec]] = {
    Finding.ANSWER_CLAIMS: Spec(
        call=Call.DECOMPOSE,
        system=DECOMPOSING,
        element=elements.SentenceElement,
        unit=Unit.SENTENCE,
        shows=(_Q, _A),
        instruction=(
            "all claims of each numbered sentence of the answer, right or wrong; an empty list for "
            "a sentence that makes none. Every sentence, exactly once."
        ),
    ),
    Finding.REFERENCE_CLAIMS: Spec(
        call=Call.DECOMPOSE,
        system=DECOMPOSING,
        element=elements.SentenceElement,
        unit=Unit.SENTENCE,
        shows=(_Q, _R),
        instruction=(
            "all claims of each numbered sentence of the reference; an empty list for a sentence "
            "that makes none. Every sentence, exactly once."
        ),
        asked_with=Finding.ENTITIES,
    ),
    Finding.ENTITIES: Spec(
        call=Call.DECOMPOSE,
        system=DECOMPOSING,
        element=elements.EntityList,
        shows=(_Q, _R),
        instruction=(
            "every name, date, place and number in the reference, once each, written as it is "
            "there; possibly none. Number the items from 1; count is how many there are."
        ),
        asked_with=Finding.REFERENCE_CLAIMS,
    ),
    Finding.QUESTIONS: Spec(
        call=Call.DECOMPOSE,
        system=QUESTIONING,
        element=elements.QuestionList,
        shows=(_A,),
        instruction=(
            f"{elements.QUESTION_COUNT} different questions that this answer answers, in the "
            "language of the answer; none if the answer states nothing. Number the items from 1; "
            "count is how many there are. noncommittal is true if the answer is evasive or vague, "
            "or says that it does not know."
        ),
    ),
    Finding.STANCE: Spec(
        call=Call.DECOMPOSE,
        system=RATING,
        element=elements.StanceElement,
        unit=Unit.TEXT,
        shows=(_Q, _A, _R),
        optional=_IF_ANY,
        instruction=(
            "for each text, indistinct is true if, as a reply to the question, the text is so "
            "vague, confused or evasive that it neither states nor denies anything that can be "
            "checked."
        ),
    ),
    Finding.CONTEXT_RATINGS: Spec(
        call=Call.GRADE,
        element=elements.CoverageRating,
        unit=Unit.TEMPLATE,
        shows=(_Q, _C),
        instruction=(
            "decide what is needed to answer the question, and how much of it the chunks contain, "
            "taken together. 2: all of it; 1: a part of it; 0: none of it.",
            "someone who has read these chunks, and nothing else, is asked the question. 2: they "
            "can answer it fully; 1: they can answer it in part; 0: they cannot answer it.",
        ),
    ),
    Finding.GROUNDEDNESS_RATINGS: Spec(
        call=Call.GRADE,
        element=elements.CoverageRating,
        unit=Unit.TEMPLATE,
        shows=(_C, _A),
        instruction=(
            "compare the statements of the answer with the chunks. 2: every statement is stated or "
            "implied there; 1: some are; 0: none are.",
            "look for statements in the answer that no chunk backs up. 2: there are none; 1: there "
            "are some, beside statements that are backed up; 0: nothing is backed up.",
        ),
    ),
    Finding.ACCURACY_RATINGS: Spec(
        call=Call.GRADE,
        system=RATING,
        element=elements.AccuracyRating,
        unit=Unit.TEMPLATE,
        shows=(_Q, _A, _R),
        instruction=(
            "compare the candidate with the standard; both are replies to the question. 4: they "
            "say the same about what is asked; 2: the candidate agrees in part; 0: it is wrong, or "
            "about something else.",
            "take the standard as true. 4: the candidate gets all of it right and adds nothing "
            "wrong; 2: it gets some of it right, or adds errors; 0: it gets nothing right that the "
            "question asks for.",
        ),
    ),
    Finding.RELEVANCE: Spec(
        call=Call.VERIFY,
        element=elements.RelevanceElement,
        unit=Unit.CHUNK,
        shows=(_Q, _C, _R),
        optional=_IF_ANY,
        instruction=_RELEVANCE,
    ),
    Finding.RELEVANCE_TO_ANSWER: Spec(
        call=Call.VERIFY,
        element=elements.RelevanceElement,
        unit=Unit.CHUNK,
        shows=(_Q, _C, _A),
        instruction=_RELEVANCE,
    ),
    Finding.ANSWER_SUPPORT: Spec(
        call=Call.VERIFY,
        element=elements.SupportElement,
        unit=Unit.ITEM,
        about=Finding.ANSWER_CLAIMS,
        shows=(_Q, _C),
        instruction=_SUPPORT,
    ),
    Finding.REFERENCE_SUPPORT: Spec(
        call=Call.VERIFY,
        element=elements.SupportElement,
        unit=Unit.ITEM,
        about=Finding.REFERENCE_CLAIMS,
        shows=(_Q, _C),
        instruction=_SUPPORT,
    ),
    Finding.ENTITIES_FOUND: Spec(
        call=Call.VERIFY,
        element=elements.EntityElement,
        unit=Unit.ITEM,
        about=Finding.ENTITIES,
        shows=(_Q, _C),
        instruction="found is true if a chunk mentions the entity, in any spelling or format.",
    ),
    Finding.ANSWER_AGREEMENT: Spec(
        call=Call.VERIFY,
        element=elements.AgreementElement,
        unit=Unit.ITEM,
        about=Finding.ANSWER_CLAIMS,
        shows=(_Q, _R),
        instruction="judge each claim of the answer by the reference.",
    ),
    Finding.REFERENCE_AGREEMENT: Spec(
        call=Call.VERIFY,
        element=elements.AgreementElement,
        unit=Unit.ITEM,
        about=Finding.REFERENCE_CLAIMS,
        shows=(_Q, _A),
        instruction="judge each claim of the reference by the answer.",
    ),
    Finding.DIRECT_RELEVANCE: Spec(
        call=Call.RATE,
        system=RATING,
        element=elements.DirectnessElement,
        shows=(_Q, _A),
        instruction=(
            "how far the answer, right or wrong, addresses the question. 1: directly and "
            "completely; 0.75: mostly, with minor gaps; 0.5: partially; 0.25: only tangentially; "
            "0: not at all. No value in between."
        ),
    ),
    Finding.GEVAL: Spec(
        call=Call.RATE,
        system=RATING,
        element=elements.GEvalElement,
        shows=(_Q, _A, _R),
        instruction=(
            "score three criteria from 0 to 100, one after the other. correctness: are the facts "
            "of the answer right by the reference? 90-100: no errors; 70-89: slips that change "
            "nothing; 50-69: main points right, some errors; 30-49: several serious errors; 0-29: "
            "mostly wrong or made up. completeness: how much of what matters in the reference does "
            "the answer contain? 90-100: all; 70-89: nearly all; 50-69: the main points; 30-49: "
            "little; 0-29: hardly anything. consistency: does the answer agree with itself? "
            "90-100: no contradictions; 70-89: unclear in places; 50-69: one contradiction; 30-49: "
            "several; 0-29: mostly contradictory."
        ),
    ),
    Finding.CLASSIFICATION: Spec(
        call=Call.RATE,
        system=RATING,
        element=elements.ClassElement,
        shows=(_Q, _A, _R),
        instruction=(
            "correct is true if, by the reference, the facts of the answer are right and settle "
            "what the question asks. It is false if the answer is wrong, contradicts the "
            "reference, misses the question, or leaves out so much that it misleads."
        ),
    ),
    Finding.CORRECTNESS: Spec(
        call=Call.RATE,
        system=RATING,
        element=elements.StepElement,
        shows=(_Q, _A, _R),
        instruction=(
            "how far the facts of the answer agree with the reference. 5: the same in substance; "
            "4: the same but for details; 3: in part; 2: little; 1: not at all, or they contradict "
            "it."
        ),
    ),
    Finding.ALIGNMENT: Spec(
        call=Call.RATE,
        system=RATING,
        element=elements.StepElement,
        shows=(_Q, _A),
        instruction=(
            "how well the answer, right or wrong, responds to what the question asks. 5: exactly; "
            "4: mostly, or indirectly; 3: in part; 2: barely; 1: not at all, or the answer neither "
            "states nor denies anything."
        ),
    ),
    Finding.ATTITUDE: Spec(
        call=Call.RATE,
        system=RATING,
        element=elements.StepElement,
        shows=(_Q, _A, _R),
        instruction=(
            "how alike answer and reference are in attitude, whatever they state: which way they "
            "lean, how certain they are, and their tone. 5: alike; 4: nearly; 3: in part; 2: "
            "hardly; 1: opposed."
        ),
    ),
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
