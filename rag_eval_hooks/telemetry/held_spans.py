"""RAG spans that wait for scores: this package's spans, and spans of other instrumentors."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.trace import Span, SpanContext

from rag_eval_hooks.config import limits
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import Attributes, HeldSpan
from rag_eval_hooks.telemetry.span_limits import complete, fitting

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_POLL_S: Final = 0.01
Addition: TypeAlias = tuple[Attributes, Sequence[SpanContext]]
Export: TypeAlias = "Callable[[ReadableSpan, Addition], None]"


class DeferredSpan:
    """This package's RAG span, whose content a background thread writes. Thread-safe."""

    def __init__(
        self, span: Span, write: Callable[[bool], None], chars: int, incidents: Incidents
    ) -> None:
        self.chars = chars
        self._span = span
        self._write: Callable[[bool], None] | None = write
        self._incidents = incidents
        # The sample's redaction shares the session, so redaction waits until spans are written.
        self._writing = threading.Lock()
        self._lock = threading.RLock()
        self._is_ended = False
        # Calls to run after the content, which may evict earlier attributes. Afterwards None.
        self._later: list[Callable[[], None]] | None = []

    def complete(self, *, content: bool = True) -> None:
        # Without `content`, `write` omits the application's texts.
        with self._writing:
            write, self._write = self._write, None
            if write is None:
                return
            self._guarded("span start", lambda: write(content))
            with self._lock:
                later, self._later = self._later, None
                for call in later or ():
                    self._guarded("span attributes", call)

    def _guarded(self, event: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the application's span processors may raise anything
            self._incidents.report(event, error)

    def _call(self, call: Callable[[], None]) -> None:
        with self._lock:
            if self._later is not None:
                self._later.append(call)
                return
        call()

    def is_recording(self) -> bool:
        return not self._is_ended

    def set_attributes(self, attributes: Attributes) -> None:
        self._call(lambda: complete(self._span, attributes))

    def add_link(self, context: SpanContext) -> None:
        self._call(lambda: complete(self._span, {}, [context]))

    def end(self, end_time: int | None = None) -> None:
        with self._lock:
            if self._is_ended:
                return
            self._is_ended = True
        self._call(lambda: self._span.end(end_time))


class OtherSpan:
    """Another instrumentor's RAG span. Thread-safe.

    The span accepts scores until the instrumentor ends the span. `RagEvalSpanProcessor` also adds
    scores that arrive later.
    """

    def __init__(
        self, span: Span, waits: Callable[[], bool], spans: OtherSpans, *, processed: bool
    ) -> None:
        self.context = span.get_span_context()
        self._spans = spans
        self.held = HeldSpan(self, 0)
        self._span: Span | None = span
        self._waits = waits  # called at the span's end; True if scores will follow
        self._processed = processed
        self._lock = threading.Lock()
        self._kept: list[tuple[ReadableSpan, Export]] = []
        self._done = False
        self._attributes: Attributes = {}
        self._links: list[SpanContext] = []

    def is_recording(self) -> bool:
        with self._lock:
            if self._done or self._span is None:
                return False
            return self._processed or self._span.is_recording()

    def set_attributes(self, attributes: Attributes) -> None:
        with self._lock:
            if not self._done and self._span is not None:
                self._attributes = {**self._attributes, **fitting(self._span, attributes)}

    def add_link(self, context: SpanContext) -> None:
        with self._lock:
            if not self._done:
                self._links.append(context)

    def keep(self, span: ReadableSpan, export: Export) -> Addition | None:
        with self._lock:
            if self._done:
                return self._attributes, self._links
            if not self._waits():
                self._span = None
                return {}, ()
            self._spans.waiting[self] = None
            self._kept.append((span, export))
            return None

    def end(self, end_time: int | None = None) -> None:
        with self._lock:
            if self._done:
                return
            self._done = True
            kept, self._kept = self._kept, []
            span, self._span = self._span, None
            self._waits = bool  # drops the reference to the request
        if not self._processed and span is not None and span.is_recording():
            complete(span, self._attributes, self._links)
        # Export every span, even after a processor raised.
        with ExitStack() as calls:
            calls.callback(self._spans.waiting.pop, self, None)
            for ended, export in reversed(kept):
                calls.callback(export, ended, (self._attributes, self._links))


class OtherSpans:
    """The RAG spans of other instrumentors. Thread-safe.

    `OtherSpans` calls `hold` with each finished span that must wait for scores.
    """

    def __init__(self, hold: Callable[[HeldSpan], None]) -> None:
        self._hold = hold
        self.processors = 0
        self.forked()

    def forked(self) -> None:
        self._lock = threading.Lock()
        self._spans: OrderedDict[tuple[int, int], tuple[OtherSpan, int]] = OrderedDict()
        # Each use is one call of a dict's method, which needs no lock.
        self.waiting: dict[OtherSpan, None] = {}

    def add(self, span: Span, waits: Callable[[], bool]) -> OtherSpan:
        other = OtherSpan(span, waits, self, processed=self.processors > 0)
        if self.processors:
            oldest = None
            with self._lock:
                self._spans[_key(other.context)] = other, self.processors
                if len(self._spans) > limits.HELD_SPANS:
                    _, (oldest, _) = self._spans.popitem(last=False)
            if oldest is not None:
                oldest.end()
        return other

    def ended(self, span: ReadableSpan, export: Export) -> Addition | None:
        """Return the attributes and links to add to a span. None means that the span waits."""
        key = _key(span.get_span_context())
        with self._lock:
            other, processors = self._spans.pop(key, (None, 0))
            # Each wrapped processor calls `ended` once per span.
            if other is not None and processors > 1:
                self._spans[key] = other, processors - 1
        if other is None:
            return {}, ()
        addition = other.keep(span, export)
        if addition is None:
            self._hold(other.held)
        return addition

    def kept(self, wait: float = 0.0) -> list[OtherSpan]:
        deadline = time.monotonic() + wait
        while self.waiting and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return list(self.waiting)


def _key(context: SpanContext | None) -> tuple[int, int]:
    return (0, 0) if context is None else (context.trace_id, context.span_id)
