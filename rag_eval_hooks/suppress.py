"""Keeps judge calls out of the application's traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry import context

__all__ = ["is_suppressed", "paused", "suppressed"]

# Private names of opentelemetry-api that all instrumentations share. If a future version renames
# them, judge calls appear in traces, but the import still works.
_INSTRUMENTATION: Final[str] = getattr(
    context, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation"
)
_HTTP: Final[str] = getattr(
    context, "_SUPPRESS_HTTP_INSTRUMENTATION_KEY", "suppress_http_instrumentation"
)
_PAUSED: Final = context.create_key("rag_eval_paused")


def _suppressing() -> context.Context:
    fresh = context.set_value(_INSTRUMENTATION, True, context.Context())
    fresh = context.set_value(_HTTP, True, fresh)
    # Older instrumentations read this name.
    return context.set_value("suppress_instrumentation", True, fresh)


_SUPPRESSING: Final = _suppressing()


@contextmanager
def suppressed() -> Iterator[None]:
    """Suppress instrumentation in the block, in a separate OpenTelemetry context.

    Only worker tasks may use this block, because the block replaces the current context.
    """
    token = context.attach(_SUPPRESSING)
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def paused() -> Iterator[None]:
    """Pause our own capture for runs that start in the block. Other instrumentors continue."""
    token = context.attach(context.set_value(_PAUSED, True))
    try:
        yield
    finally:
        context.detach(token)


def is_suppressed() -> bool:
    """Return whether the caller runs inside an evaluation or while capture is paused."""
    current = context.get_current()
    return bool(current.get(_INSTRUMENTATION) or current.get(_PAUSED))
