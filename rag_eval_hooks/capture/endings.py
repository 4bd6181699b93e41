"""How interactions end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rag_eval_hooks.capture.interaction import Interaction, Run, RunKind
from rag_eval_hooks.sample import Status

if TYPE_CHECKING:
    from rag_eval_hooks.capture.recorder import Recorder

__all__ = ["closed_early", "ending", "status_of"]


@contextlib.contextmanager
def ending(recorder: Recorder, run: Run) -> Iterator[None]:
    """Ends a run, even where what it gave out cannot be read: nothing else would end it."""
    try:
        yield
    finally:
        recorder.end(run)


def closed_early(interaction: Interaction) -> Status:
    """A root that ends well while its model still runs was a stream that nobody read on."""
    if interaction.root.kind is RunKind.MANUAL and interaction.root.text is not None:
        return Status.OK
    models = [run for run in interaction.runs if run.kind is RunKind.MODEL]
    return Status.CLOSED if models and models[-1].end is None else Status.OK


def status_of(error: type[BaseException]) -> Status:
    """The status of what an exception of a class ended."""
    if issubclass(error, GeneratorExit):
        return Status.CLOSED
    if issubclass(error, asyncio.CancelledError):
        return Status.CANCELLED
    return Status.ERROR
