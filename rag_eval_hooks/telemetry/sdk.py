"""The part of `setup_tracing` that needs the OpenTelemetry SDK."""

from __future__ import annotations

import logging
from typing import Any

import requests
from opentelemetry import _logs, metrics, trace
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

_logger = logging.getLogger("rag_eval_hooks")
_NOT_TAKEN = (404, 405, 501)
"""HTTP statuses of a receiver that rejects a signal. Most trace viewers reject metrics and logs."""


def set_providers(
    endpoint: str | None, console: bool, service_name: str | None
) -> tuple[TracerProvider, list[Any]]:
    resource = Resource.create()
    is_unnamed = str(resource.attributes.get(SERVICE_NAME)).startswith("unknown_service")
    if service_name is not None and is_unnamed:
        resource = resource.merge(Resource({SERVICE_NAME: service_name}))
    provider = TracerProvider(resource=resource)
    exports = endpoint is not None or not console
    if exports:
        exporter = OTLPSpanExporter(endpoint=_url(endpoint, "traces"))
        provider.add_span_processor(BatchSpanProcessor(exporter))
    if console:
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    trace.set_tracer_provider(provider)
    if trace.get_tracer_provider() is not provider:
        provider.shutdown()
        raise RuntimeError("A tracer provider is already set. Add span processors to it.")
    return provider, _set_further(resource, endpoint) if exports else []


def _set_further(resource: Resource, endpoint: str | None) -> list[Any]:
    session = requests.Session()
    session.hooks["response"].append(_accept)
    made: list[Any] = []
    if "Proxy" in type(metrics.get_meter_provider()).__name__:
        exporter = OTLPMetricExporter(endpoint=_url(endpoint, "metrics"), session=session)
        made.append(MeterProvider([PeriodicExportingMetricReader(exporter)], resource=resource))
        metrics.set_meter_provider(made[-1])
    if "Proxy" in type(_logs.get_logger_provider()).__name__:
        records = OTLPLogExporter(endpoint=_url(endpoint, "logs"), session=session)
        logs = LoggerProvider(resource=resource)
        logs.add_log_record_processor(BatchLogRecordProcessor(records))
        _logs.set_logger_provider(logs)
        made.append(logs)
    return made


def _url(endpoint: str | None, signal: str) -> str | None:
    # If the result is None, the exporter reads the URL from the environment.
    return None if endpoint is None else traces_at(endpoint).removesuffix("traces") + signal


def _accept(response: Any, *_: Any, **__: Any) -> Any:
    if response.status_code in _NOT_TAKEN:
        _logger.debug("%s rejects exported data (HTTP %d).", response.url, response.status_code)
        response.status_code = 200
    return response
