"""`RagEvalSpanProcessor`: lets the spans of other instrumentors carry our scores."""

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
from rag_eval_hooks.telemetry.other_span import Addition, OtherSpan

__all__ = ["RagEvalSpanProcessor", "wrap_processors"]


class RagEvalSpanProcessor(SpanProcessor):
    """Wraps a span processor; a RAG span of another instrumentor waits here for its scores.

    With OpenInference, Traceloop or another instrumentor active, `spans="auto"` writes no second
    set of spans. Their RAG span ends with the request, before the scores are there. This
    processor keeps it back, at most `hold_timeout` seconds and at most `max_held` of them, and
    passes it on with the scores. Every other span goes through untouched and at once; every span
    is passed on exactly once.

    ```python
    evals = RagEval()
    exporter = BatchSpanProcessor(OTLPSpanExporter())
    provider.add_span_processor(RagEvalSpanProcessor(exporter, evals))
    ```

    Args:
        inner: The processor that would have been added to the provider.
        evals: Whose scores the spans are to carry.
    """

    def __init__(self, inner: SpanProcessor, evals: RagEval) -> None:
        self._inner = inner
        # A collected evaluator is closed.
        self._evals = checked(evals)
        self._others = evals.others
        self._incidents = evals.incidents
        self._wait = evals.config.hold_timeout
        self._others.attach()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Pass on the start of a span."""
        self._inner.on_start(span, parent_context)

    def _on_ending(self, span: Span) -> None:
        # The SDK's own hook, younger than some processors that can be wrapped.
        if (hook := getattr(self._inner, "_on_ending", None)) is not None:
            hook(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a RAG span that waits for scores; pass on any other."""
        try:
            addition = self._others.ended(span, self._export)
        except Exception as error:  # noqa: BLE001 - the host's edge: the span must get through
            self._incidents.report("span processor", error)
            addition = {}, ()
        if addition is not None:
            self._export(span, addition)

    def _export(self, span: ReadableSpan, addition: Addition) -> None:
        self._inner.on_end(_ScoredSpan(span, addition) if any(addition) else span)

    def shutdown(self) -> None:
        """Pass on the kept spans, then shut down the inner processor."""
        self._release(self._others.kept(), EvalStatus.SHUTDOWN)
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Pass on the kept spans, with scores if they come in time, and flush.

        Waits at most `hold_timeout` and `timeout_millis` for scores; what still lacks them then
        is passed on as `timeout`.
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
            except Exception as error:  # noqa: BLE001 - the sink's edge: processors are the user's
                self._incidents.report("span end", error)


def wrap_processors(provider: object, evals: RagEval) -> bool:
    """Let every processor that a provider of the SDK has by now wait for scores.

    For providers that no code of the application made; the SDK has no public way to it.

    Returns:
        Whether there was anything to wrap.
    """
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
    """An ended span with attributes and links added; the original stays as it is."""

    def __init__(self, span: ReadableSpan, addition: Addition) -> None:
        attributes, links = addition
        super().__init__(
            name=span.name,
            context=span.get_span_context(),
            parent=span.parent,
            resource=span.resource,
            attributes={**(span.attributes or {}), **attributes},
            events=span.events,
            links=(*span.links, *map(Link, links)),
            kind=span.kind,
            status=span.status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )
        self._original = span

    @property
    def dropped_attributes(self) -> int:
        """Attributes that the original lost to the SDK's limit."""
        return self._original.dropped_attributes

    @property
    def dropped_events(self) -> int:
        """Events that the original lost."""
        return self._original.dropped_events

    @property
    def dropped_links(self) -> int:
        """Links that the original lost."""
        return self._original.dropped_links
