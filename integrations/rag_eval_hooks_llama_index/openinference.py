"""The spans that OpenInference's instrumentor writes of LlamaIndex's calls."""

from __future__ import annotations

from typing import Any, cast

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined, unused-ignore]
from opentelemetry.trace import Span

from rag_eval_hooks.capture import Run

__all__ = ["openinference_span"]

_HANDLERS = "openinference.instrumentation.llama_index."


def openinference_span(root: Run) -> tuple[bool, Span | None]:
    """Return whether another instrumentor writes spans, and its span of a root.

    OpenInference is not imported: its handler is looked for among those of LlamaIndex's root
    dispatcher. It maps span ids to spans, not publicly, so its span may not be found, and then
    scores are only on the evaluation span.
    """
    for handler in get_dispatcher().span_handlers:
        if type(handler).__module__.startswith(_HANDLERS):
            try:
                # Of another class than the handlers that LlamaIndex types.
                span = cast("Any", handler).open_spans[root.id]._otel_span
            except (AttributeError, LookupError, TypeError):
                # Not there, or another version keeps its spans elsewhere.
                return True, None
            return True, span if isinstance(span, Span) else None
    return False, None
