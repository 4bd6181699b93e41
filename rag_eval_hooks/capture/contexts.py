"""Finds what the answering model saw among all documents that passed by.

The contexts of an answer are the documents whose text stands in the prompts of the model calls
that made it, in prompt order: whatever graders, rerankers and formatters did in between. Where
no prompt holds any of them, what the application stated stands in, then the last list outside a
retriever, then the lists of the outermost retrievers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rag_eval_hooks.capture.calls import PREFIX, TELLING, fold, grounding_prompts
from rag_eval_hooks.capture.places import Place, Prompts
from rag_eval_hooks.capture.run import DocumentList, Interaction, Origin, RunKind
from rag_eval_hooks.sample import Context

__all__ = ["Finder"]


class Finder:
    """Finds the contexts of one interaction.

    Args:
        interaction: An ended one.
        answer: What the user got.
    """

    def __init__(self, interaction: Interaction, answer: str | None) -> None:
        self._interaction = interaction
        self._lists = interaction.lists
        self._answer = answer

    def contexts(self) -> tuple[Context, ...] | None:
        """The contexts in the order in which the model saw them.

        Returns:
            None when nothing was retrieved, () when retrieval came back empty.
        """
        if self._interaction.chosen is not None:
            return _once(self._interaction.chosen)
        if not self._lists:
            return None
        stated = self._of(Origin.STATED)
        if stated and self._interaction.root.kind is RunKind.MANUAL:
            return _union(stated)
        question = fold(self._interaction.root.query or "")
        prompts = Prompts(grounding_prompts(self._interaction, self._answer), question)
        seen = _in_prompts(_distinct(self._lists), prompts)
        if seen:
            return _with_short_texts(seen, self._lists)
        return _union(stated) if stated else self._by_structure()

    def _of(self, origin: Origin) -> list[DocumentList]:
        return [found for found in self._lists if found.origin is origin]

    def _by_structure(self) -> tuple[Context, ...]:
        lists = self._of(Origin.DOCUMENTS) or self._lists
        outside = [found for found in lists if found.run.kind is not RunKind.RETRIEVER]
        if outside and outside[-1].run.kind is RunKind.TOOL:
            # The tools of an agent stand side by side.
            return _union([found for found in outside if found.run.kind is RunKind.TOOL])
        if outside:
            return outside[-1].contexts
        return _union([found for found in lists if not found.run.within(RunKind.RETRIEVER)])


def _union(lists: Iterable[DocumentList]) -> tuple[Context, ...]:
    return _once(context for found in lists for context in found.contexts)


def _distinct(lists: Sequence[DocumentList]) -> dict[str, Context]:
    """Each text once; a later stage knows more about it, such as a reranker's score.

    A stage that hands on bare texts knows nothing more.
    """
    distinct: dict[str, Context] = {}
    for context in (context for found in lists for context in found.contexts):
        bare = context.id is None and context.score is None and not context.metadata
        text = fold(context.text)
        if not (bare and text in distinct):
            distinct[text] = context
    return distinct


def _in_prompts(candidates: Mapping[str, Context], prompts: Prompts) -> tuple[Context, ...]:
    """The candidates that stand in a prompt, by place; a text inside another one once."""
    whole = _whole(candidates, prompts)
    # A text that stands nowhere in full may have been cut, but not where another text stands.
    cut = {
        text: place
        for text in candidates
        if text not in whole and (place := _cut(text, prompts)) is not None
        if not any(other.holds(place) for other in whole.values())
    }
    ordered = sorted(
        (whole | cut).items(), key=lambda item: (item[1].prompt, item[1].start, -item[1].length)
    )
    kept: list[tuple[str, Place]] = []
    for text, place in ordered:
        if not kept or not (kept[-1][1].holds(place) and text in kept[-1][0]):
            kept.append((text, place))
    return tuple(candidates[text] for text, _ in kept)


def _whole(candidates: Mapping[str, Context], prompts: Prompts) -> dict[str, Place]:
    found = {}
    for text, context in candidates.items():
        if len(text) >= TELLING:
            places = (prompts.find(form) for form in _forms(text, context))
            if (place := next(filter(None, places), None)) is not None:
                found[text] = place
    return found


def _forms(text: str, context: Context) -> Iterator[str]:
    """The text as it is, and as it stands inside JSON."""
    yield text
    yield fold(json.dumps(context.text)[1:-1])
    yield fold(json.dumps(context.text, ensure_ascii=False)[1:-1])


def _cut(text: str, prompts: Prompts) -> Place | None:
    return prompts.find(text[:PREFIX]) if len(text) > PREFIX else None


def _with_short_texts(
    seen: tuple[Context, ...], lists: Sequence[DocumentList]
) -> tuple[Context, ...]:
    """What was seen, with texts too short to be looked for, by where their list has them.

    They belong to the last list that was seen: what stood beside them was in the prompt.
    """
    texts = {fold(context.text) for context in seen}
    for found in reversed(lists):
        folded = [fold(context.text) for context in found.contexts]
        if not texts.isdisjoint(folded):
            short = [c for c, text in zip(found.contexts, folded, strict=True) if _is_short(text)]
            return (*seen, *short) if short else seen
    return seen


def _is_short(folded: str) -> bool:
    return 0 < len(folded) < TELLING


def _once(contexts: Iterable[Context]) -> tuple[Context, ...]:
    first: dict[str, Context] = {}
    for context in contexts:
        first.setdefault(fold(context.text), context)
    return tuple(first.values())
