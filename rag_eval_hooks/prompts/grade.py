"""Grades by two templates for each finding, as in NVIDIA's RAG metrics: one bare rating each.

The scales are those of the metrics' definition; both templates of each are our own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rag_eval_hooks.findings import Finding, Pair
from rag_eval_hooks.prompts.prompt import (
    JUDGING,
    SYSTEM,
    Items,
    Prompt,
    Reading,
    ReplyError,
    contexts_block,
    correction,
    data_block,
    numbered,
)
from rag_eval_hooks.prompts.replies import Group, number_of, read_reply
from rag_eval_hooks.prompts.shape import one_of
from rag_eval_hooks.tasks import Grade

__all__ = ["TEMPLATES", "WITHOUT_CHUNKS", "GradeAsk"]

TEMPLATES: Final = ("1", "2")
"""Keys of the two templates: the items of each grade."""

_STEPS = {
    Finding.ACCURACY_RATINGS: (0, 2, 4),
    Finding.CONTEXT_RATINGS: (0, 1, 2),
    Finding.GROUNDEDNESS_RATINGS: (0, 1, 2),
}
_NEEDS = {
    Finding.ACCURACY_RATINGS: ("answer", "reference"),
    Finding.CONTEXT_RATINGS: ("chunks",),
    Finding.GROUNDEDNESS_RATINGS: ("chunks", "answer"),
}
WITHOUT_CHUNKS: Final = frozenset(k for k, names in _NEEDS.items() if "chunks" not in names)
"""Grades that are not about the contexts."""
_WORDING = {
    Finding.ACCURACY_RATINGS: (
        "the candidate held against the standard, both being replies to the question: 4 they "
        "say the same about what is asked; 2 the candidate agrees in part; 0 it is wrong, or "
        "about something else.",
        "taking the standard for true, how much of it the candidate gets right: 4 all of it, "
        "and nothing wrong beside; 2 some of it, or all with errors beside; 0 nothing that the "
        "question asks for.",
    ),
    Finding.CONTEXT_RATINGS: (
        "what an answer to the question needs, and how much of it the chunks hold, taken "
        "together: 2 all; 1 a part; 0 nothing.",
        "a reader who knows the chunks and nothing else gets the question: 2 they can reply in "
        "full; 1 only in part; 0 not at all.",
    ),
    Finding.GROUNDEDNESS_RATINGS: (
        "the answer's statements held against the chunks: 2 each is stated there, or follows; "
        "1 some are; 0 none is.",
        "look for statements of the answer that no chunk backs: 2 there is none; 1 there are "
        "some, beside backed ones; 0 nothing is backed.",
    ),
}


@dataclass(frozen=True, slots=True)
class GradeAsk:
    """`Grade` task as questions to a language model.

    Each grade has two items, one for each template. A prompt is for one template: give `prompt`
    and `read` items of one template only, of one grade or of several.
    """

    task: Grade

    def items(self) -> Items:
        """Return the wanted grades that have their texts; without chunks, none that needs them."""
        asked = [kind for kind in _WORDING if kind in self.task.wanted and self.possible(kind)]
        return {kind: TEMPLATES for kind in asked if not self._on_nothing(kind)}

    def possible(self, kind: Finding) -> bool:
        """Return whether the task has the texts that the grade is about."""
        return all(getattr(self.task, name) is not None for name in _NEEDS[kind])

    def prompt(self, items: Items, problems: Sequence[str] = ()) -> Prompt:
        """Make the prompt for these grades by one template.

        The second template has answer and reference in each other's places. Both stand under
        neutral names, so that neither place tells where a text came from.
        """
        (template,) = {key for keys in items.values() for key in keys}
        document = self._document(items, swapped=template == TEMPLATES[1])
        contexts = ""
        if any("chunks" in _NEEDS[kind] for kind in items):
            contexts = contexts_block(self.task.question, numbered("", self.task.chunks))
            lines = [contexts, ""] + ([data_block(document)] if document else [])
        else:
            lines = [data_block({"question": self.task.question} | document), ""]
        lines += ["Rate by these scales, with no value between."]
        lines += [f"- {kind.value}: {_WORDING[kind][int(template) - 1]}" for kind in items]
        shape = {kind.value: one_of(*_STEPS[kind]) for kind in items}
        user = "\n".join(lines) + correction(problems)
        return Prompt(JUDGING if contexts else SYSTEM, user, "grades", shape, len(contexts))

    def read(self, items: Items, reply: str) -> Reading:
        """Read the ratings that are in their sets; no other is taken or rounded.

        Raises:
            ReplyError: The reply holds no JSON object.
        """
        return read_reply(items, reply, _rating)

    def content(self, kind: Finding, values: Mapping[str, Any]) -> Pair:
        """Return the ratings by both templates; without chunks, the lowest step."""
        first, second = (0, 0) if self._on_nothing(kind) else map(values.get, TEMPLATES)
        return first, second

    def _on_nothing(self, kind: Finding) -> bool:
        return "chunks" in _NEEDS[kind] and not self.task.chunks

    def _document(self, items: Items, *, swapped: bool) -> dict[str, str]:
        texts = (self.task.answer or "", self.task.reference or "")
        document: dict[str, str] = {}
        if Finding.GROUNDEDNESS_RATINGS in items:
            document["answer"] = texts[0]
        if Finding.ACCURACY_RATINGS in items:
            document |= zip(
                ("candidate", "standard"), reversed(texts) if swapped else texts, strict=True
            )
        return document


def _rating(kind: Finding, group: Any, asked: tuple[str, ...]) -> Group:
    rating = number_of(group)
    if type(rating) is not int or rating not in _STEPS[kind]:
        raise ReplyError(f"wants one of {_STEPS[kind]}, as a number")
    return Group(dict.fromkeys(asked, rating))
