"""Finds the contexts of an answer: the retrieved texts that the answering model was shown.

Texts rank by origin: documents, then texts of tools, of steps, of earlier turns. Texts that a
model or the user wrote are dropped. The highest rank of which a prompt that led to the answer
shows anything gives the contexts, in prompt order. Lower ranks join if the answer takes facts
from them that no surer text has. If no prompt shows any text, the structure of the run decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from rag_eval_hooks.capture.answering import answering_calls
from rag_eval_hooks.capture.passages import (
    DOCUMENT_ORIGINS,
    Passage,
    Place,
    Prompts,
    distinct,
    in_prompt_order,
)
from rag_eval_hooks.capture.provenance import NewFacts, Provenance, content_words
from rag_eval_hooks.capture.question import question_of
from rag_eval_hooks.capture.records import DocumentList, Interaction, Origin, RunKind
from rag_eval_hooks.capture.text_forms import fold, is_distinctive, width
from rag_eval_hooks.sample import Context
from rag_eval_hooks.text.folding import has_cjk
from rag_eval_hooks.text.refusals import refusal

__all__ = ["ContextSource", "Found", "find_contexts", "has_retrieved"]

_MIN_PROSE = 40
"""Width of prose beside a document that makes the text around both the context."""
_MIN_SHARED = 2
"""Words of a question that a text has to share with it."""


class ContextSource(StrEnum):
    """Rule by which contexts were found."""

    RECORDED = "recorded"
    """The application recorded them."""
    CHOSEN = "chosen"
    """The application named where they are."""
    PROMPT = "prompt"
    """Their texts stand in the answering prompts."""
    SHINGLES = "shingles"
    """Some stand there only in part: three runs of four words that no other text has."""
    STRUCTURE = "structure"
    """The answer names them as its sources."""
    LAST_LIST = "last_list"
    """No prompt shows any: the list of the last step that gave one."""
    STEP = "step"
    """A guess: a step or tool wrote some of them, or nothing was retrieved by a retriever."""
    EARLIER_TURN = "earlier_turn"
    """An earlier turn left some of them, and the prompt shows them."""


_GUESSES = {Origin.STEP: ContextSource.STEP, Origin.EARLIER: ContextSource.EARLIER_TURN}


class Found(NamedTuple):
    """Contexts in the order in which the model saw them, and the rule by which they were found.

    None when nothing was retrieved, () when retrieval came back empty.
    """

    contexts: tuple[Context, ...] | None
    source: ContextSource | None


def find_contexts(interaction: Interaction, answer: str | None) -> Found:
    """Return the contexts of an ended interaction.

    Args:
        interaction: An ended one.
        answer: What the user got.
    """
    if interaction.chosen is not None:
        return Found(_once(interaction.chosen), ContextSource.CHOSEN)
    return _Search(interaction, answer or "").found()


def has_retrieved(interaction: Interaction, answer: str | None) -> bool:
    """Return whether something was retrieved: searches prompts if no retriever ran."""
    known = interaction.retrieves
    return _Search(interaction, answer or "").has_retrieved() if known is None else known


class _Search:
    def __init__(self, interaction: Interaction, answer: str) -> None:
        self._interaction = interaction
        self._answer = answer
        self._question = question_of(interaction)[0]
        lists = [f for f in interaction.lists if f.origin in DOCUMENT_ORIGINS]
        self._lists = [f for f in lists if f.origin is not Origin.GIVEN or self._uses_input]
        self._documents = distinct(self._lists)
        self._provenance = Provenance(interaction, fold(self._question), self._documents)
        self._sure_tools, self._unsure_tools = self._provenance.tool_texts()
        # A retriever came back empty.
        found_none = any(f.origin is Origin.DOCUMENTS for f in self._lists)
        self._is_empty = found_none and not self._documents

    @cached_property
    def _uses_input(self) -> bool:
        """False if no prompt shows documents of the root's input: an earlier turn left them."""
        passages = distinct(self._interaction.lists_of(Origin.GIVEN))
        is_whole = all(p.is_distinctive for p in passages) and not self._interaction.left_out
        prompt = self._all_prompts if is_whole else ""
        return not prompt or bool(Prompts([prompt]).place(passages))

    @property
    def _all_prompts(self) -> str:
        return " ".join(fold(text) for run in self._interaction.runs for text in run.prompt)

    @cached_property
    def _tools(self) -> list[Passage]:
        """The texts of tools that count if no document was found."""
        facts = NewFacts(self._answer, self._question, self._sure_tools)
        return [*self._sure_tools, *facts.used(self._unsure_tools, self._provenance)]

    def has_retrieved(self) -> bool:
        if self._lists or self._tools:
            return True
        prompts = Prompts([self._all_prompts])
        return any(prompts.place(self._guesses(origin)) for origin in _GUESSES)

    def found(self) -> Found:
        interaction = self._interaction
        stated = interaction.lists_of(Origin.STATED)
        if stated and interaction.root.kind is RunKind.MANUAL:
            return Found(_union(stated), ContextSource.RECORDED)
        ranked = [p for p in (self._documents, self._tools) if p]
        retrieved = [p.folded for passages in ranked for p in passages]
        documents = {p.folded for p in self._documents}
        self._calls = answering_calls(interaction, self._answer, retrieved, documents)
        for texts in (self._calls.fresh, self._calls.prompts):
            prompts = self._prompts_of(texts)
            for passages in ranked:
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
        """Add texts of steps that show a document within more prose: parents, stitched texts."""
        wider = [
            p
            for p in distinct(self._interaction.lists_of(Origin.STEP))
            if p.is_distinctive
            and any(p.folded in prompt for prompt in prompts.texts)
            and _has_prose_around(p, passages)
            and self._provenance.is_no_prompt(p)
        ]
        return [*passages, *wider]

    def _without_rejected(self, placed: dict[Passage, Place]) -> dict[Passage, Place]:
        """Drop documents that the last filter removed: a quoted grader's prompt may hold them."""
        lists = [f for f in self._lists if f.origin is Origin.DOCUMENTS and f.contexts]
        if not lists or lists[-1].run.kind is not RunKind.CHAIN:
            return placed
        texts = [{fold(context.text) for context in found.contexts} for found in lists]
        kept = texts.pop()
        rejected = set[str]().union(*(one for one in texts if one & kept)) - kept
        if not kept <= {p.folded for p, place in placed.items() if place.prompt == 0}:
            return placed
        return {p: at for p, at in placed.items() if not (at.prompt and p.folded in rejected)}

    def _with_lower_ranks(
        self, prompts: Prompts, passages: Sequence[Passage], placed: dict[Passage, Place]
    ) -> Found:
        """Add texts of lower ranks from which the answer takes what no surer text says."""
        lower: list[Passage] = []
        if passages is self._documents:
            # The text of a tool that the application named needs no proof by the answer.
            lower = [p for p in self._sure_tools if p.found.named]
            tools = [p for p in (*self._sure_tools, *self._unsure_tools) if p not in lower]
            lower += self._used(tools, [*passages, *lower])
        steps = self._used(
            self._provenance.step_texts(Origin.STEP, beside=True), [*passages, *lower]
        )
        earlier = self._used(self._earlier_texts(), [*passages, *lower, *steps])
        lower += [*steps, *earlier]
        if lower:
            prompts = self._prompts_of(self._calls.prompts) if earlier else prompts
            both = prompts.place(self._with_wider_texts(prompts, [*lower, *passages]))
            placed = both if any(p in both for p in lower) else placed
        is_whole = all(place.whole for place in placed.values())
        source = ContextSource.PROMPT if is_whole else ContextSource.SHINGLES
        if self._is_empty or any(p in placed for p in steps):
            source = ContextSource.STEP
        if any(p in placed for p in earlier):
            source = ContextSource.EARLIER_TURN
        return Found(self._with_sources(placed), source)

    def _used(self, passages: Sequence[Passage], surer: Sequence[Passage]) -> list[Passage]:
        if not passages or refusal(self._answer):
            return []
        return NewFacts(self._answer, self._question, surer).used(passages, self._provenance)

    def _earlier_texts(self) -> list[Passage]:
        """Return texts that earlier turns left in the state, and the turns that a prompt shows."""
        said = [
            DocumentList(run, tuple(Context(text=run.prompt[n]) for n in turns), Origin.EARLIER)
            for run in self._calls.calls
            if (turns := _earlier_turns(run.earlier, len(run.prompt)))
        ]
        conversation = [p for p in distinct(said) if p.is_distinctive]
        return [*self._provenance.step_texts(Origin.EARLIER, beside=True), *conversation]

    def _with_sources(self, placed: dict[Passage, Place]) -> tuple[Context, ...]:
        """Add short texts, and sources that the answer names and another call was shown."""
        lists = [*self._lists, *(f for f in self._interaction.lists if f.origin is Origin.TEXT)]
        seen = in_prompt_order(placed)
        passages = (*self._documents, *self._sure_tools, *self._unsure_tools)
        may_be_short = any(not p.is_distinctive for p in passages) or len(lists) > len(self._lists)
        if may_be_short and any(p.is_distinctive for p in placed):
            seen = _with_short_texts(seen, lists)
        sources = distinct(f for f in self._lists if f.origin is Origin.SOURCES)
        if not sources:
            return seen
        known = {fold(context.text): n for n, context in enumerate(seen)}
        at = {p: next((known[text] for _, text in p.forms if text in known), None) for p in sources}
        shown = Prompts(self._calls.others).place([p for p in sources if at[p] is None])
        items = [
            (at[p], shown[p].context if p in shown else p.context)
            for p in sources
            if at[p] is not None or p in shown or not p.is_distinctive
        ]
        return _once(_merged(seen, items))

    def _guesses(self, origin: Origin) -> list[Passage]:
        """Return texts of steps that may have been retrieved where no surer text was shown.

        A lone text, such as a persona, counts only if the answer takes something from it or if it
        tells of what was asked. After an empty retrieval every text has to be used.
        """
        is_beside = bool(self._lists or self._sure_tools)
        passages = self._provenance.step_texts(origin, beside=is_beside)
        facts = NewFacts(self._answer, self._question, ())
        used = facts.used(passages, self._provenance)
        if self._is_empty:
            return used
        asked = content_words(self._question)
        told = [p for p in passages if len(p.found.contexts) > 1 or _tells_of(p, asked)]
        return [p for p in passages if p in used or p in told]

    def _by_structure(self, prompts: Prompts, stated: Sequence[DocumentList]) -> Found:
        if stated:
            return Found(_union(stated), ContextSource.RECORDED)
        if sources := [f for f in self._lists if f.origin is Origin.SOURCES]:
            root = [found for found in sources if found.run.parent is None]
            return Found(_union(root or sources), ContextSource.STRUCTURE)
        if self._was_shown_none(prompts):
            return Found((), ContextSource.PROMPT)
        listed = self._last_list()
        return Found(listed, None if listed is None else ContextSource.LAST_LIST)

    def _was_shown_none(self, prompts: Prompts) -> bool:
        """Return whether another call was shown documents, and the answering call none."""
        passages = [*self._documents, *self._tools]
        is_whole = all(p.is_distinctive for p in passages) and not self._interaction.left_out
        seen = any(p.folded in other for p in passages for other in self._calls.others)
        return bool(prompts.texts) and seen and is_whole and not prompts.show_run_of(passages)

    def _last_list(self) -> tuple[Context, ...] | None:
        lists = [f for f in self._lists if f.origin is Origin.DOCUMENTS]
        lists = lists or [f for f in self._lists if f.origin is Origin.GIVEN]
        lists = lists or list({id(p.found): p.found for p in self._tools}.values())
        # A retriever that raised did not give what it had found on its way.
        lists = [f for f in lists if not f.run.within(RunKind.RETRIEVER)]
        outside = [f for f in lists if f.run.kind is not RunKind.RETRIEVER]
        if not outside:
            return _union(lists) if lists else None
        last = outside[-1].run
        if last.kind is RunKind.TOOL:
            return _union(f for f in outside if f.run.kind is RunKind.TOOL)
        if last.batch is None:
            return outside[-1].contexts
        beside = (f for f in outside if (f.run.batch, f.run.parent) == (last.batch, last.parent))
        return _union(beside)


def _has_prose_around(p: Passage, documents: Sequence[Passage]) -> bool:
    """Return whether a text holds a document, and prose half as long as the shortest it holds."""
    held = [d.folded for d in documents if d.is_distinctive and d.folded in p.folded]
    if not held or p.folded in held:
        return False
    rest = p.folded
    for text in sorted(held, key=len, reverse=True):
        rest = rest.replace(text, "\0")
    parts = [width(part.strip()) for part in rest.split("\0")]
    return 2 * sum(part for part in parts if part >= _MIN_PROSE) >= min(map(width, held))


def _earlier_turns(replies: Iterable[int], size: int) -> range:
    """Return the places of the turns before: from the message before the first reply on."""
    places = sorted(replies)
    return range(max(0, places[0] - 1), min(size, places[-1] + 1)) if places else range(0)


def _tells_of(p: Passage, asked: set[str]) -> bool:
    """Return whether a text holds at least half of the words of a question.

    Without spaces between words, pairs of characters count, of which a tenth is enough.
    """
    shared = content_words(p.context.text) & asked
    least = len(asked) / (10 if any(map(has_cjk, asked)) else 2)
    return bool(asked) and len(shared) >= max(min(_MIN_SHARED, len(asked)), least)


def _once(contexts: Iterable[Context]) -> tuple[Context, ...]:
    """Return each text once, the first time that it stands there."""
    found: dict[str, Context] = {}
    for context in contexts:
        found.setdefault(fold(context.text), context)
    return tuple(found.values())


def _union(lists: Iterable[DocumentList]) -> tuple[Context, ...]:
    return _once(context for found in lists for context in found.contexts)


def _with_short_texts(
    seen: tuple[Context, ...], lists: Sequence[DocumentList]
) -> tuple[Context, ...]:
    """Add texts too short to be searched, each after the text that it follows in its list.

    They belong to the last list of which a text was seen. Leading ones stand before the first.
    """
    places = {fold(context.text): n for n, context in enumerate(seen)}
    beside = (f for f in reversed(lists) if any(fold(c.text) in places for c in f.contexts))
    found = next(beside, None)
    items = [(fold(c.text), c) for c in _once(found.contexts)] if found is not None else []
    short = [(t, c) for t, c in items if t in places or (t and not is_distinctive(t))]
    return _merged(seen, [(places.get(text), context) for text, context in short])


def _merged(
    seen: Sequence[Context], items: Iterable[tuple[int | None, Context]]
) -> tuple[Context, ...]:
    """Add items without a place among the seen contexts behind the item before them.

    Leading items stand before the first item with a place, or last if none has one.
    """
    groups = [[context] for context in seen]
    leading: list[Context] = []
    group = leading
    for place, context in items:
        if place is None:
            group.append(context)
            continue
        group, first = groups[place], group
        if first is leading:
            group[:0], leading = leading, []
    return tuple(context for group in (*groups, leading) for context in group)
