"""Finds the contexts of an answer: the retrieved texts that the answering model saw.

A candidate's rank depends on its origin: documents, then texts of tools, of steps, and of earlier
turns. Texts that a model or the user wrote are no candidates. The contexts are the candidates of
the highest rank that has a text in an answering prompt, in prompt order. If the answer uses facts
that only lower ranks have, the candidates with these facts join the contexts. If no prompt
contains a candidate, the structure of the run decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from rag_eval_hooks.capture.answering import answering_calls, question_of
from rag_eval_hooks.capture.passages import (
    DOCUMENT_ORIGINS,
    Location,
    Passage,
    Prompts,
    by_list,
    distinct,
    in_prompt_order,
)
from rag_eval_hooks.capture.provenance import Provenance, content_words
from rag_eval_hooks.capture.records import DocumentList, Interaction, Origin, RunKind
from rag_eval_hooks.capture.text_forms import fold, width
from rag_eval_hooks.sample import Context
from rag_eval_hooks.text.folding import has_cjk

_MIN_PROSE = 40
_MIN_SHARED = 2


class ContextSource(StrEnum):
    RECORDED = "recorded"
    """The application recorded the contexts."""
    CHOSEN = "chosen"
    """A capture option of the application selected the contexts."""
    PROMPT = "prompt"
    """The prompts of the answering calls contain all contexts."""
    SHINGLES = "shingles"
    """A prompt contains three sequences of four words that occur in only one context."""
    STRUCTURE = "structure"
    """The answer names the contexts as its sources."""
    LAST_LIST = "last_list"
    """No prompt contains a candidate, so the contexts are the last step's documents."""
    STEP = "step"
    """A step or tool returned some of the contexts. The step may not be a retrieval."""
    EARLIER_TURN = "earlier_turn"
    """A prompt contains texts that an earlier turn left in the state."""


_GUESSES = {Origin.STEP: ContextSource.STEP, Origin.EARLIER: ContextSource.EARLIER_TURN}


class Found(NamedTuple):
    """Contexts in prompt order, or None if no retrieval ran. `source` is the rule that applied."""

    contexts: tuple[Context, ...] | None
    source: ContextSource | None


def find_contexts(interaction: Interaction, answer: str | None) -> Found:
    if interaction.chosen is not None:
        return Found(_once(interaction.chosen), ContextSource.CHOSEN)
    return _Search(interaction, answer or "").found()


def has_retrieved(interaction: Interaction, answer: str | None) -> bool:
    known = interaction.retrieves
    return _Search(interaction, answer or "").has_retrieved() if known is None else known


class _Search:
    def __init__(self, interaction: Interaction, answer: str) -> None:
        self._interaction = interaction
        self._answer = answer
        self._question = question_of(interaction)[0]
        self._lists = [f for f in interaction.lists if f.origin in DOCUMENT_ORIGINS]
        self._documents = distinct(self._lists)
        self._texts = Provenance(interaction, answer, self._question, self._documents)
        self._sure_tools, self._unsure_tools = self._texts.tool_texts()
        self._tools = [*self._sure_tools, *self._texts.used(self._unsure_tools, self._sure_tools)]
        # The retriever returned no documents.
        found_none = any(f.origin is Origin.DOCUMENTS for f in self._lists)
        self._is_empty = found_none and not self._documents

    def has_retrieved(self) -> bool:
        if self._tools or any(found.origin is not Origin.GIVEN for found in self._lists):
            return True
        runs = self._interaction.runs
        prompts = Prompts([" ".join(fold(text) for run in runs for text in run.prompt)])
        guesses = (self._documents, *map(self._guesses, _GUESSES))
        return any(map(prompts.place, guesses))

    def found(self) -> Found:
        interaction = self._interaction
        stated = interaction.lists_of(Origin.STATED)
        if stated and interaction.root.kind is RunKind.MANUAL:
            return Found(_union(stated), ContextSource.RECORDED)
        retrieved = [p.folded for p in (*self._documents, *self._tools)]
        self._calls = answering_calls(interaction, self._answer, retrieved)
        for texts in (self._calls.fresh, self._calls.prompts):
            prompts = self._prompts_of(texts)
            for passages in filter(None, (self._documents, self._tools)):
                if placed := prompts.place(self._with_wider_texts(prompts, passages)):
                    placed = self._without_rejected(placed)
                    return self._with_lower_ranks(prompts, passages, placed)
        for origin, source in _GUESSES.items():
            guesses = self._with_wider_texts(prompts, self._guesses(origin))
            if placed := prompts.place(guesses):
                return Found(in_prompt_order(placed), source)
        return self._by_structure(prompts, stated)

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

    def _without_rejected(self, placed: dict[Passage, Location]) -> dict[Passage, Location]:
        lists = [f for f in self._lists if f.origin is Origin.DOCUMENTS and f.contexts]
        if not lists or lists[-1].run.kind is not RunKind.CHAIN:
            return placed
        *earlier, kept = [{fold(context.text) for context in found.contexts} for found in lists]
        if not kept <= {p.folded for p, place in placed.items() if place.prompt == 0}:
            return placed
        rejected = set[str]().union(*(texts for texts in earlier if texts & kept)) - kept
        return {p: at for p, at in placed.items() if not (at.prompt and p.folded in rejected)}

    def _with_lower_ranks(
        self, prompts: Prompts, passages: Sequence[Passage], placed: dict[Passage, Location]
    ) -> Found:
        tools: list[Passage] = []
        if passages is self._documents:
            # The text of a named retrieval tool needs no evidence in the answer.
            tools = [p for p in self._sure_tools if p.found.named]
            others = [p for p in (*self._sure_tools, *self._unsure_tools) if p not in tools]
            tools += self._texts.used(others, [*passages, *tools])
        surer = [*passages, *tools]
        steps = self._texts.used(self._texts.step_texts(Origin.STEP), surer)
        earlier = self._texts.used(self._earlier_texts(), [*surer, *steps])
        if lower := [*tools, *steps, *earlier]:
            prompts = self._prompts_of(self._calls.prompts) if earlier else prompts
            both = prompts.place(self._with_wider_texts(prompts, [*lower, *passages]))
            placed = both if any(p in both for p in lower) else placed
        is_whole = all(place.whole for place in placed.values())
        source = ContextSource.PROMPT if is_whole else ContextSource.SHINGLES
        if self._is_empty or any(p in placed for p in steps):
            source = ContextSource.STEP
        if any(p in placed for p in earlier):
            source = ContextSource.EARLIER_TURN
        return Found(self._with_sources(in_prompt_order(placed)), source)

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
        merged = {fold(context.text): context for context in seen}
        known = {p: next((t for _, t in p.forms if t in merged), None) for p in sources}
        missing = [p for p, text in known.items() if text is None]
        shown = Prompts(self._calls.others).place(missing)
        texts = list(merged)
        # Insert a source that no prompt contains after the preceding source, or first.
        at = min((texts.index(text) for text in known.values() if text), default=len(texts))
        for p, text in known.items():
            if text is not None:
                at = texts.index(text) + 1
            elif p in shown or not p.is_distinctive:
                merged[p.folded] = shown[p].context if p in shown else p.context
                texts.insert(at, p.folded)
                at += 1
        return tuple(merged[text] for text in texts)

    def _guesses(self, origin: Origin) -> list[Passage]:
        passages = self._texts.step_texts(origin)
        used = self._texts.used(passages, ())
        if self._is_empty:
            return used
        asked = content_words(self._question)
        return [
            p for p in passages if p in used or len(p.found.contexts) > 1 or _tells_of(p, asked)
        ]

    def _by_structure(self, prompts: Prompts, stated: Sequence[DocumentList]) -> Found:
        if stated:
            return Found(_union(stated), ContextSource.RECORDED)
        if sources := [f for f in self._lists if f.origin is Origin.SOURCES]:
            root = [found for found in sources if found.run.parent is None]
            return Found(_union(root or sources), ContextSource.STRUCTURE)
        if self._was_shown_none(prompts):
            return Found((), ContextSource.PROMPT)
        listed = self._last_list(prompts)
        return Found(listed, None if listed is None else ContextSource.LAST_LIST)

    def _was_shown_none(self, prompts: Prompts) -> bool:
        passages = [*self._documents, *self._tools]
        is_whole = all(p.is_distinctive for p in passages) and not self._interaction.left_out
        seen = any(p.folded in other for p in passages for other in self._calls.others)
        return bool(prompts.texts) and seen and is_whole and not prompts.show_run_of(passages)

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
    rest = p.folded
    for text in sorted(held, key=len, reverse=True):
        rest = rest.replace(text, "\0")
    parts = [width(part.strip()) for part in rest.split("\0")]
    return 2 * sum(part for part in parts if part >= _MIN_PROSE) >= min(map(width, held))


def _tells_of(p: Passage, asked: set[str]) -> bool:
    shared = content_words(p.context.text) & asked
    # In scripts without spaces, each pair of characters counts as a word.
    least = len(asked) / (5 if any(map(has_cjk, asked)) else 2)
    return bool(asked) and len(shared) >= max(min(_MIN_SHARED, len(asked)), least)


def _union(lists: Iterable[DocumentList]) -> tuple[Context, ...]:
    return _once(context for found in lists for context in found.contexts)


def _once(contexts: Iterable[Context]) -> tuple[Context, ...]:
    found: dict[str, Context] = {}
    for context in contexts:
        found.setdefault(fold(context.text), context)
    return tuple(found.values())
