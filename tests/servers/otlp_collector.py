"""An OTLP/HTTP collector on loopback."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

__all__ = ["OtlpCollector"]


class OtlpCollector:
    """Takes spans and metrics, or refuses them.

    Args:
        status: HTTP status of each answer.

    Attributes:
        paths: Paths of the requests, in order.
        span_names: Names of the spans, in order.
        spans: Spans by name, as protobuf messages; of several with one name the last.
        metrics: Names of the metrics.
        url: Endpoint, without a path.
    """

    def __init__(self, status: int = 200) -> None:
        self.paths: list[str] = []
        self.span_names: list[str] = []
        self.spans: dict[str, Any] = {}
        self.metrics: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, path: str, body: bytes) -> None:
        """Add what a request holds."""
        self.paths.append(path)
        if path == "/v1/metrics":
            for measured in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for part in measured.scope_metrics:
                    self.metrics |= {metric.name for metric in part.metrics}
            return
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.span_names += [span.name for span in scope.spans]
                self.spans |= {span.name: span for span in scope.spans}
