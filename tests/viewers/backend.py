"""One back end for every sink, which is well, down, slow or broken."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.servers.platform_server import Request, well

__all__ = ["DOWN", "FAULTS", "Backend"]

DOWN = "down"
FAULTS = ("well", DOWN, "slow", "500")


class Backend:
    """Speaks OTLP and the HTTP of the platforms, and counts what it takes.

    Args:
        fault: `down`: nothing listens; `slow`: no answer before `close`; `500`: each request fails.

    Attributes:
        samples: Samples whose scores were taken.
    """

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.samples = 0
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (_Handler,), {"to": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        if self.fault == DOWN:
            self._server.server_close()
        else:
            threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        if self.fault != DOWN:
            self._server.shutdown()
            self._server.server_close()

    def take(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """The answer to a request when all is well."""
        with self._lock:
            if path.startswith("/v1/") and (count := _OTLP.get(path)) is not None:
                self.samples = count(self.samples, body)
                return 200, b""
            content = json.loads(body) if body else None
            answer = well(Request(method, path, {}, content))
            self.samples += _samples(method, path, content)
            return answer.status, json.dumps(answer.body).encode()


def _samples(method: str, path: str, content: Any) -> int:
    """Return the number of samples of one score each in a request."""
    if path.startswith("/v1/span_annotations"):
        return len(content["data"])
    if path.startswith("/api/public/scores"):
        return len(content)
    # MLflow wants several requests a sample; each begins with one that reads.
    return int(method == "GET" or "assessments" not in path)


def _spans(before: int, body: bytes) -> int:
    request = ExportTraceServiceRequest.FromString(body)
    spans = [s for r in request.resource_spans for c in r.scope_spans for s in c.spans]
    return before + sum(span.name.startswith("invoke_workflow") for span in spans)


def _logs(before: int, body: bytes) -> int:
    request = ExportLogsServiceRequest.FromString(body)
    return before + sum(len(c.log_records) for r in request.resource_logs for c in r.scope_logs)


def _metrics(_: int, body: bytes) -> int:
    """Histograms are cumulative: the last export tells all."""
    request = ExportMetricsServiceRequest.FromString(body)
    every = [m for r in request.resource_metrics for c in r.scope_metrics for m in c.metrics]
    return sum(
        point.count
        for metric in every
        if metric.name == "rag.eval.score"
        for point in metric.histogram.data_points
    )


_OTLP = {"/v1/traces": _spans, "/v1/logs": _logs, "/v1/metrics": _metrics}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two writes; waiting for one's acknowledgement would take 40 ms each.
    disable_nagle_algorithm = True
    to: ClassVar[Backend]

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        status, content = 500, b'{"error": "broken"}'
        if self.to.fault == "slow":
            self.to.released.wait(60)
        elif self.to.fault == "well":
            status, content = self.to.take(self.command, self.path, body)
        try:
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True

    do_GET = do_POST = do_PATCH = _handle  # noqa: N815 - the base class's names

    def log_message(self, *_: Any) -> None: ...
