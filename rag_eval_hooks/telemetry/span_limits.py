"""Keeps this package's attributes and links within the limits of a span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, TypeVar

from opentelemetry.trace import Span, SpanContext

from rag_eval_hooks import semconv
from rag_eval_hooks.request import Attributes

V = TypeVar("V")
# Maximum number of our attributes per span. By default, the SDK keeps 128 and drops the oldest.
_MAX_OURS: Final = 100


def present(attributes: Mapping[str, V | None]) -> dict[str, V]:
    return {
        key: value.value if isinstance(value, Enum) else value
        for key, value in attributes.items()
        if value is not None
    }


def _room(span: object, limit: str, used: str) -> int | None:
    most = getattr(getattr(span, "_limits", None), limit, None)
    return None if most is None else max(0, int(most) - len(getattr(span, used, None) or ()))


def attribute_room(span: object) -> int | None:
    return _room(span, "max_span_attributes", "attributes")


def longest_text(span: object) -> int | None:
    limit = getattr(getattr(span, "_limits", None), "max_span_attribute_length", None)
    return None if limit is None else int(limit)


def fitting(span: object, attributes: Attributes) -> Attributes:
    room = attribute_room(span)
    left = _MAX_OURS if room is None else min(room, _MAX_OURS)
    old = getattr(span, "attributes", None) or {}
    new = [key for key in attributes if key not in old]
    if len(new) <= left:
        return attributes
    omitted = set(new[max(0, left - 1) :])
    chosen = {key: value for key, value in attributes.items() if key not in omitted}
    # On a full span, the count would push out one of the application's attributes.
    if left:
        chosen[semconv.EVAL_OMITTED] = len(omitted)
    return chosen


def complete(span: Span, attributes: Attributes, links: Sequence[SpanContext] = ()) -> None:
    span.set_attributes(fitting(span, attributes))
    for link in links[: _room(span, "max_links", "links")]:
        span.add_link(link)
