"""Finds what the answering model saw among all documents that passed by.

The contexts of an answer are the documents whose text stands in the prompts of the model calls
that made it, in prompt order: whatever graders, rerankers and formatters did in between. Where
no prompt holds any of them, the last list outside a retriever stands in, then the lists of the
outermost retrievers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rag_eval_hooks.capture.run import DocumentList, Interaction, Run, RunKind
from rag_eval_hooks.sample import Context

__all__ = ["find_contexts"]

_PREFIX = 160
"""Characters of a text that must stand in the prompt: formatters cut the ends of texts."""
_TELLING = 20
"""Characters below which a text may stand in a prompt by chance."""


def find_contexts(interaction: Interaction) -> tuple[Context, ...] | None:
    """The contexts in the order in which the model saw them.

    Returns:
        None when nothing was retrieved, () when retrieval came back empty.
    """
    if not interaction.lists:
        return None
    if interaction.root.kind is RunKind.MANUAL:
        stated = [found for found in interaction.lists if found.stated]
        if stated:
            return _once(context for found in stated for context in found.contexts)
    prompts = {run: _fold(" ".join(run.prompt)) for run in _model_calls(interaction)}
    grounding = _grounding_calls(interaction, prompts)
    seen = _in_prompts(_distinct(interaction.lists), [prompts[run] for run in grounding])
    if not seen:
        return _by_structure(interaction.lists)
    return _with_short_texts(seen, interaction.lists)


def _distinct(lists: Sequence[DocumentList]) -> dict[str, Context]:
    """Each text once; a later stage knows more about it, such as a reranker's score."""
    return {_fold(context.text): context for found in lists for context in found.contexts}


def _model_calls(interaction: Interaction) -> list[Run]:
    calls = [run for run in interaction.runs if run.kind is RunKind.MODEL and run.prompt]
    return [run for run in calls if not run.within(RunKind.RETRIEVER)]


def _grounding_calls(interaction: Interaction, prompts: Mapping[Run, str]) -> list[Run]:
    """The answering call, and the calls whose output went into its prompt, in order."""
    calls = list(prompts)
    answering = _answering_call(calls, interaction.root.text)
    if answering is None:
        return []
    grounding = {answering}
    for call in reversed(calls[: calls.index(answering)]):
        output = _fold(call.text or "")[:_PREFIX]
        if len(output) >= _TELLING and any(output in prompts[later] for later in grounding):
            grounding.add(call)
    return [call for call in calls if call in grounding]


def _answering_call(calls: Sequence[Run], answer: str | None) -> Run | None:
    told = [call for call in calls if call.text]
    wanted = _fold(answer or "")
    for call in reversed(told):
        output = _fold(call.text or "")
        if wanted and (output in wanted or wanted in output):
            return call
    return told[-1] if told else (calls[-1] if calls else None)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a text stands: the number of the prompt, and the span in it."""

    prompt: int
    start: int
    length: int

    def holds(self, other: _Place) -> bool:
        """Whether the other place lies within this one."""
        ends = self.start + self.length, other.start + other.length
        return self.prompt == other.prompt and self.start <= other.start and ends[1] <= ends[0]


def _in_prompts(candidates: Mapping[str, Context], prompts: Sequence[str]) -> tuple[Context, ...]:
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
    kept: list[tuple[str, _Place]] = []
    for text, place in ordered:
        if not kept or not (kept[-1][1].holds(place) and text in kept[-1][0]):
            kept.append((text, place))
    return tuple(candidates[text] for text, _ in kept)


def _whole(candidates: Mapping[str, Context], prompts: Sequence[str]) -> dict[str, _Place]:
    found = {}
    for text, context in candidates.items():
        if len(text) >= _TELLING:
            places = (_find(form, prompts) for form in _forms(text, context))
            if (place := next(filter(None, places), None)) is not None:
                found[text] = place
    return found


def _forms(text: str, context: Context) -> Iterator[str]:
    """The text as it is, and as it stands inside JSON."""
    yield text
    yield _fold(json.dumps(context.text)[1:-1])
    yield _fold(json.dumps(context.text, ensure_ascii=False)[1:-1])


def _cut(text: str, prompts: Sequence[str]) -> _Place | None:
    return _find(text[:_PREFIX], prompts) if len(text) > _PREFIX else None


def _find(text: str, prompts: Sequence[str]) -> _Place | None:
    for number, prompt in enumerate(prompts):
        start = prompt.find(text)
        if start >= 0:
            return _Place(number, start, len(text))
    return None


def _with_short_texts(
    seen: tuple[Context, ...], lists: Sequence[DocumentList]
) -> tuple[Context, ...]:
    """What was seen, with texts too short to be looked for, by where their list has them.

    They belong to the last list that was seen: what stood beside them was in the prompt.
    """
    texts = {_fold(context.text) for context in seen}
    for found in reversed(lists):
        folded = [_fold(context.text) for context in found.contexts]
        if not texts.isdisjoint(folded):
            short = [c for c, text in zip(found.contexts, folded, strict=True) if _is_short(text)]
            return (*seen, *short) if short else seen
    return seen


def _is_short(folded: str) -> bool:
    return 0 < len(folded) < _TELLING


def _by_structure(lists: Sequence[DocumentList]) -> tuple[Context, ...]:
    outside = [found for found in lists if found.run.kind is not RunKind.RETRIEVER]
    if outside:
        return outside[-1].contexts
    outermost = [found for found in lists if not found.run.within(RunKind.RETRIEVER)]
    return _once(context for found in outermost for context in found.contexts)


def _once(contexts: Iterable[Context]) -> tuple[Context, ...]:
    first: dict[str, Context] = {}
    for context in contexts:
        first.setdefault(_fold(context.text), context)
    return tuple(first.values())


def _fold(text: str) -> str:
    return " ".join(text.split())
