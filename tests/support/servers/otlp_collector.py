"""An OTLP collector on loopback, by HTTP and by gRPC."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.requests import Request
from starlette.responses import Response

from tests.support.servers.loopback import Loopback, Routes


class OtlpCollector(Loopback):
    def __init__(self, only: str | None = None) -> None:
        self.paths: list[str] = []
        self.spans: dict[str, Any] = {}
        self.received: list[Any] = []
        self.services: set[str] = set()
        self.log_records: list[Any] = []
        self.metrics: set[str] = set()
        self._only = only
        self._grpc: Any = None
        super().__init__()

    @property
    def span_names(self) -> list[str]:
        return [span.name for span in self.received]

    def routes(self) -> Routes:
        return {"/{path:path}": self._post}

    async def _post(self, request: Request) -> Response:
        body, path = await request.body(), request.url.path
        is_packed = request.headers.get("content-encoding") == "gzip"
        self.take(path, gzip.decompress(body) if is_packed else body)
        return Response(status_code=200 if self._only in (None, path) else 404)

    def __exit__(self, *ended: object) -> None:
        super().__exit__(*ended)
        if self._grpc is not None:
            self._grpc.stop(None)

    def listen_to_grpc(self) -> str:
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
            sent = metrics_pb2.ExportMetricsServiceRequest.FromString(body)
            for measured in sent.resource_metrics:
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
            self.spans |= {span.name: span for span in scope.spans}
