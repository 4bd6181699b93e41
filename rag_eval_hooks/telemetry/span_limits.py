"""Attributes that a span can still take without losing one of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from rag_eval_hooks import semconv

__all__ = ["Attributes", "event_room", "fitting", "link_room", "longest", "room"]

Attributes: TypeAlias = Mapping[str, str | float | int | bool | list[str]]


def room(span: object) -> int | None:
    """Attributes that the span takes before the SDK drops its oldest ones.

    Returns:
        None for no limit, or for a span of something else than OpenTelemetry's SDK.
    """
    limits = getattr(span, "_limits", None)
    limit = getattr(limits, "max_span_attributes", None)
    if limit is None:
        return None
    return max(0, int(limit) - len(getattr(span, "attributes", None) or ()))


def link_room(span: object) -> int | None:
    """The same for links."""
    limit = getattr(getattr(span, "_limits", None), "max_links", None)
    return None if limit is None else max(0, int(limit) - len(getattr(span, "links", None) or ()))


def event_room(span: object) -> int | None:
    """The same for span events."""
    limit = getattr(getattr(span, "_limits", None), "max_events", None)
    return None if limit is None else max(0, int(limit) - len(getattr(span, "events", None) or ()))


def longest(span: object) -> int | None:
    """Characters of a text that the SDK does not cut, or None for any number."""
    limit = getattr(getattr(span, "_limits", None), "max_span_attribute_length", None)
    return None if limit is None else int(limit)


def fitting(span: object, attributes: Attributes) -> Attributes:
    """The attributes that the span can take, the first ones; the count of the others instead.

    Where there is room for none, none is given: nothing of the user's is pushed out.
    """
    left = room(span)
    if left is None or len(attributes) <= left:
        return attributes
    present = getattr(span, "attributes", None) or {}
    kept = {key: value for key, value in attributes.items() if key in present}
    new = [key for key in attributes if key not in present]
    if len(new) <= left:
        return attributes
    kept |= {key: attributes[key] for key in new[: max(0, left - 1)]}
    if left:
        kept[semconv.EVAL_OMITTED] = len(new) - (left - 1)
    return kept
