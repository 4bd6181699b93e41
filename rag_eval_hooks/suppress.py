"""Suppression of judge calls in the application's traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry import context
from opentelemetry.context import _SUPPRESS_HTTP_INSTRUMENTATION_KEY, _SUPPRESS_INSTRUMENTATION_KEY

__all__ = ["is_suppressed", "paused", "suppressed"]

_PAUSED: Final = context.create_key("rag_eval_paused")


def _suppressing() -> context.Context:
    fresh = context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True, context.Context())
    fresh = context.set_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY, True, fresh)
    # Instrumentations older than the shared keys read this name.
    return context.set_value("suppress_instrumentation", True, fresh)


_SUPPRESSING: Final = _suppressing()


@contextmanager
def suppressed() -> Iterator[None]:
    """Suppress instrumentations in the block, in an OpenTelemetry context of its own.

    Only for tasks of the evaluator; the context of an application is never replaced.
    """
    token = context.attach(_SUPPRESSING)
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def paused() -> Iterator[None]:
    """Capture nothing that begins in the block; instrumentations of others go on."""
    token = context.attach(context.set_value(_PAUSED, True))
    try:
        yield
    finally:
        context.detach(token)


def is_suppressed() -> bool:
    """Return whether the caller runs inside an evaluation, or where capture is paused."""
    current = context.get_current()
    return bool(current.get(_SUPPRESS_INSTRUMENTATION_KEY) or current.get(_PAUSED))
