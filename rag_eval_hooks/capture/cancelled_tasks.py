"""Requests whose task was cancelled and of which the framework reports no end."""

from __future__ import annotations

import asyncio
from typing import Any

from rag_eval_hooks.capture.interaction import Interaction, RunKind

__all__ = ["current_task", "is_left"]


def current_task() -> asyncio.Task[Any] | None:
    """Return the task of the caller, or None outside of any."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def is_left(interaction: Interaction) -> bool:
    """Return whether the task that began an open interaction will never end it.

    A stream may be read on by another task. A model's call by itself is never a sample, so that
    any end of its task is its end. A batch reports its beginning in a task of its own, which shows
    no cancellation: it goes on while somebody holds what its end is reported by.
    """
    held = interaction.task
    if held is None:
        return False
    if not isinstance(held, asyncio.AbstractEventLoop):
        if not held.done():
            return False
        if held.cancelled() or interaction.root.kind is RunKind.MODEL:
            return True
        # What it returned may be what the end is reported by.
        interaction.task = held = held.get_loop()
    return held.is_closed() or (interaction.id is not None and interaction.id() is None)
