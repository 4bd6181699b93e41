"""Distinguishes retrieved texts from texts that a model or the user wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from rag_eval_hooks.capture.passages import MIN_RUNS, Passage, by_list, distinct
from rag_eval_hooks.capture.records import Interaction, Origin, Run, RunKind
from rag_eval_hooks.capture.rows import texts_in
from rag_eval_hooks.capture.text_forms import fold, is_distinctive, runs_of, words
from rag_eval_hooks.capture.tool_kinds import ToolKind, reports_nothing, tool_kind
from rag_eval_hooks.text.folding import FUNCTION_WORDS, content_tokens
from rag_eval_hooks.text.refusals import refusal

_STOP: Final = frozenset[str]().union(*FUNCTION_WORDS.values())
_RECEIPT: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{12,}|\b[0-9a-fA-F]{16,}\b|(?<!\w)/[\w./-]+"
    r"|\d{4}-\d\d-\d\d[T\d:.+Z-]*"
)
_RECEIPT_WORDS: Final = 4
_WRITTEN: Final = (Origin.TEXT, Origin.STEP, Origin.EARLIER)


def content_words(text: str) -> set[str]:
    return set(content_tokens(text)) - _STOP


class Provenance:
    def __init__(
        self, interaction: Interaction, answer: str, question: str, documents: Sequence[Passage]
    ) -> None:
        self._interaction = interaction
        self._answer = answer
        self._question = question
        self._documents = documents
        models = interaction.models
        self._replies = [(run, fold(run.text)) for run in models if run.text]
        self._arguments = [
            (run, fold(text))
            for run in models
            for arguments in run.tool_arguments
            for text in texts_in(arguments)
        ]
        self._prompts: dict[Run, str] = {}

    def tool_texts(self) -> tuple[list[Passage], list[Passage]]:
        sure: list[Passage] = []
        unsure: list[Passage] = []
        for p in self._found(Origin.TEXT):
            if p.found.named is False:
                continue
            run = p.found.run
            is_tool = run.kind is RunKind.TOOL
            kind = tool_kind(run.name, run.description) if is_tool else ToolKind.LOOKUP
            if p.found.named or (kind is ToolKind.LOOKUP and not _is_empty(p)):
                sure.append(p)
            elif kind is ToolKind.UNKNOWN and not _is_empty(p):
                unsure.append(p)
        return sure, unsure

    def step_texts(self, origin: Origin) -> list[Passage]:
        return [p for p in self._found(origin) if not self._was_asked(p)]

    def is_no_prompt(self, p: Passage) -> bool:
        return not self._was_asked(p) and not self._wrote(p)

    def _was_asked(self, p: Passage) -> bool:
        """Return whether a text is a query, a prompt or a user's text, or was masked by a step."""
        is_alone = len(p.found.contexts) == 1
        question = fold(self._question)
        masked = set[str]().union(*self._interaction.rewritten.values())
        return (
            p.folded in self._queries
            or (is_alone and p.folded in self._lone_prompts)
            or any(p.folded in text for text in self._input)
            or (is_distinctive(question) and question in p.folded)
            or any(one in p.context.text for one in masked)
        )

    @cached_property
    def _queries(self) -> set[str]:
        lists = self._interaction.lists_of(Origin.TEXT)
        # Older graphs pass a tool's result through a step. The result is still the tool's.
        texts = {fold(context.text) for found in lists for context in found.contexts}
        return texts | {fold(run.query) for run in self._interaction.runs if run.query}

    @cached_property
    def _input(self) -> list[str]:
        return [fold(text) for text in self._interaction.asked]

    @cached_property
    def _lone_prompts(self) -> set[str]:
        return {fold(run.prompt[0]) for run in self._interaction.runs if len(run.prompt) == 1}

    def _found(self, origin: Origin) -> list[Passage]:
        return [
            p
            for p in distinct(self._interaction.lists_of(origin))
            if p.is_distinctive and not self._wrote(p) and not self._is_made_of_others(p)
        ]

    def _wrote(self, p: Passage) -> bool:
        is_step = p.found.run.kind is not RunKind.TOOL
        said = {text for _, text in self._said_before(p, with_arguments=is_step)}
        if any(p.folded in text for text in said):
            return True
        # A step may split a reply and join the parts again.
        shared = set[str]().union(*(p.runs & runs_of(text) for text in said))
        return bool(p.runs) and 2 * len(shared) >= len(p.runs)

    def _is_made_of_others(self, p: Passage) -> bool:
        """Return whether a text contains a document, or joins texts of several other steps."""
        held = [one for one in self._documents if one.folded and one.folded in p.folded]
        length = sum(len(one.folded) for one in held)
        if any(one.is_distinctive for one in held) or 2 * length > len(p.folded):
            return True
        if len(p.found.contexts) > 1:
            return False
        others = (one for one in self._written if one.found is not p.found)
        parts = {one.folded for one in others if one.folded in p.folded} - {p.folded}
        lengths = sorted(map(len, parts))
        # A gap as long as the shortest part may be an unseen text.
        return len(lengths) > 1 and len(p.folded) - sum(lengths) < lengths[0]

    @cached_property
    def _written(self) -> list[Passage]:
        lists = [found for found in self._interaction.lists if found.origin in _WRITTEN]
        return [p for p in distinct(lists) if p.is_distinctive]

    def _said_before(self, p: Passage, *, with_arguments: bool = True) -> Iterator[tuple[Run, str]]:
        """Yield model texts older than a passage, and those from inside the passage's run."""
        run = p.found.run
        for model, text in (*self._replies, *(self._arguments if with_arguments else ())):
            if model.end is None or (run.end is not None and model.end > run.end):
                continue
            if run.kind is not RunKind.TOOL and run in model.ancestors():
                if model not in self._prompts:
                    self._prompts[model] = " ".join(map(fold, model.prompt))
                if p.folded in self._prompts[model]:
                    continue
            yield model, text

    def used(self, passages: Sequence[Passage], surer: Sequence[Passage]) -> list[Passage]:
        """Return the passages that state facts of the answer which no surer passage states."""
        if not passages or refusal(self._answer):
            return []
        known = set[str]().union(*(content_words(p.context.text) for p in surer))
        new = content_words(self._answer) - known
        runs = runs_of(fold(self._answer)).difference(*(p.runs for p in surer))
        lists = by_list(passages)
        return [p for one in lists if self._are_used(one, new, runs) for p in one]

    def _are_used(self, passages: Sequence[Passage], new: set[str], runs: set[str]) -> bool:
        own = set[str]().union(*(content_words(p.context.text) for p in passages))
        for _, text in self._said_before(passages[0]):
            own -= content_words(text)
        if any(_is_most(said & own, said) for said in (new, new - content_words(self._question))):
            return True
        listed = set[str]().union(*(p.runs for p in passages))
        return bool(own) and len(runs & listed) >= min(MIN_RUNS, len(listed)) > 0


def _is_empty(p: Passage) -> bool:
    arguments = content_words(p.found.run.query or "")
    if arguments.issuperset(content_words(p.context.text)):
        return True
    rest, names = _RECEIPT.subn(" ", p.context.text)
    if names and len(words(rest)) <= _RECEIPT_WORDS:
        return True
    return reports_nothing(set(words(p.folded)), arguments | _STOP, p.context.text)


def _is_most(found: set[str], said: set[str]) -> bool:
    return bool(found) and 2 * len(found) >= len(said) and (len(found) > 1 or found == said)
