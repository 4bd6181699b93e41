"""Finds the contexts of an answer: the retrieved texts that the answering model saw.

See "How contexts are found" in docs/capture-reference.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from rag_eval_hooks.capture.answering import AnsweringCalls, question_of
from rag_eval_hooks.capture.passages import (
    DOCUMENT_ORIGINS,
    Passage,
    Placed,
    Prompts,
    by_list,
    distinct,
)
from rag_eval_hooks.capture.provenance import Provenance
from rag_eval_hooks.capture.records import DocumentList, Interaction, Origin, RunKind
from rag_eval_hooks.capture.text_forms import fold, prose_around, width
from rag_eval_hooks.sample import Context


class ContextSource(StrEnum):
    RECORDED = "recorded"
    """The application recorded the contexts."""
    CHOSEN = "chosen"
    """A capture option of the application selected the contexts."""
    PROMPT = "prompt"
    """The prompts of the answering calls contain all contexts."""
    SHINGLES = "shingles"
    """For some contexts, a prompt contains only word sequences that no other context contains."""
    STRUCTURE = "structure"
    """The answer names the contexts as its sources."""
    LAST_LIST = "last_list"
    """No prompt contains a candidate, so the contexts are the last step's documents."""
    STEP = "step"
    """A step or tool returned some of the contexts. The step may not be a retrieval."""
    EARLIER_TURN = "earlier_turn"
    """A prompt contains texts of an earlier turn."""


class Found(NamedTuple):
    contexts: tuple[Context, ...] | None  # None if no retrieval ran
    source: ContextSource | None


def find_contexts(interaction: Interaction, answer: str | None) -> Found:
    if chosen := interaction.lists_of(Origin.CHOSEN):
        return Found(_union(chosen[-1:]), ContextSource.CHOSEN)
    stated = interaction.lists_of(Origin.STATED)
    if stated and interaction.root.kind is RunKind.MANUAL:
        return Found(_union(stated), ContextSource.RECORDED)
    found: Found = interaction.found or _Search(interaction, answer or "").found()
    return found


def has_retrieved(interaction: Interaction, answer: str | None) -> bool:
    search = _Search(interaction, answer or "")
    if search.has_retrieved():
        return True
    # The texts that only other calls saw, such as a router's choices, are no contexts.
    interaction.found = search.found()
    return interaction.found.source not in (None, ContextSource.LAST_LIST)


class _Search:
    def __init__(self, interaction: Interaction, answer: str) -> None:
        self._interaction = interaction
        self._answer = answer
        self._question = question_of(interaction)[0]
        self._lists = [f for f in interaction.lists if f.origin in DOCUMENT_ORIGINS]
        self._documents = distinct(self._lists)
        self._texts = Provenance(interaction, answer, self._question, self._documents)
        # whether the retriever returned no documents
        found_none = any(f.origin is Origin.DOCUMENTS for f in self._lists)
        self._is_empty = found_none and not self._documents

    def has_retrieved(self) -> bool:
        return any(found.origin is not Origin.GIVEN for found in self._lists) or bool(self._tools)

    @cached_property
    def _tool_texts(self) -> tuple[list[Passage], list[Passage]]:
        texts = list(self._texts.tool_texts())
        sure = [p for p, is_search in texts if is_search]
        return sure, [p for p, is_search in texts if not is_search]

    @cached_property
    def _tools(self) -> list[Passage]:
        sure, unsure = self._tool_texts
        return [*sure, *self._texts.used(unsure, sure)]

    def _ranks(self) -> Iterator[Sequence[Passage]]:
        yield self._documents
        yield self._tools
        yield self._guesses(Origin.STEP)
        yield self._guesses(Origin.EARLIER)

    def found(self) -> Found:
        retrieved = [p.folded for p in (*self._documents, *self._tools)]
        self._calls = AnsweringCalls(self._interaction, self._answer, retrieved)
        prompts = self._prompts_of(self._calls.fresh_prompts())
        for rank, passages in enumerate(self._ranks()):
            placed = passages and prompts.place(self._with_wider_texts(prompts, passages))
            if placed:
                return self._add_lower_rank(prompts, rank, passages, self._without_rejected(placed))
        return self._by_structure(prompts)

    def _prompts_of(self, texts: Sequence[str]) -> Prompts:
        runs = self._interaction.runs
        queries = {fold(r.query) for r in runs if r.kind is RunKind.RETRIEVER and r.query}
        return Prompts(texts, fold(self._interaction.root.query or ""), queries)

    def _with_wider_texts(self, prompts: Prompts, passages: Sequence[Passage]) -> list[Passage]:
        wider = [
            p
            for p in distinct(self._interaction.lists_of(Origin.STEP))
            if p.is_distinctive
            and any(p.folded in prompt for prompt in prompts.texts)
            and _has_prose_around(p, passages)
            and self._texts.is_no_prompt(p)
        ]
        return [*passages, *wider]

    def _without_rejected(self, placed: Placed) -> Placed:
        lists = [f for f in self._lists if f.origin is Origin.DOCUMENTS and f.contexts]
        if not lists or lists[-1].run.kind is not RunKind.CHAIN:
            return placed
        *earlier, kept = [{fold(context.text) for context in found.contexts} for found in lists]
        if not kept <= {p.folded for p, place in placed.items() if place.prompt == 0}:
            return placed
        rejected = set[str]().union(*(texts for texts in earlier if texts & kept)) - kept
        return {p: at for p, at in placed.items() if not (at.prompt and p.folded in rejected)}

    def _add_lower_rank(
        self, prompts: Prompts, rank: int, passages: Sequence[Passage], placed: Placed
    ) -> Found:
        tools = list(chain.from_iterable(self._tool_texts))
        lower_ranks = (tools, self._texts.step_texts(Origin.STEP), self._earlier_texts())
        lower: list[Passage] = []
        # A list that is no likely guess may add facts to the lists that are.
        for texts in lower_ranks[rank - (rank > 1) :]:
            lower += self._texts.used(texts, [*passages, *lower])
        if any(p.found.origin is Origin.EARLIER for p in lower):
            prompts = self._prompts_of(self._calls.prompts)
        both = prompts.place(self._with_wider_texts(prompts, [*lower, *passages])) if lower else {}
        placed = both if any(p in both for p in lower) else placed
        source = self._source(placed, placed if rank > 1 else lower)
        return Found(self._with_sources(tuple(at.context for at in placed.values())), source)

    def _source(self, placed: Placed, guesses: Iterable[Passage]) -> ContextSource:
        origins = {p.found.origin for p in guesses if p in placed}
        if Origin.EARLIER in origins:
            return ContextSource.EARLIER_TURN
        is_unsure = any(p in placed for p in self._tool_texts[1])
        if self._is_empty or is_unsure or Origin.STEP in origins:
            return ContextSource.STEP
        is_whole = all(place.whole for place in placed.values())
        return ContextSource.PROMPT if is_whole else ContextSource.SHINGLES

    def _earlier_texts(self) -> list[Passage]:
        turns = []
        for run in self._calls.calls:
            if replies := run.earlier:
                shown = run.prompt[max(0, min(replies) - 1) : max(replies) + 1]
                turns.append(DocumentList(run, tuple(map(Context.of, shown)), Origin.EARLIER))
        conversation = [p for p in distinct(turns) if p.is_distinctive]
        return [*self._texts.step_texts(Origin.EARLIER), *conversation]

    def _with_sources(self, seen: tuple[Context, ...]) -> tuple[Context, ...]:
        sources = distinct(f for f in self._lists if f.origin is Origin.SOURCES)
        if not sources:
            return seen
        left = {fold(context.text): context for context in seen}
        missing = [p for p in sources if not any(text in left for _, text in p.forms)]
        added = {p: p.context for p in missing if not p.is_distinctive}
        added |= {p: at.context for p, at in Prompts(self._calls.others).place(missing).items()}
        if not added:
            return seen
        named = (
            added.get(p) or next((left.pop(text) for _, text in p.forms if text in left), None)
            for p in sources
        )
        listed = list(filter(None, named))
        return (*left.values(), *listed)

    def _guesses(self, origin: Origin) -> list[Passage]:
        passages = self._texts.step_texts(origin)
        likely = () if self._is_empty else self._texts.likely(passages)
        kept = {*self._texts.used(passages, ()), *likely}
        return [p for p in passages if p in kept]

    def _by_structure(self, prompts: Prompts) -> Found:
        if stated := self._interaction.lists_of(Origin.STATED):
            return Found(_union(stated), ContextSource.RECORDED)
        if sources := self._interaction.lists_of(Origin.SOURCES):
            root = [found for found in sources if found.run.parent is None]
            return Found(_union(root or sources), ContextSource.STRUCTURE)
        if prompts.texts and self._only_others_show_texts(prompts):
            return Found((), ContextSource.PROMPT)
        listed = self._last_list(prompts)
        return Found(listed, None if listed is None else ContextSource.LAST_LIST)

    def _only_others_show_texts(self, prompts: Prompts) -> bool:
        passages = [*self._documents, *self._tools]
        if self._interaction.left_out or not all(p.is_distinctive for p in passages):
            return False
        seen = any(p.folded in text for p in passages for text in self._calls.others)
        # Short or parsed replies may have carried facts from the texts to the answer.
        is_used = bool(self._texts.used(passages, ()))
        return seen and not is_used and not prompts.show_run_of(passages)

    def _last_list(self, prompts: Prompts) -> tuple[Context, ...] | None:
        lists = [f for f in self._lists if f.origin is Origin.DOCUMENTS]
        # Use the input's documents last, because they may come from an earlier turn.
        lists = lists or ([] if prompts.texts else self._lists)
        lists = lists or [passages[0].found for passages in by_list(self._tools)]
        lists = [f for f in lists if not f.run.within(RunKind.RETRIEVER)]
        outside = [f for f in lists if f.run.kind is not RunKind.RETRIEVER]
        if not outside:
            return _union(lists) if lists else None
        last = outside[-1].run
        beside = [f for f in outside if f.run.kind is RunKind.TOOL is last.kind]
        return _union(beside or outside[-1:])


def _has_prose_around(p: Passage, documents: Sequence[Passage]) -> bool:
    held = [d.folded for d in documents if d.is_distinctive and d.folded in p.folded]
    if not held or p.folded in held:
        return False
    return 2 * prose_around(p.folded, held) >= min(map(width, held))


def _union(lists: Iterable[DocumentList]) -> tuple[Context, ...]:
    return tuple(p.context for p in distinct(lists))
