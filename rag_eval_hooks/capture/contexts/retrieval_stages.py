"""Queries to retrievers, and documents of stages before the last."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rag_eval_hooks.capture.contexts.text_forms import fold
from rag_eval_hooks.capture.records import Interaction, Origin, Run, RunKind
from rag_eval_hooks.sample import Context

__all__ = ["Rewritten", "condensed", "queries", "stages"]

_RETRIEVED = (Origin.DOCUMENTS, Origin.GIVEN, Origin.SOURCES)
_MOST = 8
"""Stages and queries kept."""
_SHARED = 0.6
"""Part of their words that two texts share of which one was rewritten from the other."""


def queries(interaction: Interaction) -> list[str]:
    """Return the distinct queries of outermost retrievers, in order."""
    return list(dict.fromkeys(run.query for run in _asked(interaction) if run.query))[:_MOST]


def condensed(interaction: Interaction, question: str) -> str | None:
    """Return the only query, if it was made of the question and asked in its place.

    A model that picks a tool, or divides the question into several, makes other queries of it.
    """
    asked = _asked(interaction)
    query = next((run.query for run in asked if run.query), "")
    alone = all(run.query in (query, "", None) for run in asked)
    if query in ("", question) or not alone or any(run.within(RunKind.TOOL) for run in asked):
        return None
    before = interaction.runs[: interaction.runs.index(asked[0])]
    said = (fold(run.text or "") for run in before if run.kind is RunKind.MODEL)
    query_said = fold(query)
    return query if all(query_said == text or query_said not in text for text in said) else None


def _asked(interaction: Interaction) -> list[Run]:
    return [
        run
        for run in interaction.runs[1:]
        if run.kind is RunKind.RETRIEVER and not run.within(RunKind.RETRIEVER)
    ]


def stages(
    interaction: Interaction, final: tuple[Context, ...] | None
) -> list[tuple[str, tuple[Context, ...]]]:
    """Return lists with more or other documents than the final contexts, by their source."""
    kept: list[tuple[str, tuple[Context, ...]]] = []
    rewritten = Rewritten(interaction)
    last = {context.text for context in final or ()}
    seen: set[tuple[str, ...]] = set()
    for found in interaction.lists:
        texts = tuple(context.text for context in found.contexts)
        if found.origin in _RETRIEVED and texts not in seen and not last.issuperset(texts):
            seen.add(texts)
            kept.append((found.run.name, rewritten.of(found.contexts)))
    return kept[:_MOST]


class Rewritten:
    """Texts that a later step rewrote, as one that masks names does.

    What was taken out must not come back by way of an earlier stage. Two documents are one if
    they share their id; without ids, if they share their metadata and most of their words.

    Args:
        interaction: An ended one.
    """

    def __init__(self, interaction: Interaction) -> None:
        self._latest: dict[str, str] = {}
        self._bare: list[dict[str, Context]] = []
        for found in reversed(interaction.lists):
            if found.origin in _RETRIEVED:
                self._note(found.contexts)

    def of(self, contexts: tuple[Context, ...]) -> tuple[Context, ...]:
        """Return documents with the last text of each."""
        return tuple(replace(context, text=self._text(context)) for context in contexts)

    def _note(self, contexts: tuple[Context, ...]) -> None:
        named = [context for context in contexts if context.id is not None]
        shared = {n for n, times in Counter(c.id for c in named).items() if times > 1}
        for context in named:
            if context.id is not None and context.id not in shared:
                self._latest.setdefault(context.id, context.text)
        self._bare.append({c.text: c for c in contexts if c.id is None})

    def _text(self, context: Context) -> str:
        text = context.text
        if context.id is not None and self._latest.get(context.id, text) != text:
            return self._latest[context.id]
        for bare in self._bare:
            if text in bare:
                return text
            if alike := next((c for c in bare.values() if _are_alike(context, c)), None):
                return alike.text
        return text


def _are_alike(one: Context, other: Context) -> bool:
    if one.metadata != other.metadata:
        return False
    words, others = set(one.text.split()), set(other.text.split())
    return len(words & others) >= _SHARED * max(1, len(words | others))
