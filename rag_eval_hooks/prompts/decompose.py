"""Taking answer and reference apart: claims, entities, questions. No contexts are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_eval_hooks.findings import Decompose, Finding, Questions
from rag_eval_hooks.prompts.ask import Items, Reading, ReplyError
from rag_eval_hooks.prompts.json_text import one_object
from rag_eval_hooks.prompts.prompt import SYSTEM, Prompt, correction, data_block
from rag_eval_hooks.prompts.replies import NumberedList, QuestionList, parse

__all__ = ["QUESTION_COUNT", "DecomposeAsk"]

QUESTION_COUNT = 3
_WHOLE = "list"
"""The one key of each finding here: half a list of claims is no list of claims."""

_SOURCE = {
    Finding.ANSWER_CLAIMS: "answer",
    Finding.REFERENCE_CLAIMS: "reference",
    Finding.ENTITIES: "reference",
    Finding.QUESTIONS: "answer",
}
_CLAIMS = frozenset({Finding.ANSWER_CLAIMS, Finding.REFERENCE_CLAIMS})
_A_CLAIM = (
    "A claim is one checkable statement of fact that cannot be split further and is understood "
    "alone: pronouns and the like are replaced by what they stand for (the question may tell). "
    "Keep numbers, names, negations, hedges and the language; add nothing. Opinions, questions, "
    'advice and remarks like "I do not know" are no claims; a text may hold none.'
)
_PARTS = {
    Finding.ANSWER_CLAIMS: "answer_claims: every claim of the answer, right or wrong.",
    Finding.REFERENCE_CLAIMS: "reference_claims: every claim of the reference.",
    Finding.ENTITIES: (
        "entities: each name, date, place and number in the reference, once, as written there; "
        "possibly none."
    ),
    Finding.QUESTIONS: (
        f"questions: {QUESTION_COUNT} different questions that the answer would answer, in the "
        "answer's language, made from the answer alone as if the question were unknown; none if "
        "it states nothing. noncommittal: true if the answer evades or does not know."
    ),
}
_LIST = {"items": [{"n": 1, "text": "..."}], "count": 1}
_EXAMPLES: Mapping[Finding, Mapping[str, Any]] = {
    Finding.ANSWER_CLAIMS: _LIST,
    Finding.REFERENCE_CLAIMS: _LIST,
    Finding.ENTITIES: _LIST,
    Finding.QUESTIONS: {**_LIST, "noncommittal": False},
}


@dataclass(frozen=True, slots=True)
class DecomposeAsk:
    """A `Decompose` task as questions to a language model.

    A finding whose text is absent is not asked for; nor is one whose text is blank, which holds
    no claims, no entities and answers no question.
    """

    task: Decompose

    def items(self) -> Items:
        """The wanted findings that have a text, in a fixed order."""
        return {
            kind: (_WHOLE,)
            for kind in _PARTS
            if kind in self.task.wanted and (self.text(kind) or "").strip()
        }

    def text(self, kind: Finding) -> str | None:
        """The text that the finding is made from."""
        return self.task.answer if _SOURCE[kind] == "answer" else self.task.reference

    def prompt(self, items: Items, problems: Sequence[str] = ()) -> Prompt:
        """The prompt for these findings; it holds only the texts that they are made from."""
        lines = ["Take the texts apart. Number the items from 1; count is how many there are."]
        lines += [_A_CLAIM] if _CLAIMS & set(items) else []
        lines += ["- " + _PARTS[kind] for kind in items]
        user = data_block(self._document(items)) + "\n\n" + "\n".join(lines)
        example = {kind.value: _EXAMPLES[kind] for kind in items}
        return Prompt(SYSTEM, user + correction(problems), "decomposition", example)

    def read(self, items: Items, reply: str) -> Reading:
        """The lists that are complete.

        Raises:
            ReplyError: The reply is not one JSON object.
        """
        groups = one_object(reply)
        values: dict[Finding, Mapping[str, Any]] = {}
        problems: list[str] = []
        for kind in items:
            try:
                values[kind] = {_WHOLE: _content(kind, groups.get(kind.value))}
            except ReplyError as error:
                problems.append(f"{kind.value}: {error}")
        return Reading(values, tuple(problems))

    def content(self, kind: Finding, values: Mapping[str, Any]) -> Any:
        """The list, or what a blank text has."""
        if _WHOLE in values:
            return values[_WHOLE]
        return Questions((), noncommittal=True) if kind is Finding.QUESTIONS else ()

    def _document(self, items: Items) -> dict[str, str]:
        document = {"question": self.task.question} if _CLAIMS & set(items) else {}
        return document | {_SOURCE[kind]: self.text(kind) or "" for kind in items}


def _content(kind: Finding, group: Any) -> tuple[str, ...] | Questions:
    if kind is not Finding.QUESTIONS:
        return parse(NumberedList, group).texts()
    found = parse(QuestionList, group)
    texts = found.texts()
    if len(texts) not in (0, QUESTION_COUNT):
        raise ReplyError(f"wants {QUESTION_COUNT} different questions, or none")
    return Questions(texts, found.noncommittal)
