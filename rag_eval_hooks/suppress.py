"""Suppression of judge calls in the application's traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry import context

__all__ = ["is_suppressed", "paused", "suppressed"]

# Private names of opentelemetry-api, shared by all instrumentations. Without the names of a future
# version, judge calls stay in the traces, and the import of this package still works.
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
    # Instrumentations older than the shared keys read this name.
    return context.set_value("suppress_instrumentation", True, fresh)


_SUPPRESSING: Final = _suppressing()


@contextmanager
def suppressed() -> Iterator[None]:
    """Suppress instrumentations in the block, in an OpenTelemetry context of its own.

    Only for tasks of the worker; the context of an application is never replaced.
    """
    token = context.attach(_SUPPRESSING)
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def paused() -> Iterator[None]:
    """Capture nothing that starts in the block; other instrumentations go on."""
    token = context.attach(context.set_value(_PAUSED, True))
    try:
        yield
    finally:
        context.detach(token)


def is_suppressed() -> bool:
    """Return whether the caller runs inside an evaluation, or where capture is paused."""
    current = context.get_current()
    return bool(current.get(_INSTRUMENTATION) or current.get(_PAUSED))
