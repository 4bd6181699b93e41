"""Whether an OTLP receiver takes a span."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from rag_eval_hooks.cli.doctor.result import Result, Setup, Status

__all__ = ["check_exporter"]


class _Statuses(logging.Handler):
    """Keeps the status codes that an exporter logs, and nothing else of its messages."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.codes: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.codes += re.findall(r"code: (\d{3})", record.getMessage())


def check_exporter(setup: Setup) -> Iterator[Result]:
    """Sends one test span, as the SDK's own exporter does."""
    if setup.otlp_endpoint is None:
        text = "no OTLP endpoint is set; spans go where the application's provider sends them"
        advice = "to check one: --otlp-endpoint URL, or OTEL_EXPORTER_OTLP_ENDPOINT"
        yield Result(check="exporter", status=Status.NOTE, text=text, advice=advice)
        return
    try:
        accepted, codes = _send(setup.otlp_endpoint, setup.timeout)
    except ImportError:
        text = "the SDK and its OTLP exporter are not installed"
        advice = 'pip install "rag-eval-hooks[otel]"'
        yield Result(check="exporter", status=Status.FAILED, text=text, advice=advice)
        return
    if accepted is None:
        text = "the SDK makes no spans here: no application of this environment sends any"
        advice = "unset OTEL_SDK_DISABLED"
        yield Result(check="exporter", status=Status.FAILED, text=text, advice=advice)
        return
    place = _place(setup.otlp_endpoint)
    if accepted:
        yield Result(check="exporter", status=Status.OK, text=f"{place} took a test span")
        return
    why = f"HTTP {codes[-1]}" if codes else "it cannot be reached"
    yield Result(
        check="exporter",
        status=Status.FAILED,
        text=f"{place} took no span: {why}",
        advice="check the endpoint (port 4318 is OTLP over HTTP, 4317 is gRPC, and "
        "OTEL_EXPORTER_OTLP_ENDPOINT is without /v1/traces), its key in "
        "OTEL_EXPORTER_OTLP_HEADERS, and that it runs",
    )


def _send(endpoint: str, timeout: float) -> tuple[bool | None, list[str]]:
    """Whether the span was taken, None where the SDK is disabled; and the statuses it met."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    # Whatever share of the application's traces OTEL_TRACES_SAMPLER keeps, this one is sent.
    tracer = TracerProvider(sampler=ALWAYS_ON).get_tracer("rag_eval_hooks")
    span = tracer.start_span("rag-eval-hooks doctor")
    span.end()
    if not isinstance(span, ReadableSpan):
        return None, []
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=max(1, round(timeout)))
    statuses = _Statuses()
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    before = logger.propagate
    logger.addHandler(statuses)
    logger.propagate = False
    try:
        result = exporter.export([span])
    finally:
        logger.removeHandler(statuses)
        logger.propagate = before
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return result is SpanExportResult.SUCCESS, statuses.codes


def _place(endpoint: str) -> str:
    """The endpoint without what may be secret in it."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
