"""Finds LangChain's current run, and keeps errors of the handler away from the application."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from inspect import getattr_static
from typing import Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import register_configure_hook
from opentelemetry import trace
from opentelemetry.trace import Span

from rag_eval_hooks.capture import Run, RunKind
from rag_eval_hooks.capture.options import OWN_KEYS, own_entries
from rag_eval_hooks.incidents import place_of_caller, warn_once

_OWN_KEYS = frozenset(OWN_KEYS)


def key_of(run_id: Any) -> Any:
    # Hashing and comparing the integer takes a quarter of the time that the UUID takes.
    return getattr(run_id, "int", run_id)


def current_manager() -> Any:
    config = var_child_runnable_config.get()
    return None if config is None else config.get("callbacks")


def current_run_id() -> Any:
    return key_of(getattr(current_manager(), "parent_run_id", None))


def current_handlers() -> Sequence[BaseCallbackHandler]:
    return getattr(current_manager(), "handlers", None) or ()


def note_belonging(run: Run, metadata: Mapping[str, Any]) -> None:
    # Read the run's config, because LangChain 1.0 and later omit `configurable` from the metadata.
    # An `interaction()` block receives all metadata of a call.
    interaction = run.interaction
    is_read = interaction.configured and not run.outermost
    if is_read and _OWN_KEYS.isdisjoint(metadata):
        return
    entries = metadata if run.outermost else own_entries(metadata)
    if not interaction.configured and (config := var_child_runnable_config.get()) is not None:
        interaction.configured = True
        entries = {**own_entries(config.get("configurable") or {}), **entries}
    if entries:
        interaction.add_metadata({**entries, **interaction.metadata})


class InlineUnlessWithheld:
    # With an inline handler, no event needs a worker thread. But langchain-core's async
    # `on_llm_start` calls inline handlers *instead of* all other handlers. There, the attribute is
    # true only if another handler is inline, too.
    def __get__(self, handler: Any, owner: type | None = None) -> bool:
        asking = sys._getframe(1)
        if "on_llm_start" not in asking.f_code.co_qualname:
            return True
        if asking.f_code.co_name != "on_llm_start" and asking.f_back is not None:
            # Before Python 3.12, a comprehension has its own frame.
            asking = asking.f_back
        handlers = getattr(asking.f_locals.get("self"), "handlers", ())
        others = (one for one in handlers if getattr_static(one, "run_inline", None) is not self)
        return any(one.run_inline for one in others)


class NotIgnored:
    # On an object, the attribute is always false. On the class, a read logs a warning.
    def __get__(self, handler: object, owner: type) -> bool:
        is_asked = "langchain" in str(sys._getframe(1).f_globals.get("__name__"))
        if handler is None and is_asked and (place := place_of_caller()):
            problem = f"The class {owner.__name__}, passed at {place}, captures nothing."
            warn_once(f"{problem} Pass an object: callbacks=[{owner.__name__}(evals)]")
        return handler is None


class _Ambient:
    # Replaces the context variable that LangChain reads at the start of every run. `everywhere` is
    # the handler of the process. `here` is the handler of the current context and has priority.
    def __init__(self) -> None:
        self.everywhere: BaseCallbackHandler | None = None
        self.here: ContextVar[BaseCallbackHandler | None] = ContextVar("rag_eval", default=None)

    def get(self) -> BaseCallbackHandler | None:
        return self.here.get() or self.everywhere


AMBIENT = _Ambient()


@functools.cache
def ask_ambient() -> None:
    # LangChain cannot unregister a hook.
    register_configure_hook(cast("ContextVar[Any]", AMBIENT), inheritable=True)


_LookUp = Callable[[Any, UUID], Any]
# Each function returns the span that another instrumentor's handler created for a run. Only
# OpenInference has a public function for this. If a private function fails, the scores go to the
# evaluation span.
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


def vendor_span(root: Run) -> tuple[bool, Span | None]:
    # The first value tells whether another instrumentor is active. The second value is that
    # instrumentor's span for `root`, if known.
    if not isinstance(root.id, int):
        return False, None
    is_active, run_id = _is_langfuse_current(root), UUID(int=root.id)
    # Instrumentors add their handler to every manager.
    for handler in (*BaseCallbackManager([]).inheritable_handlers, *current_handlers()):
        # A proxy reports the class of its target.
        kind: type = handler.__class__
        if (look_up := _look_up(kind)) is None:
            continue
        is_active = True
        # A different version of the instrumentor stores its spans elsewhere.
        with contextlib.suppress(AttributeError, LookupError, TypeError):
            if isinstance(span := look_up(handler, run_id), Span):
                return True, span
    return is_active, None


@functools.lru_cache(maxsize=256)
def _look_up(kind: type) -> _LookUp | None:
    packages = ((base.__module__.rpartition(".")[0], base.__name__) for base in kind.__mro__)
    return next((_LOOK_UPS[one] for one in packages if one in _LOOK_UPS), None)


def _is_langfuse_current(root: Run) -> bool:
    # A classic chain hides Langfuse's handler from us. Only Langfuse's current span then shows that
    # Langfuse is active.
    current = trace.get_current_span()
    scope = getattr(current, "instrumentation_scope", None)
    is_theirs = getattr(scope, "name", None) == "langfuse-sdk"
    return is_theirs and current is not trace.get_current_span(root.interaction.otel)


def start_edge(kind: RunKind) -> Callable[[Callable[..., None]], Any]:
    def edge(method: Callable[..., None]) -> Any:
        @functools.wraps(method)
        def starting(self: Any, serialized: Any, given: Any, **event: Any) -> None:
            try:
                recorder, run_id = self._recorder, key_of(event["run_id"])
                parent_id = key_of(event.get("parent_run_id"))
                recorder.unmatched.handlers[self.place] = True
                if recorder.left_out and recorder.skips(run_id, parent_id, kind):
                    return
                run = self._start(kind, run_id, parent_id, serialized, event)
                if run is not None:
                    method(self, run, serialized, given, event)
            except Exception as error:  # noqa: BLE001 - the host's edge
                self._lose(method.__name__, error, event)

        return starting

    return edge


def end_edge(method: Callable[..., None]) -> Any:
    @functools.wraps(method)
    def ending(self: Any, output: Any, **event: Any) -> None:
        try:
            if (run := self._ended(event)) is None:
                return
            try:
                method(self, run, output, event)
            except Exception:
                self._recorder.lost(run.id)
                raise
            finally:
                self._recorder.end(run)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._lose(method.__name__, error, event)

    return ending
