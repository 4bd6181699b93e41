"""Finds the span that another instrumentor of LangChain writes for a run.

None of them is imported: they are looked for among the handlers that LangChain calls. Their
callback handlers map run ids to spans; only OpenInference's does so publicly, so every look-up
may find nothing, and then the scores are on the evaluation span.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables.config import var_child_runnable_config
from opentelemetry import trace
from opentelemetry.trace import Span

from rag_eval_hooks.capture import Run

__all__ = ["vendor_span"]


def vendor_span(root: Run) -> tuple[bool, Span | None]:
    """Return whether another instrumentor is active for the current run, and its root span.

    Args:
        root: The outermost run around the current one; its id is the integer of a UUID.
    """
    run_id = root.id
    if not isinstance(run_id, int):
        return False, None
    active = False
    for handler in _handlers():
        # Of a proxy, the class that it stands for.
        kind: type = handler.__class__
        look_up = _look_up(kind)
        if look_up is not None:
            active = True
            span = _span(look_up, handler, UUID(int=run_id))
            if span is not None:
                return True, span
    return active or _langfuse_is_current(root), None


def _langfuse_is_current(root: Run) -> bool:
    """Return whether Langfuse's handler, hidden by a classic chain, made its span current.

    A span of Langfuse that was current before the root run began is the application's own.
    """
    current = trace.get_current_span()
    scope = getattr(current, "instrumentation_scope", None)
    if getattr(scope, "name", None) != "langfuse-sdk":
        return False
    return current is not trace.get_current_span(root.interaction.otel)


def _handlers() -> Iterator[object]:
    """Yield the handlers that instrumentors add to every manager, then those of the run."""
    yield from BaseCallbackManager([]).inheritable_handlers
    config = var_child_runnable_config.get()
    callbacks = config.get("callbacks") if isinstance(config, dict) else None
    yield from getattr(callbacks, "handlers", None) or ()


@functools.lru_cache(maxsize=256)
def _look_up(kind: type) -> Callable[[Any, UUID], Any] | None:
    for base in kind.__mro__:
        if (look_up := _LOOK_UPS.get((_package(base), base.__name__))) is not None:
            return look_up
    return None


def _package(kind: type) -> str:
    """Return the package of a class, without the module in it."""
    return kind.__module__.rpartition(".")[0]


def _span(look_up: Callable[[Any, UUID], Any], handler: object, run_id: UUID) -> Span | None:
    try:
        span = look_up(handler, run_id)
    except (AttributeError, LookupError, TypeError):
        # Another version keeps its spans elsewhere.
        return None
    return span if isinstance(span, Span) else None


_LOOK_UPS: Mapping[tuple[str, str], Callable[[Any, UUID], Any]] = {
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
