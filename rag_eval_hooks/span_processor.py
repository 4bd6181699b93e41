"""`RagEvalSpanProcessor`, which adds scores to other instrumentors' RAG spans."""

from __future__ import annotations

import time
from collections.abc import Iterable

from opentelemetry.context import Context
from opentelemetry.trace import Link

from rag_eval_hooks.errors import missing_extra

try:
    from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
except ImportError as error:
    raise missing_extra("RagEvalSpanProcessor", "otel") from error

from rag_eval_hooks import semconv
from rag_eval_hooks.evals import RagEval, checked
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.telemetry.held_spans import Addition, OtherSpan


class RagEvalSpanProcessor(SpanProcessor):
    """Wraps a span processor, and adds scores to the RAG spans of another instrumentor.

    With `spans="auto"`, an active instrumentor such as OpenInference writes the RAG span. This
    processor holds that span until its scores arrive, for at most `hold_timeout` seconds. Then the
    wrapped processor receives the span with the scores. Spans that need no scores pass immediately
    and unchanged.

    ```python
    evals = RagEval()
    exporter = BatchSpanProcessor(OTLPSpanExporter())
    provider.add_span_processor(RagEvalSpanProcessor(exporter, evals))
    ```
    """

    def __init__(self, inner: SpanProcessor, evals: RagEval) -> None:
        self._inner = inner
        # Keep a reference, because a garbage-collected evaluator is closed.
        self._evals = checked(evals)
        self._others = evals._pipeline.others
        self._incidents = evals.incidents
        self._wait = evals.config.hold_timeout
        self._others.processors += 1

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self._inner.on_start(span, parent_context)

    def _on_ending(self, span: Span) -> None:
        # A hook of the SDK, which older processors lack.
        if (hook := getattr(self._inner, "_on_ending", None)) is not None:
            hook(span)

    def on_end(self, span: ReadableSpan) -> None:
        addition: Addition | None = ({}, ())
        try:
            addition = self._others.ended(span, self._export)
        except Exception as error:  # noqa: BLE001 - the span must pass
            self._incidents.report("span processor", error)
        if addition is not None:
            self._export(span, addition)

    def _export(self, span: ReadableSpan, addition: Addition) -> None:
        self._inner.on_end(_ScoredSpan(span, addition) if any(addition) else span)

    def shutdown(self) -> None:
        """Pass all held spans to the wrapped processor, then shut the wrapped processor down."""
        self._release(self._others.kept(), EvalStatus.SHUTDOWN)
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait for scores, pass all held spans, then flush the wrapped processor.

        The wait ends after `hold_timeout` or `timeout_millis`, whichever is shorter.
        """
        began = time.monotonic()
        kept = self._others.kept(min(self._wait, timeout_millis / 1000))
        self._release(kept, EvalStatus.TIMEOUT)
        spent = int((time.monotonic() - began) * 1000)
        return self._inner.force_flush(max(0, timeout_millis - spent))

    def _release(self, kept: Iterable[OtherSpan], status: EvalStatus) -> None:
        for other in kept:
            try:
                other.set_attributes({semconv.EVAL_STATUS: status.value})
                other.end()
            except Exception as error:  # noqa: BLE001 - the user's processor may raise
                self._incidents.report("span end", error)


def wrap_processors(provider: object, evals: RagEval) -> bool:
    # The SDK has no public API that replaces processors.
    processors = getattr(provider, "_active_span_processor", None)
    inner = getattr(processors, "_span_processors", None)
    if processors is None or not inner or not isinstance(inner, tuple):
        return False
    with processors._lock:
        processors._span_processors = tuple(
            RagEvalSpanProcessor(one, evals) for one in processors._span_processors
        )
    return True


class _ScoredSpan(ReadableSpan):
    def __init__(self, span: ReadableSpan, addition: Addition) -> None:
        # Copy the private state, because the public constructor loses the count of dropped events.
        vars(self).update(vars(span))
        attributes, links = addition
        self._attributes = {**(span.attributes or {}), **attributes}
        self._links = (*span.links, *map(Link, links))
