"""Decides whether anything was retrieved in an interaction of which that is unsure."""

from __future__ import annotations

from rag_eval_hooks.capture.contexts.countable import countable, guesses
from rag_eval_hooks.capture.contexts.search import shown_in
from rag_eval_hooks.capture.contexts.text_forms import fold, is_telling_text
from rag_eval_hooks.capture.interaction import Interaction, Origin

__all__ = ["has_retrieved"]


def has_retrieved(interaction: Interaction) -> bool:
    """Return whether texts of tools or steps, or what the caller gave, were used as documents.

    Documents that the caller gave count if a model saw one, or could have; texts of tools if they
    are no echo; texts of steps if a model saw one. What is no retrieval is dropped.

    Args:
        interaction: An ended one in which nothing was surely retrieved.
    """
    prompt = " ".join(fold(text) for run in interaction.runs for text in run.prompt)
    given = [found for found in interaction.lists if found.origin is Origin.GIVEN]
    texts = [context.text for found in given for context in found.contexts]
    known = all(is_telling_text(text) for text in texts) and not interaction.left_out
    if given and prompt and known and not shown_in(prompt, given):
        interaction.lists = [f for f in interaction.lists if f.origin is not Origin.GIVEN]
    if countable(interaction, None):
        return True
    steps = guesses(interaction, Origin.STEP)
    return bool(prompt and steps and shown_in(prompt, steps))
