"""Spans and metrics as an application's exporters and readers see them, by the real SDK."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    def __init__(self, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def clear(self) -> None:
        self._exporter.clear()

    def named(self, start: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name.startswith(start)]

    def one(self, start: str) -> ReadableSpan:
        (span,) = self.named(start)
        return span


class Metrics:
    def __init__(self, **options: Any) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], **options)

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def by(self, name: str, *keys: str) -> dict[Any, float]:
        totals: dict[Any, float] = {}
        for point in self.points(name):
            found = tuple(_ending(point.attributes, key) for key in keys)
            key = found[0] if len(found) == 1 else found
            value = point.count if hasattr(point, "count") else point.value
            totals[key] = totals.get(key, 0) + value
        return totals

    def value(self, name: str) -> float:
        (point,) = self.points(name)
        return float(point.value)


def _ending(attributes: Any, end: str) -> Any:
    return next(value for key, value in attributes.items() if key.endswith(end))
