"""Parts of `setup_tracing` that need the OpenTelemetry SDK."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)

from rag_eval_hooks.config.env_and_file import traces_at

__all__ = ["OtlpFileExporter", "build_provider"]


def build_provider(
    otlp_endpoint: str | None, console: bool, path: str | Path | None
) -> TracerProvider:
    """Return a provider with the exporters asked for; it is not set as the global one."""
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME)).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "rag"}))
    provider = TracerProvider(resource=resource)
    if otlp_endpoint is not None:
        traces = traces_at(otlp_endpoint)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=traces)))
    elif not console and path is None:
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if console:
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    if path is not None:
        provider.add_span_processor(BatchSpanProcessor(OtlpFileExporter(path)))
    return provider


class OtlpFileExporter(SpanExporter):
    """Appends each batch as one OTLP/JSON line.

    Args:
        path: The file; its folder must exist.
    """

    def __init__(self, path: str | Path) -> None:
        self._file: TextIO = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - until shutdown

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write a batch."""
        try:
            message = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
            self._file.write(json.dumps(_with_hex_ids(message), ensure_ascii=False) + "\n")
            self._file.flush()
        except (OSError, ValueError):
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the file."""
        self._file.close()


def _with_hex_ids(value: Any) -> Any:
    """Return a message with ids in hex, as OTLP/JSON has them, instead of base64."""
    if isinstance(value, list):
        return [_with_hex_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _hex(item) if key in ("traceId", "spanId", "parentSpanId") else _with_hex_ids(item)
        for key, item in value.items()
    }


def _hex(encoded: str) -> str:
    return base64.b64decode(encoded).hex()
