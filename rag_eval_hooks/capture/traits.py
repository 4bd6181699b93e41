"""What sampling rules go by, of a captured interaction."""

from __future__ import annotations

import functools

from rag_eval_hooks.capture import Interaction
from rag_eval_hooks.capture.contexts.retrieval_stages import queries
from rag_eval_hooks.capture.sample_parts import answer_of, seconds, session_of
from rag_eval_hooks.decision import Traits

__all__ = ["traits_of_interaction"]


def traits_of_interaction(interaction: Interaction) -> Traits:
    """What rules go by of an interaction that a framework's run was."""
    root = interaction.root
    session = session_of(interaction.metadata)
    return Traits(
        # As in the sample: a root may show no question where its retriever was asked one.
        question=root.query or next(iter(queries(interaction)), ""),
        # Once, whatever number of rules asks: it is looked for in all that models said.
        answer=functools.cache(lambda: answer_of(interaction)),
        tags=interaction.tags,
        metadata={**interaction.metadata, **({"session_id": session} if session else {})},
        error_type=root.error_type,
        latency=seconds(root),
    )
