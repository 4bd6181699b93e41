"""Limits the number of attributes per span, and of distinct values per metric attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, TypeVar

from opentelemetry.trace import Span, SpanContext

from rag_eval_hooks import semconv
from rag_eval_hooks.request import Attributes

V = TypeVar("V")
_MAX_VALUES: Final = 50
_MAX_OURS: Final = 100
"""Maximum number of our attributes per span. By default, the SDK keeps 128 and drops the oldest."""


def present(attributes: Mapping[str, V | None]) -> dict[str, V]:
    """Return the attributes that have a value, with enum members as plain values for exporters."""
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
    """Return the SDK's maximum length of an attribute's text, or None without a limit."""
    limit = getattr(getattr(span, "_limits", None), "max_span_attribute_length", None)
    return None if limit is None else int(limit)


def fitting(span: object, attributes: Attributes) -> Attributes:
    """Return the first attributes that fit on the span, and a count of omitted attributes.

    A full span gets no attribute, because the SDK would drop one of the application's attributes.
    """
    room = attribute_room(span)
    left = _MAX_OURS if room is None else min(room, _MAX_OURS)
    old = getattr(span, "attributes", None) or {}
    new = [key for key in attributes if key not in old]
    if len(new) <= left:
        return attributes
    omitted = set(new[max(0, left - 1) :])
    chosen = {key: value for key, value in attributes.items() if key not in omitted}
    if left:
        chosen[semconv.EVAL_OMITTED] = len(omitted)
    return chosen


def complete(span: Span, attributes: Attributes, links: Sequence[SpanContext] = ()) -> None:
    span.set_attributes(fitting(span, attributes))
    for link in links[: _room(span, "max_links", "links")]:
        span.add_link(link)


class ValueLimit:
    """Limits each attribute of OpenTelemetry metrics to 50 values. Others become `other`."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def of(self, attribute: str, value: str) -> str:
        seen = self._seen.setdefault(attribute, set())
        if value not in seen and len(seen) >= _MAX_VALUES:
            return "other"
        seen.add(value)
        return value

    def apply(self, attributes: Mapping[str, str]) -> dict[str, str]:
        return {key: self.of(key, value) for key, value in attributes.items()}
