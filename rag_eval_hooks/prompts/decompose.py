"""Decomposition of answer and reference: claims, entities, questions. Needs no contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_eval_hooks.findings import Finding, Questions, Stance
from rag_eval_hooks.prompts.prompt import (
    SYSTEM,
    WHOLE,
    Items,
    Prompt,
    Reading,
    ReplyError,
    correction,
    data_block,
    only_lines,
)
from rag_eval_hooks.prompts.replies import (
    Contents,
    NumberedList,
    QuestionList,
    StanceVerdict,
    parse,
    read_group,
    read_reply,
)
from rag_eval_hooks.tasks import Decompose

__all__ = ["QUESTION_COUNT", "DecomposeAsk"]

QUESTION_COUNT = 3

_SOURCE = {
    Finding.ANSWER_CLAIMS: "answer",
    Finding.REFERENCE_CLAIMS: "reference",
    Finding.ENTITIES: "reference",
    Finding.QUESTIONS: "answer",
    Finding.STANCE: "answer",
}
_CLAIMS = frozenset({Finding.ANSWER_CLAIMS, Finding.REFERENCE_CLAIMS})
_WITH_QUESTION = _CLAIMS | {Finding.STANCE}
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
    Finding.STANCE: (
        "stance: per text, indistinct: true if, as a reply to the question, it is so confused, "
        "evasive or vague that it neither states nor denies anything that could be checked."
    ),
}
_LIST = {"items": [{"n": 1, "text": "..."}], "count": 1}
_EXAMPLES: Mapping[Finding, Any] = {
    Finding.ANSWER_CLAIMS: _LIST,
    Finding.REFERENCE_CLAIMS: _LIST,
    Finding.ENTITIES: _LIST,
    Finding.QUESTIONS: {**_LIST, "noncommittal": False},
    Finding.STANCE: [{"id": "answer", "indistinct": False}],
}


@dataclass(frozen=True, slots=True)
class DecomposeAsk:
    """`Decompose` task as questions to a language model.

    Half a list of claims is no list of claims, so each list is one item. The stance has an item
    for each of the two texts. A blank text is not asked about: it holds no claims and no
    entities, answers no question, and is indistinct.
    """

    task: Decompose

    def items(self) -> Items:
        """Return the wanted findings that have a text, in a fixed order."""
        every = {kind: self._keys(kind) for kind in _PARTS if kind in self.task.wanted}
        return {kind: keys for kind, keys in every.items() if keys}

    def possible(self, kind: Finding) -> bool:
        """Tell if the task has the text that the finding is made from."""
        return getattr(self.task, _SOURCE[kind]) is not None

    def prompt(self, items: Items, problems: Sequence[str] = ()) -> Prompt:
        """Make the prompt for these findings, with only the texts that they are made from."""
        lines = ["Take the texts apart."]
        lines += ["Number the items from 1; count is how many there are."] if _lists(items) else []
        lines += [_A_CLAIM] if _CLAIMS & set(items) else []
        lines += ["- " + _PARTS[kind] for kind in items] + only_lines(items, self.items())
        user = data_block(self._document(items)) + "\n\n" + "\n".join(lines)
        example = {kind.value: _EXAMPLES[kind] for kind in items}
        return Prompt(SYSTEM, user + correction(problems), "decomposition", example)

    def read(self, items: Items, reply: str) -> Reading:
        """Read the complete lists, and the stance of each text.

        Raises:
            ReplyError: The reply is not one JSON object.
        """
        return read_reply(items, reply, _contents)

    def content(self, kind: Finding, values: Mapping[str, Any]) -> Any:
        """Return the list or the stance; a blank text has fixed ones."""
        if kind is Finding.STANCE:
            return Stance(*(self._indistinct(name, values) for name in ("answer", "reference")))
        if WHOLE in values:
            return values[WHOLE]
        return Questions((), noncommittal=True) if kind is Finding.QUESTIONS else ()

    def _keys(self, kind: Finding) -> tuple[str, ...]:
        if not self.possible(kind):
            return ()
        if kind is Finding.STANCE:
            return tuple(name for name in ("answer", "reference") if self._text(name).strip())
        return (WHOLE,) if self._text(_SOURCE[kind]).strip() else ()

    def _indistinct(self, name: str, values: Mapping[str, Any]) -> bool:
        return bool(values.get(name, getattr(self.task, name) is not None))

    def _text(self, name: str) -> str:
        return getattr(self.task, name) or ""

    def _document(self, items: Items) -> dict[str, str]:
        document = {"question": self.task.question} if _WITH_QUESTION & set(items) else {}
        for kind, keys in items.items():
            for name in keys if kind is Finding.STANCE else (_SOURCE[kind],):
                document[name] = self._text(name)
        return document


def _lists(items: Items) -> bool:
    return bool(set(items) - {Finding.STANCE})


def _contents(kind: Finding, group: Any, asked: tuple[str, ...]) -> Contents:
    if kind is Finding.STANCE:
        return read_group(group, "id", asked, lambda row: parse(StanceVerdict, row).indistinct)
    return {WHOLE: _list(kind, group)}, []


def _list(kind: Finding, group: Any) -> tuple[str, ...] | Questions:
    if kind is not Finding.QUESTIONS:
        return parse(NumberedList, group).texts()
    parsed = parse(QuestionList, group)
    texts = parsed.texts()
    if len(texts) not in (0, QUESTION_COUNT):
        raise ReplyError(f"wants {QUESTION_COUNT} different questions, or none")
    return Questions(texts, parsed.noncommittal)
