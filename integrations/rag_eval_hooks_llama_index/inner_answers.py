"""Documents behind answers that query engines gave within a retriever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rag_eval_hooks.capture import Origin, Run, RunKind
from rag_eval_hooks.sample import Context

__all__ = ["with_documents_behind_answers"]


def with_documents_behind_answers(
    run: Run, contexts: Sequence[Context], shown: Mapping[int, str]
) -> tuple[tuple[Context, ...], Mapping[int, str]]:
    """Return documents that a run gave out, with the sources of an answer in its place.

    A node that links to a query engine becomes a node of what a model answered there, which was
    retrieved nowhere.

    Args:
        run: A retriever, or what names its sources.
        contexts: What it gave out.
        shown: By index, the text in the form in which a model is shown it.
    """
    lists = run.interaction.lists
    answers = [
        found
        for found in lists
        if found.origin is Origin.SOURCES and found.run.text and found.run.within(RunKind.RETRIEVER)
    ]
    if not answers:
        return tuple(contexts), shown
    known = {c.id for found in lists if found.origin is Origin.DOCUMENTS for c in found.contexts}
    pairs: list[tuple[Context, str | None]] = []
    for index, context in enumerate(contexts):
        said = [found.run.text or "" for found in answers if (found.run.text or "") in context.text]
        if not said or context.id in known:
            pairs.append((context, shown.get(index)))
            continue
        behind = (found for found in answers if found.run.text == max(said, key=len))
        pairs += [(one, f.shown.get(n)) for f in behind for n, one in enumerate(f.contexts)]
    forms = {n: form for n, (_, form) in enumerate(pairs) if form is not None}
    return tuple(context for context, _ in pairs), forms
