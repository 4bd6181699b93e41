"""OTLP as Jaeger stores and shows it, by its published rules.

The mapping is that of OpenTelemetry's document "OpenTelemetry to Jaeger Transformation"; the
warnings are those of the adjusters that Jaeger's query service applies to every trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["JaegerSpan", "jaeger_spans", "values", "warnings_of"]

_KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
_STATUS = {1: "OK", 2: "ERROR"}
_DROPPED = (
    ("attributes", "droppedAttributesCount"),
    ("events", "droppedEventsCount"),
    ("links", "droppedLinksCount"),
)


@dataclass(frozen=True)
class JaegerSpan:
    """A span as Jaeger's query API tells it; times in nanoseconds."""

    trace_id: str
    span_id: str
    operation: str
    start: int
    duration: int
    tags: Mapping[str, tuple[str, Any]]
    references: tuple[tuple[str, str, str], ...]
    service: str
    host: str
    logs: int = field(default=0)

    @property
    def parent(self) -> str | None:
        """The span that it is a child of, in the same trace."""
        of = [span for kind, _, span in self.references if kind == "CHILD_OF"]
        return of[0] if of else None

    @property
    def end(self) -> int:
        return self.start + self.duration


def jaeger_spans(requests: Iterable[Mapping[str, Any]]) -> Iterator[JaegerSpan]:
    """The spans of OTLP/JSON export requests."""
    for request in requests:
        for resource in request["resourceSpans"]:
            about = dict(map(_tag, resource.get("resource", {}).get("attributes", ())))
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    yield _span(span, scope.get("scope", {}), about)


def values(span: JaegerSpan) -> dict[str, Any]:
    """Return the values of a span's tags."""
    return {key: value for key, (_, value) in span.tags.items()}


def _span(
    span: Mapping[str, Any], scope: Mapping[str, Any], about: Mapping[str, Any]
) -> JaegerSpan:
    tags = dict(map(_tag, span.get("attributes", ())))
    for key in ("name", "version"):
        if key in scope:
            tags[f"otel.scope.{key}"] = ("string", scope[key])
    if span.get("kind") in _KINDS:
        tags["span.kind"] = ("string", _KINDS[span["kind"]])
    tags |= {
        f"otel.dropped_{of}_count": ("int64", span[key]) for of, key in _DROPPED if key in span
    }
    if span.get("traceState"):
        tags["w3c.tracestate"] = ("string", span["traceState"])
    if span.get("status", {}).get("message"):
        tags["otel.status_description"] = ("string", span["status"]["message"])
    code = span.get("status", {}).get("code", 0)
    if code in _STATUS:
        tags["otel.status_code"] = ("string", _STATUS[code])
    if code == 2:
        tags["error"] = ("bool", True)
    host = next((about[k][1] for k in ("host.id", "host.ip", "host.name") if k in about), "")
    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    return JaegerSpan(
        trace_id=span["traceId"],
        span_id=span["spanId"],
        operation=span["name"],
        start=start,
        duration=end - start,
        tags=tags,
        references=tuple(_references(span)),
        service=str(about.get("service.name", ("", "OTLPResourceNoServiceName"))[1]),
        host=str(host),
        logs=len(span.get("events", ())),
    )


def _references(span: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The parent comes first, links follow."""
    if span.get("parentSpanId"):
        yield "CHILD_OF", span["traceId"], span["parentSpanId"]
    for link in span.get("links", ()):
        yield "FOLLOWS_FROM", link["traceId"], link["spanId"]


def _tag(attribute: Mapping[str, Any]) -> tuple[str, tuple[str, Any]]:
    """Primitive types stay; what is a list becomes a text of JSON."""
    ((kind, value),) = attribute["value"].items()
    if kind == "stringValue":
        return attribute["key"], ("string", value)
    if kind == "boolValue":
        return attribute["key"], ("bool", value)
    if kind == "intValue":
        return attribute["key"], ("int64", int(value))
    if kind == "doubleValue":
        return attribute["key"], ("float64", float(value))
    items = [_tag({"key": "", "value": item})[1][1] for item in value.get("values", ())]
    return attribute["key"], ("string", json.dumps(items))


def warnings_of(trace: Iterable[JaegerSpan]) -> list[str]:
    """Return Jaeger's warnings of a trace: ids that repeat or lead nowhere, and clock skew."""
    spans = list(trace)
    by_id = {span.span_id: span for span in spans}
    told = ["duplicate span IDs"] * (len(spans) - len(by_id))
    for span in spans:
        if span.parent is None:
            continue
        if span.parent not in by_id:
            told.append(f"parent span ID={span.parent} is not in the trace")
        elif delta := _skew(span, by_id[span.parent]):
            told.append(f"clock skew: {span.operation} by {delta} ns")
    return told


def _skew(child: JaegerSpan, parent: JaegerSpan) -> int:
    """By how much Jaeger would move a child; spans of one known host are left alone."""
    if child.host == parent.host != "":
        return 0
    if child.duration > parent.duration:
        return max(0, parent.start - child.start)
    if child.start >= parent.start and child.end <= parent.end:
        return 0
    return parent.start + (parent.duration - child.duration) // 2 - child.start
