"""How an interaction ended, by what ended it and what was still open."""

from __future__ import annotations

import asyncio

from rag_eval_hooks.capture.run import Interaction, RunKind
from rag_eval_hooks.sample import Status

__all__ = ["closed_early", "status_of"]


def closed_early(interaction: Interaction) -> Status:
    """A root that ends well while its model still runs was a stream that nobody read on."""
    if interaction.root.kind is RunKind.MANUAL and interaction.root.text is not None:
        return Status.OK
    models = [run for run in interaction.runs if run.kind is RunKind.MODEL]
    return Status.CLOSED if models and models[-1].end is None else Status.OK


def status_of(error: type[BaseException]) -> Status:
    """What an exception of a class makes of the interaction that it ends."""
    if issubclass(error, GeneratorExit):
        return Status.CLOSED
    if issubclass(error, asyncio.CancelledError):
        return Status.CANCELLED
    return Status.ERROR
