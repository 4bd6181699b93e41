"""Run, handlers and config around the caller, and how LangChain finds and calls a handler."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import register_configure_hook
from opentelemetry import trace
from opentelemetry.trace import Span

from rag_eval_hooks.capture import Run

__all__ = [
    "AMBIENT",
    "InlineUnlessWithheld",
    "ask_ambient",
    "current_handlers",
    "current_manager",
    "current_run_id",
    "key_of",
    "vendor_span",
]


def key_of(run_id: Any) -> Hashable | None:
    """Return the key of a run, equal for a UUID and its text; None for no run.

    Hosts give ids of their own, often as text, to know a request again.
    """
    # A UUID hashes and compares in Python, its integer in C: a quarter of our time.
    if isinstance(run_id, UUID):
        return run_id.int
    if isinstance(run_id, str):
        with contextlib.suppress(ValueError):
            return UUID(run_id).int
        return run_id
    return run_id if isinstance(run_id, Hashable) else repr(run_id)


def current_manager() -> Any:
    """Return the callback manager of LangChain's run around the caller, or None."""
    config = var_child_runnable_config.get()
    return None if config is None else config.get("callbacks")


def current_run_id() -> Hashable | None:
    """Return the key of that run, or None."""
    return key_of(getattr(current_manager(), "parent_run_id", None))


def current_handlers() -> Sequence[BaseCallbackHandler]:
    """Return the handlers of that run."""
    return getattr(current_manager(), "handlers", None) or ()


class InlineUnlessWithheld:
    """Value of a handler's `run_inline`: true except for the one function that true misleads.

    Inline handlers spare async runs a worker thread for each event. But `on_llm_start` of
    langchain-core's asynchronous manager calls inline handlers *instead of* all others for plain
    models. If this one says that it is not inline, all are called, and each event is then handled
    inline after all. Where another handler is inline anyway, this one must be, too.
    """

    def __get__(self, handler: Any, owner: type | None = None) -> bool:
        """Return whether events are handled inline, as far as the caller is concerned."""
        asking = sys._getframe(1)
        if asking.f_code.co_name in ("<listcomp>", "<genexpr>") and asking.f_back is not None:
            # Before Python 3.12 a comprehension has a frame of its own.
            asking = asking.f_back
        if asking.f_code.co_name != "on_llm_start":
            return True
        handlers = getattr(asking.f_locals.get("self"), "handlers", ())
        return any(one.run_inline for one in handlers if not self._is_of(one))

    def _is_of(self, handler: object) -> bool:
        return any(vars(kind).get("run_inline") is self for kind in type(handler).__mro__)


class _Ambient:
    """Stand-in for the context variable that LangChain reads at the start of every run.

    Attributes:
        everywhere: The handler that every run of the process gets, or None.
        here: The handler that runs in the current context get.
    """

    def __init__(self) -> None:
        self.everywhere: BaseCallbackHandler | None = None
        self.here: ContextVar[BaseCallbackHandler | None] = ContextVar("rag_eval", default=None)

    def get(self) -> BaseCallbackHandler | None:
        """Return the handler that a run which starts now gets, or None."""
        return self.here.get() or self.everywhere


AMBIENT = _Ambient()


@functools.cache
def ask_ambient() -> None:
    """Let LangChain ask for the ambient handler from now on: a hook cannot be taken back."""
    register_configure_hook(cast("ContextVar[Any]", AMBIENT), inheritable=True)


# Spans of other instrumentors.

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
"""By package and class of another instrumentor's handler: from a run's id to its span.

Only OpenInference's is public, so every look-up may find nothing; then the scores are on the
evaluation span."""


def vendor_span(root: Run) -> tuple[bool, Span | None]:
    """Return whether another instrumentor is active for the current run, and its root span.

    Args:
        root: The outermost run around the current one; its id is the integer of a UUID.
    """
    if not isinstance(root.id, int):
        return False, None
    spans = list(_vendor_spans(UUID(int=root.id)))
    is_active = bool(spans) or _is_langfuse_current(root)
    return is_active, next((span for span in spans if span is not None), None)


def _vendor_spans(run_id: UUID) -> Iterator[Span | None]:
    # Instrumentors add theirs to every manager.
    for handler in (*BaseCallbackManager([]).inheritable_handlers, *current_handlers()):
        # Of a proxy, the class that it stands for.
        for base in handler.__class__.__mro__:
            look_up = _LOOK_UPS.get((base.__module__.rpartition(".")[0], base.__name__))
            if look_up is not None:
                try:
                    span = look_up(handler, run_id)
                except (AttributeError, LookupError, TypeError):
                    # Another version keeps its spans elsewhere.
                    span = None
                yield span if isinstance(span, Span) else None


def _is_langfuse_current(root: Run) -> bool:
    """Return whether Langfuse's handler, hidden by a classic chain, made its span current.

    A span of Langfuse that was current before the root run began is the application's own.
    """
    current = trace.get_current_span()
    scope = getattr(current, "instrumentation_scope", None)
    is_theirs = getattr(scope, "name", None) == "langfuse-sdk"
    return is_theirs and current is not trace.get_current_span(root.interaction.otel)
