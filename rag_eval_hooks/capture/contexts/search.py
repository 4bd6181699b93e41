"""Finds what the answering model saw among all documents that passed by.

The contexts of an answer are the documents whose text stands in the prompts of the model calls
that made it, in prompt order: whatever graders, rerankers and formatters did in between. A text
that a formatter altered is known by four words in a row that no other document has. Where no
prompt holds any of them, structure decides: what the application stated, the sources that the
answer names, the lists of the last steps, those of the outermost retrievers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rag_eval_hooks.capture.contexts.candidates import (
    Candidate,
    candidates_of,
    once,
    with_short_texts,
)
from rag_eval_hooks.capture.contexts.countable import countable, guesses, unsaid_of, used_steps
from rag_eval_hooks.capture.contexts.model_calls import grounding_of
from rag_eval_hooks.capture.contexts.prompt_match import ContextSource, Found, PromptMatch
from rag_eval_hooks.capture.contexts.prompt_positions import Prompts
from rag_eval_hooks.capture.contexts.text_forms import (
    fold,
    is_telling,
    shingles,
)
from rag_eval_hooks.capture.records import DocumentList, Interaction, Origin, RunKind
from rag_eval_hooks.sample import Context

__all__ = ["find_contexts"]


def find_contexts(interaction: Interaction, answer: str | None) -> Found:
    """Return the contexts of an ended interaction.

    Args:
        interaction: An ended one.
        answer: What the user got.
    """
    if interaction.chosen is not None:
        return Found(once(interaction.chosen), ContextSource.CHOSEN)
    return _Finder(interaction, answer).found()


class _Finder:
    def __init__(self, interaction: Interaction, answer: str | None) -> None:
        self._interaction = interaction
        self._answer = answer
        self._lists = countable(interaction, answer)
        self._candidates = self._as_shown(candidates_of(self._lists))
        retrievers = (run for run in interaction.runs if run.kind is RunKind.RETRIEVER)
        self._queries = {fold(run.query) for run in retrievers if run.query}
        self._grounding = grounding_of(interaction, answer, self._candidates)
        self._candidates = self._not_dropped()
        self._prompts = self._prompts_of(self._grounding.prompts)

    def _as_shown(self, candidates: dict[str, Candidate]) -> dict[str, Candidate]:
        """Return candidates without forms that a retriever's model wrote, as a statement of SQL."""
        models = (run for run in self._interaction.runs if run.kind is RunKind.MODEL)
        said = {fold(m.text) for m in models if m.text and m.within(RunKind.RETRIEVER)}

        def is_found(candidate: Candidate, form: Context) -> bool:
            return form is candidate.context or not any(fold(form.text) in one for one in said)

        return {
            text: replace(c, shown=[form for form in c.shown if is_found(c, form)])
            for text, c in candidates.items()
        }

    def _prompts_of(self, texts: Sequence[str]) -> Prompts:
        return Prompts(texts, fold(self._interaction.root.query or ""), self._queries)

    def _not_dropped(self) -> dict[str, Candidate]:
        """Return the candidates without those that a step took out of what the answer is made of.

        A grader whose words stand in the answering prompt was shown them, too.
        """
        lists = [found for found in self._of(Origin.DOCUMENTS) if found.contexts]
        if not lists or len(self._grounding.prompts) < 2:
            return self._candidates
        *before, last = lists
        if last.run.kind is not RunKind.CHAIN:
            return self._candidates
        kept = {fold(context.text) for context in last.contexts}
        earlier = [{fold(context.text) for context in found.contexts} for found in before]
        dropped = {text for texts in earlier if texts & kept for text in texts - kept}
        prompt = Prompts(self._grounding.prompts[:1])
        if not all(map(prompt.hold, kept)) or any(map(prompt.hold, dropped)):
            return self._candidates
        return {text: c for text, c in self._candidates.items() if text not in dropped}

    def _stands_in(self, prompts: Sequence[str], texts: Mapping[str, Candidate]) -> Found | None:
        return PromptMatch(texts, Prompts(prompts, queries=self._queries)).found()

    def found(self) -> Found:
        stated = self._of(Origin.STATED)
        if stated and self._interaction.root.kind is RunKind.MANUAL:
            return Found(_union(stated), ContextSource.RECORDED)
        if seen := self._seen():
            return self._beside_sources(seen)
        if short := self._short():
            return Found(short, ContextSource.PROMPT)
        if guessed := self._guessed():
            return guessed
        if stated:
            return Found(_union(stated), ContextSource.RECORDED)
        sources = self._of(Origin.SOURCES)
        if sources:
            return Found(_union(_outermost(sources)), ContextSource.STRUCTURE)
        if self._was_left_out():
            return Found((), ContextSource.PROMPT)
        listed = self._by_structure()
        return Found(listed, None if listed is None else ContextSource.LAST_LIST)

    def _seen(self) -> Found | None:
        """Return what the prompts show beside what a model said in earlier turns, or else in it."""
        for prompts in (self._prompts_of(self._grounding.fresh), self._prompts):
            if seen := PromptMatch(self._candidates, prompts).found():
                origins = {found.origin for found in self._lists if found.contexts}
                if self._of(Origin.DOCUMENTS) and origins == {Origin.TEXT}:
                    return seen._replace(source=ContextSource.STEP)
                return self._beside_steps(prompts, seen) or seen
        return None

    def _beside_steps(self, prompts: Prompts, seen: Found) -> Found | None:
        """Return what prompts show where the answer says what only texts of steps do."""
        unsaid = unsaid_of(self._interaction, self._lists, self._answer)
        steps = candidates_of(used_steps(self._interaction, self._lists, unsaid))
        found = PromptMatch(steps | self._candidates, prompts).found() if steps else None
        known = {context.text for context in seen.contexts or ()}
        new = [c.text for c in (found.contexts or () if found else ()) if c.text not in known]
        # A prompt may show other values of a row than those that the answer says.
        return found._replace(source=ContextSource.STEP) if found and unsaid.is_in(new) else None

    def _of(self, origin: Origin) -> list[DocumentList]:
        return [found for found in self._lists if found.origin is origin]

    def _beside_sources(self, seen: Found) -> Found:
        """Add sources of the answer that were too short to follow, or shown to another call."""
        contexts = with_short_texts(seen.contexts or (), self._lists)
        known = {fold(context.text) for context in contexts}
        sources = candidates_of(self._of(Origin.SOURCES))
        missing = {t: c for t, c in sources.items() if t not in known and not c.stands_in(known)}
        if not missing:
            return Found(contexts, seen.source)
        shown = self._stands_in(self._grounding.others, missing)
        added = list(shown.contexts or ()) if shown else []
        added += [c.context for text, c in missing.items() if not is_telling(text)]
        together = once((*contexts, *added))
        if not self._stands_in(self._grounding.prompts[:1], self._candidates):
            # Answers made of answers: the order is that in which these were asked for.
            order = {fold(c.text): n for n, one in enumerate(sources.values()) for c in one.shown}
            together = tuple(sorted(together, key=lambda c: order.get(fold(c.text), len(order))))
        return Found(together, seen.source)

    def _short(self) -> tuple[Context, ...]:
        """Return the documents that prompts show, where all are short.

        One of them may stand there by chance.
        """
        if any(map(is_telling, self._candidates)):
            return ()
        places = {text: self._prompts.find(text) for text in self._candidates if text}
        shown = {text: (p.prompt, p.start) for text, p in places.items() if p is not None}
        if len(shown) < 2 or not is_telling("".join(shown)):
            return ()
        return tuple(
            self._candidates[text].context for text in sorted(shown, key=shown.__getitem__)
        )

    def _guessed(self) -> Found | None:
        left = ContextSource.STEP if self._lists else ContextSource.PROMPT
        sources = {Origin.STEP: left, Origin.EARLIER: ContextSource.EARLIER_TURN}
        for origin, source in sources.items():
            lists = guesses(self._interaction, self._interaction.lists_of(origin))
            if lists and (seen := PromptMatch(candidates_of(lists), self._prompts).found()):
                return seen if source is ContextSource.PROMPT else seen._replace(source=source)
        return None

    def _was_left_out(self) -> bool:
        """Return whether another call was shown documents, and the answering call none.

        A grader that lets none pass leaves the model without any.
        """
        prompts, others = self._grounding.prompts, self._grounding.others
        if not prompts or not others or self._interaction.left_out:
            return False
        texts = [text for text in self._candidates if is_telling(text)]
        if len(texts) < len(self._candidates) or not any(t in p for p in others for t in texts):
            return False
        parts = {part for text in texts for part in shingles(text)} - self._prompts.asked()
        return not any(parts.intersection(shingles(prompt)) for prompt in prompts)

    def _by_structure(self) -> tuple[Context, ...] | None:
        lists = self._of(Origin.DOCUMENTS) or self._of(Origin.GIVEN) or self._lists
        lists = [found for found in lists if not found.run.within(RunKind.RETRIEVER)]
        outside = [found for found in lists if found.run.kind is not RunKind.RETRIEVER]
        if outside and outside[-1].run.kind is RunKind.TOOL:
            # The tools of an agent stand side by side.
            return _union([found for found in outside if found.run.kind is RunKind.TOOL])
        if outside:
            batch, parent = outside[-1].run.batch, outside[-1].run.parent
            if batch is None:
                return outside[-1].contexts
            beside = (f for f in outside if (f.run.batch, f.run.parent) == (batch, parent))
            return _union(beside)
        # What a retriever found on its way, before it raised, it did not give.
        return _union(lists) if lists else None


def _outermost(sources: Sequence[DocumentList]) -> Sequence[DocumentList]:
    """Return the sources of the root's answer, or those of all tools where it names none."""
    root = [found for found in sources if found.run.parent is None]
    return root or sources


def _union(lists: Iterable[DocumentList]) -> tuple[Context, ...]:
    return once(context for found in lists for context in found.contexts)
