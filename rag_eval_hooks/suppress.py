"""Keeps our own judge calls out of the application's traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry import context
from opentelemetry.context import _SUPPRESS_HTTP_INSTRUMENTATION_KEY, _SUPPRESS_INSTRUMENTATION_KEY

__all__ = ["is_quiet", "quiet"]


def _suppressing() -> context.Context:
    fresh = context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True, context.Context())
    fresh = context.set_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY, True, fresh)
    # Instrumentations from before the keys were shared look for this plain name.
    return context.set_value("suppress_instrumentation", True, fresh)


_SUPPRESSING: Final = _suppressing()


@contextmanager
def quiet() -> Iterator[None]:
    """A fresh OpenTelemetry context in which instrumentations are suppressed.

    Only for tasks of the evaluator: an application's context is never attached to.
    """
    token = context.attach(_SUPPRESSING)
    try:
        yield
    finally:
        context.detach(token)


def is_quiet() -> bool:
    """Whether the caller runs inside an evaluation, whose calls are never captured."""
    return bool(context.get_value(_SUPPRESS_INSTRUMENTATION_KEY))
