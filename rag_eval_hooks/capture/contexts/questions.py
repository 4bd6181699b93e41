"""Chooses the question of an interaction."""

from __future__ import annotations

from collections.abc import Sequence

from rag_eval_hooks.capture.contexts.retrieval_stages import queries
from rag_eval_hooks.capture.contexts.text_forms import fold, is_telling
from rag_eval_hooks.capture.records import Interaction, Origin, RunKind

__all__ = ["question_of"]


def question_of(interaction: Interaction) -> tuple[str, str]:
    """Return the question, and where it was found.

    A text of the root's input comes before any query that was made of it. Of several texts, none
    under a usual name, that one counts which a retriever was asked or the first model was shown.

    Returns:
        The text, "" if there is none, and `recorded`, `input`, `prompt` or `query`.
    """
    root = interaction.root
    queried = queries(interaction)
    if root.query and root.kind is not RunKind.MANUAL:
        return root.query, "input"
    if root.query and interaction.joined:
        return root.query, "query" if root.query in queried else "prompt"
    if root.query:
        return root.query, "recorded"
    if interaction.asked:
        return _chosen(interaction, queried)
    if left := _left_in_state(interaction, queried):
        # Of several nobody knows which is the question; a query is none of them.
        return left[0] if len(left) == 1 else "", "input"
    return next(iter(queried), ""), "query"


def _left_in_state(interaction: Interaction, queried: Sequence[str]) -> list[str]:
    """Return the texts of a state that a retriever was asked, that prompts show, or all of them.

    A text with a document in it is none of the user's.
    """
    lists = (found for found in interaction.lists if found.origin is Origin.DOCUMENTS)
    documents = {fold(context.text) for found in lists for context in found.contexts}
    telling = list(filter(is_telling, documents))
    texts = {text: fold(text) for text in interaction.kept}
    texts = {text: one for text, one in texts.items() if not any(d in one for d in telling)}
    asked = set(map(fold, queried))
    prompts = [fold("\n".join(run.prompt)) for run in interaction.runs if run.prompt]
    exact = [text for text, folded in texts.items() if folded in asked]
    shown = [
        text
        for text, folded in texts.items()
        if is_telling(folded) and any(folded in prompt for prompt in prompts)
    ]
    return exact or shown or list(texts)


def _chosen(interaction: Interaction, queried: Sequence[str]) -> tuple[str, str]:
    texts = {text: fold(text) for text in interaction.asked}
    asked = [fold(query) for query in queried]
    prompts = [fold("\n".join(run.prompt)) for run in interaction.runs if run.prompt]
    for places, least in ((asked, 1), (prompts[:1], 0), (prompts, 0)):
        used = [
            text
            for text, folded in texts.items()
            if (least or is_telling(folded)) and any(folded in place for place in places)
        ]
        if used:
            return max(used, key=len), "prompt"
    return max(texts, key=len), "input"
