"""Decomposition of answer and reference: claims, entities, questions. Needs no contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rag_eval_hooks.findings import Finding, Questions, Stance
from rag_eval_hooks.prompts.prompt import (
    DECOMPOSING,
    WHOLE,
    Items,
    Prompt,
    Reading,
    ReplyError,
    correction,
    data_block,
    numbered,
    only_lines,
)
from rag_eval_hooks.prompts.replies import (
    Flag,
    Group,
    NumberedList,
    QuestionList,
    ReplyElement,
    Said,
    parse,
    read_group,
    read_reply,
)
from rag_eval_hooks.prompts.shape import FLAG, TEXT, WHOLE_NUMBER, one_of
from rag_eval_hooks.tasks import Decompose
from rag_eval_hooks.text.sentences import sentences

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
_LISTS = frozenset({Finding.ENTITIES, Finding.QUESTIONS})
_WITH_QUESTION = _CLAIMS | {Finding.STANCE}
_PARTS = {
    Finding.ANSWER_CLAIMS: (
        "answer_claims: for each numbered sentence of the answer all of its claims, right or "
        "wrong; an empty list for a sentence without one. Every sentence, once."
    ),
    Finding.REFERENCE_CLAIMS: "reference_claims: those of the reference, likewise.",
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
_LIST = {"items": [{"n": WHOLE_NUMBER, "text": TEXT}], "count": WHOLE_NUMBER}
_SENTENCE = {"sentence": WHOLE_NUMBER, "claims": [TEXT]}
_SHAPES: Mapping[Finding, Any] = {
    Finding.ANSWER_CLAIMS: [_SENTENCE],
    Finding.REFERENCE_CLAIMS: [_SENTENCE],
    Finding.ENTITIES: _LIST,
    Finding.QUESTIONS: {**_LIST, "noncommittal": FLAG},
    Finding.STANCE: [{"id": one_of("answer", "reference"), "indistinct": FLAG}],
}


class _StanceElement(ReplyElement):
    indistinct: Flag


class _SentenceElement(ReplyElement):
    claims: list[Said]


@dataclass(frozen=True, slots=True)
class DecomposeAsk:
    """`Decompose` task as questions to a language model.

    Each sentence of a text is an item, so that no sentence's claims can be lost unseen. Half a
    list of entities or questions is none: each of these lists is one item. The stance has an item
    for each of the two texts. A blank text is not asked about: it holds no claims and no entities,
    answers no question, and is indistinct.
    """

    task: Decompose

    def items(self) -> Items:
        """Return the wanted findings that have a text, in a fixed order."""
        every = {kind: self._keys(kind) for kind in _PARTS if kind in self.task.wanted}
        return {kind: keys for kind, keys in every.items() if keys}

    def possible(self, kind: Finding) -> bool:
        """Return whether the task has the text that the finding is made from."""
        return getattr(self.task, _SOURCE[kind]) is not None

    def prompt(self, items: Items, problems: Sequence[str] = ()) -> Prompt:
        """Make the prompt for these findings, with only the texts that they are made from."""
        lines = ["Take the texts apart."]
        if set(items) & _LISTS:
            lines += ["Number the items of a list from 1; count is how many there are."]
        lines += ["- " + _PARTS[kind] for kind in items] + only_lines(items, self.items())
        user = data_block(self._document(items)) + "\n\n" + "\n".join(lines)
        shape = {kind.value: _SHAPES[kind] for kind in items}
        return Prompt(DECOMPOSING, user + correction(problems), "decomposition", shape)

    def read(self, items: Items, reply: str) -> Reading:
        """Read the claims of each sentence, the complete lists, and the stance of each text.

        Raises:
            ReplyError: The reply holds no JSON object.
        """
        return read_reply(items, reply, _contents)

    def content(self, kind: Finding, values: Mapping[str, Any]) -> Any:
        """Return the list or the stance; a blank text has fixed ones."""
        if kind is Finding.STANCE:
            return Stance(*(self._indistinct(name, values) for name in ("answer", "reference")))
        if kind in _CLAIMS:
            claims = [claim for key in self._keys(kind) for claim in values[key]]
            return tuple(dict.fromkeys(claims))
        if WHOLE in values:
            return values[WHOLE]
        return Questions((), noncommittal=True) if kind is Finding.QUESTIONS else ()

    def _keys(self, kind: Finding) -> tuple[str, ...]:
        if not self.possible(kind):
            return ()
        if kind is Finding.STANCE:
            return tuple(name for name in ("answer", "reference") if self._text(name).strip())
        text = self._text(_SOURCE[kind])
        if kind in _CLAIMS:
            return tuple(_numbered_sentences(text))
        return (WHOLE,) if text.strip() else ()

    def _indistinct(self, name: str, values: Mapping[str, Any]) -> bool:
        return bool(values.get(name, getattr(self.task, name) is not None))

    def _text(self, name: str) -> str:
        return getattr(self.task, name) or ""

    def _document(self, items: Items) -> dict[str, Any]:
        document: dict[str, Any] = (
            {"question": self.task.question} if _WITH_QUESTION & set(items) else {}
        )
        for kind, keys in items.items():
            for name in keys if kind is Finding.STANCE else (_SOURCE[kind],):
                text = self._text(name)
                in_claims = any(_SOURCE[one] == name for one in _CLAIMS & set(items))
                document[name] = _numbered_sentences(text) if in_claims else text
        return document


@lru_cache(maxsize=64)  # items, prompt and contents are all made by sentence
def _numbered_sentences(text: str) -> Mapping[str, str]:
    return numbered("", sentences(text)) if text.strip() else {}


def _contents(kind: Finding, group: Any, asked: tuple[str, ...]) -> Group:
    if kind is Finding.STANCE:
        return read_group(group, "id", asked, lambda row: parse(_StanceElement, row).indistinct)
    if kind in _CLAIMS:
        return read_group(group, "sentence", asked, _sentence_claims)
    return Group({WHOLE: _list(kind, group)})


def _sentence_claims(element: Any) -> list[str]:
    return [claim.strip() for claim in parse(_SentenceElement, element).claims]


def _list(kind: Finding, group: Any) -> tuple[str, ...] | Questions:
    if kind is not Finding.QUESTIONS:
        return parse(NumberedList, group).texts()
    parsed = parse(QuestionList, group)
    texts = parsed.texts()
    if len(texts) not in (0, QUESTION_COUNT):
        raise ReplyError(f"wants {QUESTION_COUNT} different questions, or none")
    return Questions(texts, parsed.noncommittal)
