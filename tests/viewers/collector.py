"""Metrics and traces as the Collector of the compose file handles them, in a hundred lines.

It takes OTLP over HTTP, keeps spans, and serves metrics as OpenMetrics with exemplars, under the
names that OpenTelemetry's document "Prometheus and OpenMetrics Compatibility" gives them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

__all__ = ["Collector"]

_UNITS = {"s": "_seconds"}


class Collector:
    """Listens on a free port of the loopback device.

    Attributes:
        spans: Attributes of spans by trace and span id in hex.
    """

    def __init__(self) -> None:
        self.spans: dict[tuple[str, str], dict[str, Any]] = {}
        self._metrics: list[Any] = []
        self._exemplars: dict[tuple[Any, ...], Any] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (_Handler,), {"to": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def take_traces(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    key = span.trace_id.hex(), span.span_id.hex()
                    self.spans[key] = {one.key: _value(one.value) for one in span.attributes}

    def take_metrics(self, body: bytes) -> None:
        """Keeps the latest values; they are cumulative, exemplars are those since the last."""
        request = ExportMetricsServiceRequest.FromString(body)
        with self._lock:
            self._metrics = [
                metric
                for resource in request.resource_metrics
                for scope in resource.scope_metrics
                for metric in scope.metrics
            ]

    def exposition(self) -> bytes:
        """All metrics as OpenMetrics."""
        exposition = pytest.importorskip("prometheus_client.openmetrics.exposition")
        registry = pytest.importorskip("prometheus_client").CollectorRegistry(auto_describe=False)
        registry.register(self)
        text: bytes = exposition.generate_latest(registry)
        return text

    def collect(self) -> Iterator[Any]:
        """The metrics, as prometheus_client asks for them."""
        from prometheus_client.core import Metric

        with self._lock:
            for metric in self._metrics:
                kind = metric.WhichOneof("data")
                name = re.sub(r"\W", "_", metric.name) + _UNITS.get(metric.unit, "")
                if kind == "histogram":
                    family = Metric(name, "", "histogram")
                    for point in metric.histogram.data_points:
                        self._add_histogram(family, name, point)
                    yield family
                elif kind == "sum":
                    counts = metric.sum.is_monotonic
                    family = Metric(name, "", "counter" if counts else "gauge")
                    for point in metric.sum.data_points:
                        number = point.as_int or point.as_double
                        family.add_sample(name + "_total" * counts, _labels(point), number)
                    yield family

    def _add_histogram(self, family: Any, name: str, point: Any) -> None:
        labels, below = _labels(point), 0
        bounds = [*point.explicit_bounds, float("inf")]
        for place, (bound, count) in enumerate(zip(bounds, point.bucket_counts, strict=True)):
            below += count
            least = bounds[place - 1] if place else float("-inf")
            key = name, tuple(labels.items()), place
            for exemplar in point.exemplars:
                if least < exemplar.as_double <= bound:
                    self._exemplars[key] = _exemplar(exemplar)
            bucket = {**labels, "le": "+Inf" if bound == float("inf") else str(bound)}
            family.add_sample(f"{name}_bucket", bucket, below, None, self._exemplars.get(key))
        family.add_sample(f"{name}_count", labels, point.count)
        family.add_sample(f"{name}_sum", labels, point.sum)


def _exemplar(exemplar: Any) -> Any:
    from prometheus_client.samples import Exemplar

    ids = {"trace_id": exemplar.trace_id.hex(), "span_id": exemplar.span_id.hex()}
    return Exemplar(ids, exemplar.as_double, exemplar.time_unix_nano / 1e9)


def _labels(point: Any) -> dict[str, str]:
    return {re.sub(r"\W", "_", one.key): str(_value(one.value)) for one in point.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind) if kind else None
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return found


class _Handler(BaseHTTPRequestHandler):
    to: ClassVar[Collector]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        take = {"/v1/traces": self.to.take_traces, "/v1/metrics": self.to.take_metrics}
        # Log events are taken, too, and left unread.
        take.get(self.path, len)(body)
        self._answer(b"", "application/x-protobuf")

    def do_GET(self) -> None:
        kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
        self._answer(self.to.exposition(), kind)

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
