"""The part of `setup_tracing` that needs the OpenTelemetry SDK."""

from __future__ import annotations

import logging
from typing import Any

import requests
from opentelemetry import _logs, metrics
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SimpleSpanProcessor,
)

from rag_eval_hooks.config.sources import traces_at

__all__ = ["resource_of", "set_further_providers", "tracer_provider"]

_logger = logging.getLogger("rag_eval_hooks")
_NOT_TAKEN = (404, 405, 501)
"""HTTP statuses of a receiver that does not accept a signal, such as most trace viewers."""


def resource_of(service_name: str | None) -> Resource:
    resource = Resource.create()
    unnamed = str(resource.attributes.get(SERVICE_NAME)).startswith("unknown_service")
    if service_name is None or not unnamed:
        return resource
    return resource.merge(Resource({SERVICE_NAME: service_name}))


def tracer_provider(resource: Resource, endpoint: str | None, console: bool) -> TracerProvider:
    """Return a provider with the requested exporters. The global provider stays unchanged."""
    provider = TracerProvider(resource=resource)
    if endpoint is not None or not console:
        traces = None if endpoint is None else traces_at(endpoint)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=traces)))
    if console:
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    return provider


def set_further_providers(resource: Resource, endpoint: str | None) -> list[Any]:
    """Set and return the global metric and log providers that the application has not set."""
    session = requests.Session()
    session.hooks["response"].append(_accept)
    base = None if endpoint is None else traces_at(endpoint).removesuffix("traces")
    made: list[Any] = []
    if "Proxy" in type(metrics.get_meter_provider()).__name__:
        to = None if base is None else f"{base}metrics"
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=to, session=session))
        made.append(MeterProvider([reader], resource=resource))
        metrics.set_meter_provider(made[-1])
    if "Proxy" in type(_logs.get_logger_provider()).__name__:
        to = None if base is None else f"{base}logs"
        logs = LoggerProvider(resource=resource)
        exporter = OTLPLogExporter(endpoint=to, session=session)
        logs.add_log_record_processor(BatchLogRecordProcessor(exporter))
        made.append(logs)
        _logs.set_logger_provider(logs)
    return made


def _accept(response: Any, *_: Any, **__: Any) -> Any:
    """Treat a response as success if the receiver does not accept this signal."""
    if response.status_code in _NOT_TAKEN:
        _logger.debug("%s does not accept this signal (%d)", response.url, response.status_code)
        response.status_code = 200
    return response
