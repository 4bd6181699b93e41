"""Handlers of third parties that record all events of LlamaIndex's root dispatcher."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any

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
    *("timestamp", "id_", "span_id", "created", "raw", "run_id", "llamaindex.run_id"),
}


class Notes:
    def __init__(self) -> None:
        self._lines: dict[str | None, list[tuple[Any, ...]]] = {}

    def add(self, span: str | None, *line: Any) -> None:
        self._lines.setdefault(span, []).append((span, *line))

    def all(self) -> list[str]:
        return sorted(numbered(repr(lines)) for lines in self._lines.values())


class OtherSpans(BaseSpanHandler[BaseSpan]):
    _notes: Notes = PrivateAttr(default_factory=Notes)

    @classmethod
    def class_name(cls) -> str:
        return "OtherSpans"

    def new_span(
        self,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        parent_span_id: str | None = None,
        tags: Any = None,
        **kwargs: Any,
    ) -> BaseSpan:
        given = {name: plain(value) for name, value in bound_args.arguments.items()}
        self._notes.add(id_, "enter", parent_span_id, given, plain(tags), sorted(kwargs))
        return BaseSpan(id_=id_, parent_id=parent_span_id)

    def prepare_to_exit_span(
        self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **kwargs: Any
    ) -> BaseSpan | None:
        self._notes.add(id_, "exit", type(instance).__name__, plain(result), sorted(kwargs))
        return self.open_spans.get(id_)

    def prepare_to_drop_span(
        self, id_: str, bound_args: Any, instance: Any = None, err: Any = None, **kwargs: Any
    ) -> BaseSpan | None:
        self._notes.add(id_, "drop", type(instance).__name__, plain(err), sorted(kwargs))
        return self.open_spans.get(id_)


class OtherEvents(BaseEventHandler):
    _notes: Notes = PrivateAttr(default_factory=Notes)

    @classmethod
    def class_name(cls) -> str:
        return "OtherEvents"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        self._notes.add(event.span_id, "event", plain(event), sorted(kwargs))


def handlers(notes: Notes) -> tuple[OtherSpans, OtherEvents]:
    spans, events = OtherSpans(), OtherEvents()
    spans._notes = events._notes = notes
    return spans, events


@contextmanager
def installed(spans: BaseSpanHandler[Any], *events: BaseEventHandler) -> Iterator[None]:
    root = get_dispatcher()
    root.add_span_handler(spans)
    for each in events:
        root.add_event_handler(each)
    try:
        yield
    finally:
        root.span_handlers = [one for one in root.span_handlers if one is not spans]
        root.event_handlers = [one for one in root.event_handlers if one not in events]


def plain(value: Any, depth: int = 5) -> Any:
    if value is None or isinstance(value, (bool, int, str, Enum)):
        return value
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, Iterator):
        # An application's own stream is replaced by a generator.
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
        if value and isinstance(value[0], float):  # an embedding
            return hash(tuple(value))
        return [plain(held, depth) for held in value]
    if isinstance(value, (set, frozenset)):
        return sorted(repr(plain(held, depth)) for held in value)
    fields = vars(value) if isinstance(value, (BaseModel, Response, StreamingResponse)) else {}
    return type(value).__name__, plain(fields, depth + 1)


def numbered(text: str) -> str:
    numbers: dict[str, str] = {}
    number: Callable[[re.Match[str]], str] = lambda m: numbers.setdefault(  # noqa: E731
        m[0], f"#{len(numbers)}"
    )
    return _IDENTITY.sub(number, text)
