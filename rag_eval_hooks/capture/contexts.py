"""Finds what the answering model saw among all documents that passed by.

The contexts of an answer are the documents whose text stands in the prompts of the model calls
that made it, in prompt order: whatever graders, rerankers and formatters did in between. Where
no prompt holds any of them, the last list outside a retriever stands in, then the lists of the
outermost retrievers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    candidates = _distinct(interaction.lists)
    prompts = [_fold(" ".join(run.prompt)) for run in _grounding_calls(interaction)]
    return _in_prompts(candidates, prompts) or _by_structure(interaction.lists)


def _distinct(lists: Sequence[DocumentList]) -> dict[str, Context]:
    """Each text once; a later stage knows more about it, such as a reranker's score."""
    return {_fold(context.text): context for found in lists for context in found.contexts}


def _grounding_calls(interaction: Interaction) -> list[Run]:
    """The answering call, and the calls whose output went into its prompt, in order."""
    calls = [run for run in interaction.runs if run.kind is RunKind.MODEL and run.prompt]
    calls = [run for run in calls if not run.within(RunKind.RETRIEVER)]
    answering = _answering_call(calls, interaction.root.text)
    if answering is None:
        return []
    grounding = {answering}
    for call in reversed(calls[: calls.index(answering)]):
        if any(_quotes(later, call) for later in grounding):
            grounding.add(call)
    return [call for call in calls if call in grounding]


def _answering_call(calls: Sequence[Run], answer: str | None) -> Run | None:
    told = [call for call in calls if call.text]
    for call in reversed(told):
        output, wanted = _fold(call.text or ""), _fold(answer or "")
        if wanted and (output in wanted or wanted in output):
            return call
    return told[-1] if told else (calls[-1] if calls else None)


def _quotes(later: Run, call: Run) -> bool:
    output = _fold(call.text or "")
    return len(output) >= _TELLING and output[:_PREFIX] in _fold(" ".join(later.prompt))


def _in_prompts(candidates: dict[str, Context], prompts: Sequence[str]) -> tuple[Context, ...]:
    """The candidates that stand in a prompt, by place; a text inside another one once."""
    places: list[tuple[int, int, int, Context]] = []
    for text, context in candidates.items():
        place = _place(text, prompts)
        if place is not None:
            # At equal places the longer text comes first, so that it shadows the shorter.
            places.append((*place, -len(text), context))
    places.sort(key=lambda found: found[:3])
    kept: list[Context] = []
    reach = (-1, -1)
    for prompt, start, length, context in places:
        end = (prompt, start - length)
        if end > reach:
            kept.append(context)
            reach = end
    return tuple(kept)


def _place(text: str, prompts: Sequence[str]) -> tuple[int, int] | None:
    if len(text) < _TELLING:
        return None
    for number, prompt in enumerate(prompts):
        start = prompt.find(text[:_PREFIX])
        if start >= 0:
            return number, start
    return None


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
