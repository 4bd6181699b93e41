"""Build interactions from submitted samples, so that their spans match captured requests."""

from __future__ import annotations

import time

from opentelemetry import context as otel_context

from rag_eval_hooks.capture.records import DocumentList, Interaction, Origin, Run, RunKind
from rag_eval_hooks.decision import Traits
from rag_eval_hooks.sample import Sample

__all__ = ["interaction_of"]

_NAME = "sample"
"""Default workflow name of a submitted sample."""


def interaction_of(sample: Sample) -> Interaction:
    """Return a finished interaction below the current span, with one retrieval for all contexts."""
    end = sample.ended_at or time.time_ns()
    start = end - int((sample.latency or 0.0) * 1e9)
    interaction = Interaction(
        otel_context.get_current(),
        metadata=dict(Traits.of(sample).metadata),
        tags=sample.tags,
        status=sample.status,
        kept_chars=sample.chars,
    )
    root = Run(
        sample.sample_id,
        RunKind.MANUAL,
        sample.workflow or _NAME,
        None,
        interaction,
        start,
        end=end,
    )
    root.query, root.text, root.error_type = sample.question, sample.answer, sample.error_type
    interaction.runs.append(root)
    if sample.contexts is not None:
        retrieval = Run(
            object(), RunKind.RETRIEVER, "contexts", root, interaction, start, end=start
        )
        retrieval.query = sample.question
        interaction.runs.append(retrieval)
        interaction.lists.append(DocumentList(retrieval, sample.contexts, Origin.STATED))
    return interaction
