"""What was asked of retrievers, and what stood at stages before the last."""

from __future__ import annotations

from rag_eval_hooks.capture.run import Interaction, Origin, RunKind
from rag_eval_hooks.sample import Context

__all__ = ["queries", "stages"]

_MOST = 8
"""Stages and queries kept."""


def queries(interaction: Interaction) -> list[str]:
    """The different queries of the retrievers that stand in no other retriever, in order."""
    asked = (
        run.query
        for run in interaction.runs[1:]
        if run.kind is RunKind.RETRIEVER and run.query and not run.within(RunKind.RETRIEVER)
    )
    return list(dict.fromkeys(asked))[:_MOST]


def stages(
    interaction: Interaction, final: tuple[Context, ...] | None
) -> list[tuple[str, tuple[Context, ...]]]:
    """Lists of documents that hold more or others than the final contexts, by who gave them."""
    kept: list[tuple[str, tuple[Context, ...]]] = []
    last = {context.text for context in final or ()}
    seen: set[tuple[str, ...]] = set()
    for found in interaction.lists:
        texts = tuple(context.text for context in found.contexts)
        if found.origin is Origin.DOCUMENTS and texts not in seen and not last.issuperset(texts):
            seen.add(texts)
            kept.append((found.run.name, found.contexts))
    return kept[:_MOST]
