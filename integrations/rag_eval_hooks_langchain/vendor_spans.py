"""Finds the span that another instrumentor of LangChain writes for a run.

None of them is imported: they are looked for among the handlers that LangChain calls. Their
callback handlers map run ids to spans; only OpenInference's does so publicly, so every look-up
may find nothing, and then the scores are on the evaluation span.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackManager
from opentelemetry import trace
from opentelemetry.trace import Span

from rag_eval_hooks.capture import Run
from rag_eval_hooks_langchain.surroundings import current_handlers

__all__ = ["vendor_span"]

_LookUp = Callable[[Any, UUID], Any]
_LOOK_UPS: Mapping[tuple[str, str], _LookUp] = {
    ("openinference.instrumentation.langchain", "OpenInferenceTracer"): (
        lambda handler, run_id: handler.get_span(run_id)
    ),
    ("opentelemetry.instrumentation.genai.langchain", "OpenTelemetryLangChainCallbackHandler"): (
        lambda handler, run_id: handler._invocation_manager.get_invocation(run_id).span
    ),
    ("opentelemetry.instrumentation.langchain", "TraceloopCallbackHandler"): (
        lambda handler, run_id: handler.spans[run_id].span
    ),
    ("langfuse.langchain", "LangchainCallbackHandler"): (
        lambda handler, run_id: handler._runs[run_id]._otel_span
    ),
}
"""By package and class: from a handler and a run's id to its span."""


def vendor_span(root: Run) -> tuple[bool, Span | None]:
    """Return whether another instrumentor is active for the current run, and its root span.

    Args:
        root: The outermost run around the current one; its id is the integer of a UUID.
    """
    if not isinstance(root.id, int):
        return False, None
    active = False
    # Instrumentors add theirs to every manager.
    for handler in (*BaseCallbackManager([]).inheritable_handlers, *current_handlers()):
        # Of a proxy, the class that it stands for.
        kind: type = handler.__class__
        if (look_up := _look_up(kind)) is not None:
            active = True
            if (span := _span(look_up, handler, UUID(int=root.id))) is not None:
                return True, span
    return active or _is_langfuse_current(root), None


def _is_langfuse_current(root: Run) -> bool:
    """Return whether Langfuse's handler, hidden by a classic chain, made its span current.

    A span of Langfuse that was current before the root run began is the application's own.
    """
    current = trace.get_current_span()
    scope = getattr(current, "instrumentation_scope", None)
    is_theirs = getattr(scope, "name", None) == "langfuse-sdk"
    return is_theirs and current is not trace.get_current_span(root.interaction.otel)


@functools.lru_cache(maxsize=256)
def _look_up(kind: type) -> _LookUp | None:
    packages = ((base.__module__.rpartition(".")[0], base.__name__) for base in kind.__mro__)
    return next((_LOOK_UPS[one] for one in packages if one in _LOOK_UPS), None)


def _span(look_up: _LookUp, handler: object, run_id: UUID) -> Span | None:
    try:
        span = look_up(handler, run_id)
    except (AttributeError, LookupError, TypeError):
        # Another version keeps its spans elsewhere.
        return None
    return span if isinstance(span, Span) else None
