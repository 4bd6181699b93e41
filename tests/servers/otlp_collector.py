"""An OTLP collector on loopback, by HTTP and by gRPC."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.servers.loopback import LoopbackServer


class OtlpCollector:
    """Takes spans and metrics, or refuses them."""

    def __init__(self, status: int = 200, only: str | None = None) -> None:
        self.paths: list[str] = []
        self.span_names: list[str] = []
        self.spans: dict[str, Any] = {}
        self.received: list[Any] = []
        self.services: set[str] = set()
        self.log_records: list[Any] = []
        self.metrics: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, body)
                self.send_response(status if only in (None, self.path) else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._grpc: Any = None
        self._server = LoopbackServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._grpc is not None:
            self._grpc.stop(None)

    def listen_to_grpc(self) -> str:
        """Begin to take what comes by gRPC, the default of OpenTelemetry's distro."""
        grpc = pytest.importorskip("grpc")
        self._grpc = grpc.server(ThreadPoolExecutor(4))
        for signal in ("trace", "metrics", "logs"):
            name = f"opentelemetry.proto.collector.{signal}.v1.{signal.title()}Service"
            export = grpc.unary_unary_rpc_method_handler(partial(self._take_call, f"/v1/{signal}"))
            handler = grpc.method_handlers_generic_handler(name, {"Export": export})
            self._grpc.add_generic_rpc_handlers((handler,))
        port = self._grpc.add_insecure_port("127.0.0.1:0")
        self._grpc.start()
        return f"http://127.0.0.1:{port}"

    def _take_call(self, path: str, body: bytes, _: object) -> bytes:
        self.take(path, body)
        return b""

    def take(self, path: str, body: bytes) -> None:
        self.paths.append(path)
        if path == "/v1/metrics":
            for measured in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for part in measured.scope_metrics:
                    self.metrics |= {metric.name for metric in part.metrics}
        elif path == "/v1/logs":
            for logged in ExportLogsServiceRequest.FromString(body).resource_logs:
                for lines in logged.scope_logs:
                    self.log_records += lines.log_records
        else:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self._take_spans(resource)

    def _take_spans(self, resource: Any) -> None:
        about = resource.resource.attributes
        self.services |= {a.value.string_value for a in about if a.key == "service.name"}
        for scope in resource.scope_spans:
            self.received += scope.spans
            self.span_names += [span.name for span in scope.spans]
            self.spans |= {span.name: span for span in scope.spans}
