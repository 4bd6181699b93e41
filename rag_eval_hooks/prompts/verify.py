"""Verification of claims, chunks and entities, with the contexts sent once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_eval_hooks.findings import ChunkRelevance, Finding, Support, Verdict
from rag_eval_hooks.prompts.prompt import (
    JUDGING,
    Items,
    Prompt,
    Reading,
    contexts_block,
    correction,
    data_block,
    numbered,
    only_lines,
)
from rag_eval_hooks.prompts.replies import Group, read_group, read_reply
from rag_eval_hooks.prompts.verdict_elements import (
    AGREEMENTS,
    KEYS,
    RELEVANCES,
    SHAPES,
    SUPPORTS,
    reader,
    shape,
)
from rag_eval_hooks.tasks import Verify

__all__ = ["VerifyAsk"]

_LISTS = {
    Finding.ANSWER_SUPPORT: "answer_claims",
    Finding.REFERENCE_SUPPORT: "reference_claims",
    Finding.ANSWER_AGREEMENT: "answer_claims",
    Finding.REFERENCE_AGREEMENT: "reference_claims",
    Finding.ENTITIES_FOUND: "entities",
    Finding.RELEVANCE: "chunks",
    Finding.RELEVANCE_TO_ANSWER: "chunks",
}
_AGAINST = {
    Finding.ANSWER_AGREEMENT: "reference",
    Finding.REFERENCE_AGREEMENT: "answer",
    Finding.RELEVANCE_TO_ANSWER: "answer",
}
_SUPPORT = (
    "the verdict on each claim by the chunks. Only if it is supported, chunks: the numbers of "
    "those that each state all of it; together: true if none does but several do jointly."
)
_PARTIAL_SUPPORT = (
    _SUPPORT + " partly: the numbers of chunks that state a part of a claim, of which the rest may "
    "stand in chunks not shown here."
)
_RELEVANCE = (
    "per chunk, the reason first; useful: it helps {purpose}; rating: how much, from 0 (not at "
    "all) to 100 (it suffices alone)."
)
_PARTS = {
    Finding.ANSWER_SUPPORT: _SUPPORT,
    Finding.REFERENCE_SUPPORT: _SUPPORT,
    Finding.ANSWER_AGREEMENT: "the verdict on each answer claim by the reference.",
    Finding.REFERENCE_AGREEMENT: "the verdict on each reference claim by the answer.",
    Finding.ENTITIES_FOUND: "per entity, found: a chunk names it, however spelled or formatted.",
    Finding.RELEVANCE: _RELEVANCE,
    Finding.RELEVANCE_TO_ANSWER: _RELEVANCE,
}


@dataclass(frozen=True, slots=True)
class VerifyAsk:
    """`Verify` task as questions to a language model.

    Items are `a1`... for answer claims, `r1`... for reference claims, `e1`... for entities and
    plain numbers for chunks, each counted from 1.

    Attributes:
        task: The task.
        shown: Numbers of the chunks to show; all by default. They keep their numbers.
        partial_view: Whether further chunks are shown elsewhere: then the judge also says which
            chunks state a part of a claim.
    """

    task: Verify
    shown: tuple[int, ...] | None = None
    partial_view: bool = False

    def items(self) -> Items:
        """Return the wanted verdicts, in a fixed order; agreements need their other text."""
        possible = [k for k in SHAPES if k in self.task.wanted and self.possible(k)]
        every = {kind: tuple(self._texts(kind)) for kind in possible}
        return {kind: keys for kind, keys in every.items() if keys}

    def possible(self, kind: Finding) -> bool:
        """Return whether the task has the text that the verdicts are about."""
        return kind not in _AGAINST or getattr(self.task, _AGAINST[kind]) is not None

    def prompt(self, items: Items, problems: Sequence[str] = ()) -> Prompt:
        """Make the prompt for these items; up to the end of the chunks, it is equal for all.

        Args:
            items: Agreements alone, which are shown no chunk, or no agreement.
            problems: Problems of the last reply.
        """
        document = self._document(items)
        contexts = ""
        if set(items) <= AGREEMENTS:
            lines = [data_block({"question": self.task.question} | document), ""]
            lines += ["Judge these claims."]
        else:
            contexts = contexts_block(self.task.question, self._chunks())
            lines = [contexts, "", "Judge these items by the chunks above."]
            lines += [data_block(document)] if document else []
        lines += self._instructions(items) + only_lines(items, self.items())
        wanted = {kind.value: [shape(kind, self.partial_view)] for kind in items}
        user = "\n".join(lines) + correction(problems)
        return Prompt(JUDGING, user, "verdicts", wanted, len(contexts))

    def read(self, items: Items, reply: str) -> Reading:
        """Read the verdicts that fit, by item.

        Raises:
            ReplyError: The reply holds no JSON object.
        """

        def read_one(kind: Finding, group: Any, asked: tuple[str, ...]) -> Group:
            read = reader(kind, self._quotable(kind), self.partial_view)
            return read_group(group, KEYS[kind], asked, read)

        return read_reply(items, reply, read_one)

    def content(
        self, kind: Finding, values: Mapping[str, Any]
    ) -> tuple[Support | Verdict | ChunkRelevance, ...]:
        """Return one verdict per item, in order."""
        verdicts = [values[key] for key in self._texts(kind)]
        if kind not in SUPPORTS:
            return tuple(verdicts)
        return tuple(sorting.support(len(self.task.chunks)) for sorting in verdicts)

    def _chunks(self) -> dict[str, str]:
        """Return the chunks to show, by number."""
        every = numbered("", self.task.chunks)
        return {n: every[n] for n in (every if self.shown is None else map(str, self.shown))}

    def _quotable(self, kind: Finding) -> dict[int, str]:
        """Return the texts that a verdict may quote, by number."""
        if kind in AGREEMENTS:
            return {1: getattr(self.task, _AGAINST[kind])}
        return {int(number): text for number, text in self._chunks().items()}

    def _texts(self, kind: Finding) -> dict[str, str]:
        """Return the subjects of the verdicts of a finding, by id or number."""
        name = _LISTS[kind]
        return self._chunks() if name == "chunks" else numbered(name[0], getattr(self.task, name))

    def _document(self, items: Items) -> dict[str, Any]:
        """Return the texts that these items need, without the chunks."""
        needed = {_AGAINST[kind] for kind in items if kind in _AGAINST}
        needed |= {self._target() or ""} if Finding.RELEVANCE in items else set()
        document: dict[str, Any] = {
            name: getattr(self.task, name) for name in ("answer", "reference") if name in needed
        }
        for kind, keys in items.items():
            if kind not in RELEVANCES:
                shown = {key: text for key, text in self._texts(kind).items() if key in keys}
                document[_LISTS[kind]] = document.get(_LISTS[kind], {}) | shown
        return document

    def _target(self) -> str | None:
        """Return the purpose that a chunk has to serve."""
        given = (name for name in ("reference", "answer") if getattr(self.task, name) is not None)
        return next(given, None)

    def _instructions(self, items: Items) -> list[str]:
        """Make one line per finding; the two supports share one."""
        names: dict[str, list[str]] = {}
        for kind in items:
            names.setdefault(self._instruction(kind), []).append(kind.value)
        return [f"- {', '.join(kinds)}: {text}" for text, kinds in names.items()]

    def _instruction(self, kind: Finding) -> str:
        if kind in SUPPORTS and self.partial_view:
            return _PARTIAL_SUPPORT
        target = "answer" if kind is Finding.RELEVANCE_TO_ANSWER else self._target()
        purpose = f"to arrive at the {target}" if target else "to answer the question"
        return _PARTS[kind].replace("{purpose}", purpose)
