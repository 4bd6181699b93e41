"""Export spans to a file with one OTLP/JSON request per line. Jaeger's UI can open the file."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

__all__ = ["OtlpFileExporter", "file_provider"]


def file_provider(path: str | Path, service_name: str = "demo") -> TracerProvider:
    """Return a provider that writes spans to a file."""
    provider = TracerProvider(resource=Resource.create({"service.name": service_name}))
    provider.add_span_processor(BatchSpanProcessor(OtlpFileExporter(path)))
    return provider


class OtlpFileExporter(SpanExporter):
    """Appends each batch as one OTLP/JSON line.

    Args:
        path: Path of the file. The folder must exist.
    """

    def __init__(self, path: str | Path) -> None:
        # Only the owner may read the file, because spans contain questions and answers.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file: TextIO = os.fdopen(descriptor, "a", encoding="utf-8")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write spans to the file."""
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
