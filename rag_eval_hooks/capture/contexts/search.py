"""Finds what the answering model saw among all documents that passed by.

The contexts of an answer are the documents whose text stands in the prompts of the model calls
that made it, in prompt order: whatever graders, rerankers and formatters did in between. Where
no prompt holds any of them, what the application stated stands in, then the last list outside a
retriever, then the lists of the outermost retrievers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rag_eval_hooks.capture.contexts.model_calls import grounding_prompts
from rag_eval_hooks.capture.contexts.prompt_positions import Position, Prompts
from rag_eval_hooks.capture.contexts.split_texts import in_pieces
from rag_eval_hooks.capture.contexts.text_forms import fold, forms, is_telling, least_shown
from rag_eval_hooks.capture.interaction import DocumentList, Interaction, Origin, RunKind
from rag_eval_hooks.sample import Context

__all__ = ["Finder", "drop_unused", "shown_in"]

_HEAD = 400
"""Characters of a text that are looked for first."""


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
        """Return the contexts in the order in which the model saw them.

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

    def _by_structure(self) -> tuple[Context, ...] | None:
        lists = self._of(Origin.DOCUMENTS) or self._of(Origin.GIVEN) or self._lists
        lists = [found for found in lists if not found.run.within(RunKind.RETRIEVER)]
        outside = [found for found in lists if found.run.kind is not RunKind.RETRIEVER]
        if outside and outside[-1].run.kind is RunKind.TOOL:
            # The tools of an agent stand side by side.
            return _union([found for found in outside if found.run.kind is RunKind.TOOL])
        if outside:
            return outside[-1].contexts
        # What a retriever found on its way, before it raised, it did not give.
        return _union(lists) if lists else None


def shown_in(prompt: str, lists: Sequence[DocumentList]) -> tuple[Context, ...]:
    """Return the documents that are in one text, in its order, in any form, possibly cut."""
    return _in_prompts(_distinct(lists), Prompts([prompt], ""))


def drop_unused(interaction: Interaction) -> None:
    """Drop documents that the caller gave if nothing else was found and no model saw any."""
    lists = interaction.lists
    if not lists or any(found.origin is not Origin.GIVEN for found in lists):
        return
    texts = [context.text for found in lists for context in found.contexts]
    prompts = [fold("\n".join(run.prompt)) for run in interaction.runs if run.prompt]
    known = all(is_telling(fold(text)) for text in texts) and not interaction.full
    if prompts and known and not shown_in("\n".join(prompts), lists):
        interaction.lists = []


def _union(lists: Iterable[DocumentList]) -> tuple[Context, ...]:
    return _once(context for found in lists for context in found.contexts)


def _distinct(lists: Sequence[DocumentList]) -> dict[str, Context]:
    """Return each text once; a later stage knows more about it, such as a reranker's score.

    A stage that hands on bare texts knows nothing more. Within one list the first counts.
    """
    distinct: dict[str, Context] = {}
    for found in lists:
        for text, context in _first(found.contexts).items():
            bare = context.id is None and context.score is None and not context.metadata
            if not (bare and text in distinct):
                distinct[text] = context
    return distinct


def _in_prompts(candidates: Mapping[str, Context], prompts: Prompts) -> tuple[Context, ...]:
    """Return the candidates in a prompt, by position; a text inside another one once."""
    begun = {t: c for t, c in candidates.items() if _may_stand(c.text, prompts)}
    whole = _whole(begun, prompts)
    # A text that stands nowhere in full may have been cut, but not where another text stands.
    rest = {text: context for text, context in begun.items() if text not in whole}
    found = whole | _cut(rest, prompts, list(whole.values()))
    if len(prompts) > 1:
        found |= _divided({t: c for t, c in candidates.items() if t not in found}, prompts, found)
    ordered = sorted(
        found.items(), key=lambda item: (item[1].prompt, item[1].start, -item[1].length)
    )
    kept: list[tuple[str, Position]] = []
    for text, place in ordered:
        if not kept or not (kept[-1][1].holds(place) and text in kept[-1][0]):
            kept.append((text, place))
    return tuple(candidates[text] for text, _ in kept)


def _may_stand(text: str, prompts: Prompts) -> bool:
    """Return whether a text's beginning is in a prompt: a cheap test that few pass."""
    head = text[:_HEAD]
    if len(text) > _HEAD and len(fold(head)) < _HEAD // 2:
        head = text
    return any(prompts.hold(form[: least_shown(form)]) for form in forms(head))


def _whole(candidates: Mapping[str, Context], prompts: Prompts) -> dict[str, Position]:
    found = {}
    for text, context in candidates.items():
        if is_telling(text):
            places = (prompts.find(form) for form in forms(context.text))
            if (place := next(filter(None, places), None)) is not None:
                found[text] = place
    return found


def _cut(
    candidates: Mapping[str, Context], prompts: Prompts, taken: list[Position]
) -> dict[str, Position]:
    """Return texts of which only the beginning is in a prompt, each at its own position.

    The longest beginnings come first, and of equal ones that of the later stage: a beginning
    that texts share tells nothing where one of them stands.
    """
    shown = {text: _shown(context.text, prompts) for text, context in candidates.items()}
    found = {}
    latest_first = list(shown)[::-1]
    for text in sorted(latest_first, key=lambda text: -len(shown[text])):
        place = prompts.find(shown[text], taken) if shown[text] else None
        if place is not None:
            taken.append(place)
            found[text] = place
    return found


def _divided(
    candidates: Mapping[str, Context], prompts: Prompts, found: Mapping[str, Position]
) -> dict[str, Position]:
    """Return texts that begin in one prompt and end in another."""
    taken = list(found.values())
    places = {t: in_pieces(c.text, prompts, taken) for t, c in candidates.items() if is_telling(t)}
    return {text: place for text, place in places.items() if place is not None}


def _shown(text: str, prompts: Prompts) -> str:
    """Return the longest beginning of a text, in any form, that is in a prompt; "" for none."""
    for form in forms(text):
        if length := prompts.shown(form, least_shown(form)):
            return form[:length]
    return ""


def _with_short_texts(
    seen: tuple[Context, ...], lists: Sequence[DocumentList]
) -> tuple[Context, ...]:
    """Return what was seen, with texts too short to be searched, by their place in the list.

    They belong to the last list that was seen: what stood beside them was in the prompt.
    """
    texts = {fold(context.text) for context in seen}
    for found in reversed(lists):
        beside = _first(found.contexts)
        if not texts.isdisjoint(beside):
            return _beside(seen, beside)
    return seen


def _beside(seen: Iterable[Context], listed: Mapping[str, Context]) -> tuple[Context, ...]:
    """Return seen texts, each with the short ones beside it in its list.

    Between these, what was seen keeps its order.
    """
    by_text = {fold(context.text): context for context in seen}
    groups: dict[str, list[Context]] = {text: [context] for text, context in by_text.items()}
    leading: list[Context] = []
    group = leading
    for text, context in listed.items():
        if text in groups:
            groups[text][:0] = leading
            leading, group = [], groups[text]
        elif _is_short(text):
            group.append(context)
    return tuple(context for group in groups.values() for context in group)


def _is_short(folded: str) -> bool:
    return bool(folded) and not is_telling(folded)


def _once(contexts: Iterable[Context]) -> tuple[Context, ...]:
    return tuple(_first(contexts).values())


def _first(contexts: Iterable[Context]) -> dict[str, Context]:
    first: dict[str, Context] = {}
    for context in contexts:
        first.setdefault(fold(context.text), context)
    return first
