"""Finds the span that another instrumentor of LlamaIndex writes for a run.

None of them is imported: OpenInference's is looked for among the span handlers of LlamaIndex's
root dispatcher. It maps span ids to spans, not publicly, so the look-up may find nothing, and then
the scores are on the carrier span.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined, unused-ignore]
from opentelemetry.trace import Span

from rag_eval_hooks.capture import Run

__all__ = ["find_other"]

_PACKAGE = "openinference.instrumentation.llama_index."


def find_other(root: Run) -> tuple[bool, Span | None]:
    """Whether another instrumentor writes spans, and its span of the root.

    Args:
        root: The outermost run around the current one; its id is LlamaIndex's span id.
    """
    for handler in get_dispatcher().span_handlers:
        if type(handler).__module__.startswith(_PACKAGE):
            return True, _span(handler, root.id)
    return False, None


def _span(handler: Any, span_id: object) -> Span | None:
    try:
        span = handler.open_spans[span_id]._otel_span
    except (AttributeError, LookupError, TypeError):
        # Not there, or another version keeps its spans elsewhere.
        return None
    return span if isinstance(span, Span) else None
