"""Queries to retrievers, and documents of stages before the last."""

from __future__ import annotations

from rag_eval_hooks.capture.contexts.text_forms import fold
from rag_eval_hooks.capture.interaction import Interaction, Origin, Run, RunKind
from rag_eval_hooks.sample import Context

__all__ = ["condensed", "queries", "stages"]

_RETRIEVED = (Origin.DOCUMENTS, Origin.GIVEN)
_MOST = 8
"""Stages and queries kept."""


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
    last = {context.text for context in final or ()}
    seen: set[tuple[str, ...]] = set()
    for found in interaction.lists:
        texts = tuple(context.text for context in found.contexts)
        if found.origin in _RETRIEVED and texts not in seen and not last.issuperset(texts):
            seen.add(texts)
            kept.append((found.run.name, found.contexts))
    return kept[:_MOST]
