"""Keeps judge calls out of the application's traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from opentelemetry import context

_OLD_KEY: Final = "suppress_instrumentation"  # older instrumentations read this key
# All instrumentations share these private names. If opentelemetry-api renames the keys, judge calls
# appear in traces, but the import still works.
_INSTRUMENTATION: Final[str] = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", _OLD_KEY)
_HTTP: Final[str] = getattr(context, "_SUPPRESS_HTTP_INSTRUMENTATION_KEY", _OLD_KEY)
_SUPPRESSING: Final = context.Context(dict.fromkeys((_INSTRUMENTATION, _HTTP, _OLD_KEY), True))
_PAUSED: Final = context.create_key("rag_eval_paused")
_OWNER: Final = context.create_key("rag_eval_owner")


@contextmanager
def _attached(changed: context.Context) -> Iterator[None]:
    token = context.attach(changed)
    try:
        yield
    finally:
        context.detach(token)


def suppressed(owner: object = None) -> AbstractContextManager[None]:
    """Suppress instrumentation in the block, in a separate OpenTelemetry context.

    The block replaces the current context, so only worker tasks may use this function. `owner` is
    the evaluator whose work the block contains.
    """
    return _attached(context.set_value(_OWNER, owner, _SUPPRESSING))


def is_work_of(owner: object) -> bool:
    return context.get_value(_OWNER) is owner


def paused() -> AbstractContextManager[None]:
    """Pause our capture for runs that start in the block. Other instrumentors continue."""
    return _attached(context.set_value(_PAUSED, True))


def is_suppressed() -> bool:
    """Return True if instrumentation is suppressed or capture is paused."""
    current = context.get_current()
    return bool(current.get(_INSTRUMENTATION) or current.get(_PAUSED))
