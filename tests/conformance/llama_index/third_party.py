"""Handlers of somebody else on LlamaIndex's root dispatcher, which write down all that they get.

Two runs compare equal where everything that the handlers were given was equal, in the order of
each span, but for times, identities, and the order between spans, which depends on threads.
"""

from __future__ import annotations

import gc
import logging
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from inspect import BoundArguments
from typing import Any, Self

from llama_index.core.base.response.schema import Response, StreamingResponse
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from pydantic import BaseModel, PrivateAttr

_IDENTITY = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{1,27}|0x[0-9a-f]{6,}|[0-9a-f-]+\.\.\.")
"""Of an identity that LlamaIndex cuts off in an event, the beginning counts."""
_DIFFERENT_EACH_TIME = {
    "timestamp",
    "id_",
    "span_id",
    "created",
    "raw",
    "run_id",
    "llamaindex.run_id",
}
_RESPONSES = (Response, StreamingResponse)
_DEPTH = 5


class Notes:
    """Notes of handlers by span, in order."""

    def __init__(self) -> None:
        self._lines: dict[str | None, list[tuple[Any, ...]]] = {}

    def add(self, span: str | None, *line: Any) -> None:
        self._lines.setdefault(span, []).append((span, *line))

    def all(self) -> list[str]:
        """Return the lines of each span in order, with identities numbered in them."""
        return sorted(numbered(repr(lines)) for lines in self._lines.values())


class WritesNotes(BaseModel):
    """Handler that writes down its calls."""

    _notes: Notes = PrivateAttr(default_factory=Notes)

    @classmethod
    def to(cls, notes: Notes) -> Self:
        made = cls()
        made._notes = notes
        return made


class OtherSpans(WritesNotes, BaseSpanHandler[BaseSpan]):
    """Span handler that keeps spans of its own, and writes down its calls."""

    @classmethod
    def class_name(cls) -> str:
        return "OtherSpans"

    def new_span(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        parent_span_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> BaseSpan:
        given = {name: plain(value) for name, value in bound_args.arguments.items()}
        self._notes.add(id_, "enter", parent_span_id, given, plain(tags), sorted(kwargs))
        return BaseSpan(id_=id_, parent_id=parent_span_id)

    def prepare_to_exit_span(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        result: Any | None = None,
        **kwargs: Any,
    ) -> BaseSpan | None:
        self._notes.add(id_, "exit", type(instance).__name__, plain(result), sorted(kwargs))
        return self.open_spans.get(id_)

    def prepare_to_drop_span(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> BaseSpan | None:
        self._notes.add(id_, "drop", type(instance).__name__, plain(err), sorted(kwargs))
        return self.open_spans.get(id_)


class OtherEvents(WritesNotes, BaseEventHandler):
    """Event handler that writes down its calls."""

    @classmethod
    def class_name(cls) -> str:
        return "OtherEvents"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        self._notes.add(event.span_id, "event", plain(event), sorted(kwargs))


class Observed(BaseModel):
    """Everything that anybody else can see of a behaviour."""

    result: str = ""
    notes: list[str] = []
    open_spans: int = 0
    logged: list[str] = []


def plain(value: Any, depth: int = _DEPTH) -> Any:
    """Return a value as plain data that compares equal for equal values."""
    if value is None or isinstance(value, (bool, int, str, Enum)):
        return value
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, Iterator):
        # An application's own stream is replaced by a generator: see `watch_streams`.
        return "stream"
    return type(value).__name__ if depth == 0 else _plain_parts(value, depth - 1)


def _plain_parts(value: Any, depth: int) -> Any:
    if isinstance(value, BaseException):
        cause = value.__cause__ and plain(value.__cause__, depth)
        frames = [frame.name for frame in traceback.extract_tb(value.__traceback__)]
        return (type(value).__name__, str(value), cause, frames)
    if isinstance(value, Mapping):
        return {str(k): plain(v, depth) for k, v in value.items() if k not in _DIFFERENT_EACH_TIME}
    if isinstance(value, (list, tuple)):
        return [plain(held, depth) for held in value]
    if isinstance(value, (set, frozenset)):
        return sorted(repr(plain(held, depth)) for held in value)
    fields = vars(value) if isinstance(value, (BaseModel, *_RESPONSES)) else {}
    return type(value).__name__, plain(fields, depth + 1)


@contextmanager
def installed(
    spans: BaseSpanHandler[Any] | None, events: BaseEventHandler | None
) -> Iterator[None]:
    root = get_dispatcher()
    if spans is not None:
        root.add_span_handler(spans)
    if events is not None:
        root.add_event_handler(events)
    try:
        yield
    finally:
        root.span_handlers = [handler for handler in root.span_handlers if handler is not spans]
        root.event_handlers = [handler for handler in root.event_handlers if handler is not events]


@contextmanager
def listening() -> Iterator[Observed]:
    """Have handlers that write everything down, and fill what is observed at the end."""
    observed, notes, records = Observed(), Notes(), _Records()
    spans, events = OtherSpans.to(notes), OtherEvents.to(notes)
    with warnings.catch_warnings(record=True) as warned, records, installed(spans, events):
        warnings.simplefilter("ignore")
        # Of coroutines that nobody awaits.
        warnings.simplefilter("always", RuntimeWarning)
        yield observed
        # Tasks and coroutines that nobody waited for complain when they go.
        gc.collect(1)
    observed.notes, observed.open_spans = notes.all(), len(spans.open_spans)
    observed.logged = sorted(records.texts + [numbered(str(one.message)) for one in warned])


class _Records(logging.Handler):
    """Records of all loggers but ours, while entered."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("rag_eval_hooks"):
            # Without representations of objects, which may be cut at any place.
            text = re.split("[(<]", record.getMessage())[0]
            self.texts.append(numbered(f"{record.name}: {text} {plain(record.exc_info)}"))

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)


def numbered(text: str) -> str:
    """Return a text with each identity replaced by the number of its first appearance."""
    numbers: dict[str, str] = {}
    number: Callable[[re.Match[str]], str] = lambda m: numbers.setdefault(  # noqa: E731
        m[0], f"#{len(numbers)}"
    )
    return _IDENTITY.sub(number, text)
