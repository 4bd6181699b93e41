"""Tells texts that a tool or step found from texts that a model or the user wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from rag_eval_hooks.capture.passages import MIN_RUNS, Passage, by_list, distinct
from rag_eval_hooks.capture.records import DocumentList, Interaction, Origin, Run, RunKind
from rag_eval_hooks.capture.replies import texts_in
from rag_eval_hooks.capture.text_forms import fold, is_distinctive, runs_of, width, words
from rag_eval_hooks.capture.tool_kinds import ToolKind, acknowledges, reports_nothing, tool_kind
from rag_eval_hooks.text.folding import content_tokens
from rag_eval_hooks.text.languages import FUNCTION_WORDS

__all__ = ["NewFacts", "Provenance", "content_words"]

_STOP: Final = frozenset[str]().union(*FUNCTION_WORDS.values())
_MARKER: Final = re.compile(r"\[\d+\]")
"""Number of a source."""
_RECEIPT: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{12,}|\b[0-9a-fA-F]{16,}\b|(?<!\w)/[\w./-]+"
    r"|\d{4}-\d\d-\d\d[T\d:.+Z-]*"
)
"""Ids, paths and dates."""
_RECEIPT_WORDS: Final = 4
_LABEL: Final = re.compile(r"[\w.:/#?&=%+-]+", re.ASCII)
_TURNS: Final = [
    re.compile(rf"^[^\S\n]*(?:{names})[^\S\n]*[:\uff1a]", re.IGNORECASE | re.MULTILINE)
    for names in (
        "human|user|customer|nutzer|benutzer|usuario|utilisateur|用户|ユーザー|사용자",
        "ai|assistant|bot|agent|assistent|asistente|助手|アシスタント|어시스턴트",
    )
]
"""Labels of both sides of a conversation."""
_MIN_REPLY: Final = 3
_WRITTEN: Final = (Origin.TEXT, Origin.STEP, Origin.EARLIER)


def content_words(text: str) -> set[str]:
    """Return the words and numbers of a text that are no function words."""
    return set(content_tokens(text)) - _STOP


class Provenance:
    """Who wrote the texts of an interaction.

    Args:
        interaction: An ended one.
        question: The user's question, folded.
        documents: Passages that were surely retrieved.
    """

    def __init__(
        self, interaction: Interaction, question: str, documents: Sequence[Passage]
    ) -> None:
        self._interaction = interaction
        self._runs = interaction.runs
        self._question = question
        self._documents = documents
        models = [run for run in self._runs if run.kind is RunKind.MODEL]
        self._replies = [(run, fold(run.text)) for run in models if run.text]
        self._arguments = [
            (run, fold(text))
            for run in models
            for arguments in run.tool_arguments
            for text in texts_in(arguments)
        ]
        self._runs_of: dict[str, set[str]] = {}
        self._prompts: dict[Run, str] = {}

    def tool_texts(self) -> tuple[list[Passage], list[Passage]]:
        """Return the texts of tools that count, and those that count if the answer uses them."""
        sure: list[Passage] = []
        unsure: list[Passage] = []
        for p in self._found(self._interaction.lists_of(Origin.TEXT)):
            run = p.found.run
            kind = tool_kind(run.name, run.description) if run.kind is RunKind.TOOL else None
            if p.found.named or (kind in (None, ToolKind.LOOKUP) and not _is_empty(p)):
                sure.append(p)
            elif kind is ToolKind.UNKNOWN and not _is_empty(p):
                unsure.append(p)
        return sure, unsure

    def step_texts(self, origin: Origin, *, beside: bool) -> list[Passage]:
        """Return the texts of steps that neither a model nor the user wrote.

        Args:
            origin: STEP or EARLIER.
            beside: Whether something was retrieved: there labeled turns of a conversation and
                texts without a space do not count.
        """
        lists = self._interaction.lists_of(origin)
        if not lists or not self._explains(self._interaction.root.text):
            return []
        return [p for p in self._found(lists) if self._is_a_find(p, beside=beside)]

    def is_no_prompt(self, p: Passage) -> bool:
        """Return whether a step's text is neither a prompt, a query, nor what a model wrote."""
        return self._is_a_find(p, beside=False) and not self._wrote(p)

    def _is_a_find(self, p: Passage, *, beside: bool) -> bool:
        is_alone = len(p.found.contexts) == 1
        text = p.context.text
        return not (
            p.folded in self._queries
            or (is_alone and p.folded in self._lone_prompts)
            or any(p.folded in one for one in self._input)
            or (is_distinctive(self._question) and self._question in p.folded)
            or any(one and one in text for one in self._masked)
            or (beside and _LABEL.fullmatch(p.folded))
            or (beside and all(turn.search(text) for turn in _TURNS))
        )

    @cached_property
    def _queries(self) -> set[str]:
        lists = self._interaction.lists_of(Origin.TEXT)
        # Older graphs hand what a tool gave through steps of their own: it counts as the tool's.
        texts = {fold(context.text) for found in lists for context in found.contexts}
        return texts | {fold(run.query) for run in self._runs if run.query}

    @cached_property
    def _lone_prompts(self) -> set[str]:
        return {fold(run.prompt[0]) for run in self._runs if len(run.prompt) == 1}

    @cached_property
    def _input(self) -> list[str]:
        return [fold(text) for text in self._interaction.asked]

    @property
    def _masked(self) -> set[str]:
        return set[str]().union(*self._interaction.rewritten.values())

    def _found(self, lists: Sequence[DocumentList]) -> list[Passage]:
        """Return the texts that no model wrote and that are not made of other texts."""
        return [
            p
            for p in distinct(lists)
            if p.is_distinctive and not self._wrote(p) and not self._is_made_of_others(p)
        ]

    def _wrote(self, p: Passage) -> bool:
        """Return whether at least half of a text is what models said before."""
        said = [text for model, text in self._replies if self._is_before(model, p)]
        if p.found.run.kind is not RunKind.TOOL:
            said += [text for model, text in self._arguments if self._is_before(model, p)]
        if not said:
            return False
        if any(p.folded in text for text in said):
            return True
        held = sorted({t for t in said if len(t) >= _MIN_REPLY and t in p.folded}, key=len)
        rest = p.folded
        for text in reversed(held):
            rest = rest.replace(text, " ")
        if 2 * width(" ".join(rest.split())) <= width(p.folded):
            return True
        shared = set().union(*(self._runs_in(text) & p.runs for text in said))
        return bool(p.runs) and 2 * len(shared) >= len(p.runs)

    def _runs_in(self, text: str) -> set[str]:
        if text not in self._runs_of:
            self._runs_of[text] = runs_of(text)
        return self._runs_of[text]

    def _is_made_of_others(self, p: Passage) -> bool:
        """Return whether a text holds a document, or joins two texts or more of other steps."""
        held = [one for one in self._documents if one.folded and one.folded in p.folded]
        if p.found.named:
            held = [
                one for one in held if p.found.run in (one.found.run, *one.found.run.ancestors())
            ]
        length = sum(len(one.folded) for one in held)
        if any(one.is_distinctive for one in held) or 2 * length > len(p.folded):
            return True
        if len(p.found.contexts) > 1:
            return False
        others = {
            one.folded
            for one in self._written
            if one.found is not p.found and one.folded in p.folded
        }
        parts = sorted(map(len, others - {p.folded}))
        # A gap as long as the shortest part may be a text that was not seen.
        return len(parts) > 1 and len(p.folded) - sum(parts) < parts[0]

    @cached_property
    def _written(self) -> list[Passage]:
        lists = [found for found in self._interaction.lists if found.origin in _WRITTEN]
        return [p for p in distinct(lists) if p.is_distinctive]

    def words_said_before(self, p: Passage) -> set[str]:
        """Return the words that models said, or gave as arguments, before a text."""
        said = (*self._replies, *self._arguments)
        texts = [text for model, text in said if self._is_before(model, p)]
        return {word for text in texts for word in content_words(text)}

    def _is_before(self, model: Run, p: Passage) -> bool:
        """Return whether a model had spoken when a text was found, inside of its run or before.

        A text that a step was given is older than the models in that step, which were shown it.
        """
        run = p.found.run
        if model.end is None or (run.end is not None and model.end > run.end):
            return False
        if run.kind is RunKind.TOOL or run not in model.ancestors():
            return True
        if model not in self._prompts:
            self._prompts[model] = " ".join(map(fold, model.prompt))
        return p.folded not in self._prompts[model]

    def _explains(self, answer: str | None) -> bool:
        """Return whether at least half of the words of an answer are those of models seen."""
        own = set(words(fold(answer or "")))
        said = {w for _, text in (*self._replies, *self._arguments) for w in words(text)}
        return not own or not said or 2 * len(own & said) >= len(own)


def _is_empty(p: Passage) -> bool:
    """Return whether a tool's text holds only ids and times, or says that it found nothing."""
    arguments = content_words(p.found.run.query or "")
    said = content_words(p.context.text)
    if arguments and all(word in arguments or acknowledges(word) for word in said):
        return True
    rest, names = _RECEIPT.subn(" ", p.context.text)
    if names and len(words(rest)) <= _RECEIPT_WORDS:
        return True
    return reports_nothing(set(words(p.folded)), arguments | _STOP, p.context.text)


class NewFacts:
    """Words, numbers and runs of words of an answer that no surer text has.

    Args:
        answer: What the user got.
        question: Its numbers are no facts, nor need its words be.
        surer: Texts of a surer origin.
    """

    def __init__(self, answer: str, question: str, surer: Sequence[Passage]) -> None:
        answer = _MARKER.sub(" ", answer)
        known = {word for p in surer for word in _words_with_metadata(p)}
        said = content_words(answer) - known
        new = said - content_words(question)
        self._words = [said, new]
        self._numbers = {w for w in new if len(w) > 1 and any(map(str.isdigit, w))}
        self._runs = runs_of(fold(answer)).difference(*(p.runs for p in surer))

    def used(self, passages: Sequence[Passage], provenance: Provenance) -> list[Passage]:
        """Return the passages of the lists from which the answer takes its new facts."""
        if not passages or not (self._words[0] or self._runs):
            return []
        lists = by_list(passages)
        return [p for one in lists if self._is_in(one, provenance) for p in one]

    def _is_in(self, passages: Sequence[Passage], provenance: Provenance) -> bool:
        own = {word for p in passages for word in content_words(p.context.text)}
        own -= provenance.words_said_before(passages[0])
        if any(_is_most(said & own, said) for said in self._words):
            return True
        if self._numbers and 2 * len(self._numbers & own) >= len(self._numbers):
            return True
        runs = set().union(*(p.runs for p in passages))
        taken = self._runs & runs
        return bool(taken) and bool(own) and len(taken) >= min(MIN_RUNS, len(runs))


def _is_most(found: set[str], said: set[str]) -> bool:
    """Return whether half of the words were found: one alone may be a turn of phrase."""
    return bool(found) and 2 * len(found) >= len(said) and (len(found) > 1 or found == said)


def _words_with_metadata(p: Passage) -> Iterator[str]:
    yield from content_words(p.context.text)
    for key, value in p.context.metadata.items():
        yield from content_words(f"{key} {value}")
