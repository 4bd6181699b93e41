"""OTLP as Jaeger shows it: the warnings are those that its query service adds to a trace."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

__all__ = ["JaegerSpan", "jaeger_spans", "warnings_of"]


class JaegerSpan(NamedTuple):
    """A span as Jaeger's query API tells it; times in nanoseconds."""

    trace_id: str
    span_id: str
    parent: str | None
    operation: str
    start: int
    end: int
    tags: dict[str, Any]
    host: str


def jaeger_spans(requests: Iterable[Mapping[str, Any]]) -> Iterator[JaegerSpan]:
    """Yield the spans of OTLP/JSON export requests."""
    for request in requests:
        for resource in request["resourceSpans"]:
            about = _tags(resource.get("resource", {}))
            hosts = (about[key] for key in ("host.id", "host.ip", "host.name") if key in about)
            host = str(next(hosts, ""))
            for span in (one for scope in resource["scopeSpans"] for one in scope["spans"]):
                yield JaegerSpan(
                    trace_id=span["traceId"],
                    span_id=span["spanId"],
                    parent=span.get("parentSpanId") or None,
                    operation=span["name"],
                    start=int(span["startTimeUnixNano"]),
                    end=int(span["endTimeUnixNano"]),
                    tags=_tags(span),
                    host=host,
                )


def _tags(holder: Mapping[str, Any]) -> dict[str, Any]:
    return {one["key"]: _value(one["value"]) for one in holder.get("attributes", ())}


def _value(value: Mapping[str, Any]) -> Any:
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return json.dumps([_value(item) for item in inner.get("values", ())])
    return int(inner) if kind == "intValue" else inner


def warnings_of(trace: Iterable[JaegerSpan]) -> list[str]:
    """Return Jaeger's warnings of a trace: ids that repeat or lead nowhere, and clock skew."""
    spans = list(trace)
    by_id = {span.span_id: span for span in spans}
    told = ["duplicate span IDs"] * (len(spans) - len(by_id))
    for span in spans:
        if span.parent is None:
            continue
        parent = by_id.get(span.parent)
        if parent is None:
            told.append(f"parent span ID={span.parent} is not in the trace")
        elif _is_skewed(span, parent):
            told.append(f"clock skew: {span.operation}")
    return told


def _is_skewed(child: JaegerSpan, parent: JaegerSpan) -> bool:
    """Return whether Jaeger would move a child; spans of one known host are left alone."""
    if child.host == parent.host != "":
        return False
    is_longer = child.end - child.start > parent.end - parent.start
    return child.start < parent.start or (child.end > parent.end and not is_longer)
